// Writes the answer to a TokenReview as kube-apiserver does: the question again, and the verdict as status.

import { ProtobufWriter } from '../../core/kube/protobuf-writer.ts';
import { noMetadata, type ReviewMetadata, type ReviewRequest } from './read-review.ts';
import { type ReviewEncoding, reviewMediaTypes } from './review-encoding.ts';
import { acceptanceJson } from './stored-acceptance.ts';
import type { Denial, ReviewedUser, Verdict } from './verdict.ts';

export interface EncodedReview {
  readonly contentType: string;
  readonly body: string | Buffer;
}

/** The body of an answer with HTTP status 201. */
export function encodeReview(
  request: ReviewRequest,
  verdict: Verdict,
  encoding: ReviewEncoding,
): EncodedReview {
  return {
    contentType: reviewMediaTypes[encoding],
    body: encoding === 'json' ? encodeJson(request, verdict) : encodeProtobuf(request, verdict),
  };
}

const jsonHeads = {
  v1: '{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","metadata":',
  v1beta1: '{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1beta1","metadata":',
} as const;

function encodeJson(request: ReviewRequest, verdict: Verdict): string {
  const { version, question, metadata, isPlain } = request;
  const { token, audiences } = question;
  const quoted = isPlain === true ? `"${token}"` : JSON.stringify(token);
  const list = audiences.length === 0 ? '' : `,"audiences":${JSON.stringify(audiences)}`;
  const status = verdict.authenticated ? acceptanceJson(verdict) : denialJson(verdict);
  // kube-apiserver ends JSON with a line feed.
  return `${jsonHeads[version]}${metadataJson(metadata)},"spec":{"token":${quoted}${list}},"status":${status}}\n`;
}

function metadataJson(metadata: ReviewMetadata): string {
  return metadata === noMetadata ? '{}' : JSON.stringify(metadata);
}

/** `authenticated` is left out when false, and `user` is an empty object then, as Go writes it. */
function denialJson({ error }: Denial): string {
  return error === undefined ? '{"user":{}}' : `{"user":{},"error":${JSON.stringify(error)}}`;
}

const writer = new ProtobufWriter();

/** Go writes fields without a value too, so the empty ones are here as well. */
function encodeProtobuf({ version, question, metadata }: ReviewRequest, verdict: Verdict): Buffer {
  return writer.envelope(`authentication.k8s.io/${version}`, 'TokenReview', () => {
    writer.message(3, () => writeStatus(verdict));
    writer.message(2, () => {
      writer.texts(2, question.audiences);
      writer.text(1, question.token);
    });
    writer.message(1, () => writeMetadata(metadata));
  });
}

/** From namespace (3) to creationTimestamp (8), all empty. */
const emptyFields = Buffer.from('1a0022002a00320038004200', 'hex');

function writeMetadata(metadata: ReviewMetadata): void {
  writer.map(12, metadata.annotations ?? {});
  writer.map(11, metadata.labels ?? {});
  writer.raw(emptyFields);
  writer.text(2, metadata.generateName ?? '');
  writer.text(1, metadata.name ?? '');
}

/** Field 1 as a number: the key, and the value. */
const isAuthenticated = Buffer.of(8, 1);
const isDenied = Buffer.of(8, 0);

function writeStatus(verdict: Verdict): void {
  if (verdict.authenticated) {
    writer.texts(4, verdict.audiences);
    writer.text(3, '');
    writer.message(2, () => writeUser(verdict.user));
    writer.raw(isAuthenticated);
  } else {
    writer.text(3, verdict.error ?? '');
    writer.message(2, () => writeUser(nobody));
    writer.raw(isDenied);
  }
}

const nobody: ReviewedUser = { username: '', uid: '', groups: [], extra: {} };

function writeUser({ username, uid, groups, extra }: ReviewedUser): void {
  for (const [key, values] of Object.entries(extra).toReversed()) {
    writer.message(4, () => {
      writer.message(2, () => writer.texts(1, values));
      writer.text(1, key);
    });
  }
  writer.texts(3, groups);
  writer.text(2, uid);
  writer.text(1, username);
}
