// Writes the answer to a TokenReview as kube-apiserver does: the question again, and the verdict as status.

import { writeBytes, writeEnvelope, writeMap, writeText } from '../../core/kube/protobuf.ts';
import type { ReviewMetadata, ReviewRequest } from './read-review.ts';
import { type ReviewEncoding, reviewMediaTypes } from './review-encoding.ts';
import type { ReviewedUser, TokenQuestion, Verdict } from './verdict.ts';

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

function encodeJson({ version, question, metadata }: ReviewRequest, verdict: Verdict): string {
  const spec = JSON.stringify(question.token);
  const { audiences } = question;
  const list = audiences.length === 0 ? '' : `,"audiences":${JSON.stringify(audiences)}`;
  // kube-apiserver ends JSON with a line feed.
  return `${jsonHeads[version]}${metadataJson(metadata)},"spec":{"token":${spec}${list}},"status":${statusJson(verdict)}}\n`;
}

function metadataJson(metadata: ReviewMetadata): string {
  for (const _ in metadata) return JSON.stringify(metadata);
  return '{}';
}

/** A cached verdict answers many requests, so its JSON is kept with it. */
const statuses = new WeakMap<Verdict, string>();

function statusJson(verdict: Verdict): string {
  let json = statuses.get(verdict);
  if (json === undefined) {
    json = JSON.stringify(statusOf(verdict));
    statuses.set(verdict, json);
  }
  return json;
}

/** `authenticated` is left out when false, and `user` is an empty object then, as Go writes it. */
function statusOf(verdict: Verdict): unknown {
  if (!verdict.authenticated) {
    return verdict.error === undefined ? { user: {} } : { user: {}, error: verdict.error };
  }
  return { authenticated: true, user: userJson(verdict.user), audiences: verdict.audiences };
}

function userJson({ username, uid, groups, extra }: ReviewedUser): unknown {
  return {
    username,
    uid: uid === '' ? undefined : uid,
    groups,
    extra: Object.keys(extra).length === 0 ? undefined : extra,
  };
}

function encodeProtobuf({ version, question, metadata }: ReviewRequest, verdict: Verdict): Buffer {
  const raw = Buffer.concat([
    writeBytes(1, metadataBytes(metadata)),
    writeBytes(2, specBytes(question)),
    writeBytes(3, statusBytes(verdict)),
  ]);
  return writeEnvelope(`authentication.k8s.io/${version}`, 'TokenReview', raw);
}

/** From namespace (3) to creationTimestamp (8), all empty: Go writes fields without a value too. */
const emptyFields = Buffer.from('1a0022002a00320038004200', 'hex');

function metadataBytes(metadata: ReviewMetadata): Buffer {
  return Buffer.concat([
    writeText(1, metadata.name ?? ''),
    writeText(2, metadata.generateName ?? ''),
    emptyFields,
    ...writeMap(11, metadata.labels ?? {}),
    ...writeMap(12, metadata.annotations ?? {}),
  ]);
}

function specBytes({ token, audiences }: TokenQuestion): Buffer {
  return Buffer.concat([writeText(1, token), ...audiences.map((each) => writeText(2, each))]);
}

const authenticatedField = { true: Buffer.of(8, 1), false: Buffer.of(8, 0) } as const;

function statusBytes(verdict: Verdict): Buffer {
  const denied = !verdict.authenticated;
  return Buffer.concat([
    authenticatedField[denied ? 'false' : 'true'],
    writeBytes(2, userBytes(denied ? undefined : verdict.user)),
    writeText(3, denied ? (verdict.error ?? '') : ''),
    ...(denied ? [] : verdict.audiences.map((each) => writeText(4, each))),
  ]);
}

function userBytes(user: ReviewedUser | undefined): Buffer {
  return Buffer.concat([
    writeText(1, user?.username ?? ''),
    writeText(2, user?.uid ?? ''),
    ...(user?.groups ?? []).map((group) => writeText(3, group)),
    ...Object.entries(user?.extra ?? {}).map(([key, values]) => {
      const items = Buffer.concat(values.map((value) => writeText(1, value)));
      return writeBytes(4, Buffer.concat([writeText(1, key), writeBytes(2, items)]));
    }),
  ]);
}
