// Reads the body of a TokenReview: JSON or protobuf, v1 or v1beta1. Errors are those of kube-apiserver.
// Unknown fields and `status` are ignored, and of duplicate fields the last one counts.

import { goKind, quoteGo } from '../../api/schema/go-text.ts';
import { HansaError } from '../../core/errors/error.ts';
import { decodeUtf8 } from '../../core/json/decode-utf8.ts';
import { isRecord, type JsonRecord } from '../../core/json/is-record.ts';
import { summaryOf } from '../../core/json/json-body.ts';
import { jsonSyntaxError } from '../../core/json/json-syntax-error.ts';
import { jsonExcess } from '../../core/json/strict-json.ts';
import { ProtobufError, readEnvelope, readMessage, type Shape } from '../../core/kube/protobuf.ts';
import { bodyEncoding } from './review-encoding.ts';
import { reviewProblem } from './review-problem.ts';
import type { TokenQuestion } from './verdict.ts';

export type ReviewVersion = 'v1' | 'v1beta1';

/** What the answer repeats of the request's metadata. */
export interface ReviewMetadata {
  readonly name?: string;
  readonly generateName?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface ReviewRequest {
  readonly version: ReviewVersion;
  readonly question: TokenQuestion;
  readonly metadata: ReviewMetadata;
  /** JSON without a backslash: no text in it needs an escape, so the answer can quote the token as it is. */
  readonly isPlain?: boolean;
}

export const noMetadata: ReviewMetadata = {};

/** A review has about a thousand bytes. kube-apiserver reads up to 3 MiB. */
export const maxReviewBytes = 256 * 1024;
/** More than a token ever has. */
const maxAudiences = 256;
/** Fields and items in JSON: the audiences, and some labels. */
const maxValues = 1024;
/** JSON that is too small to cost anything, whatever it contains. Most reviews are smaller. */
const smallBytes = 8 * 1024;

const group = 'authentication.k8s.io';
const kind = 'TokenReview';
const groupVersions = { v1: `${group}/v1`, v1beta1: `${group}/v1beta1` } as const;

/**
 * Throws HANSA_BAD_REQUEST, HANSA_TOO_LARGE or HANSA_UNSUPPORTED_MEDIA_TYPE. `version` is that of the path.
 */
export function readReview(
  body: Buffer,
  { contentType, version }: { contentType: string | undefined; version: ReviewVersion },
): ReviewRequest {
  const isJson = bodyEncoding(contentType) === 'json';
  const { spec, metadata } = (isJson ? readJson : readProtobuf)(body, version);
  const { token = '', audiences = [] } = spec;
  if (token === '') throw badRequest('token is required for TokenReview in authentication');
  if (audiences.length > maxAudiences) {
    throw new HansaError(
      'HANSA_TOO_LARGE',
      `Request entity too large: limit is ${maxAudiences} audiences`,
    );
  }
  const isPlain = isJson && !body.includes(backslash);
  return { version, question: { token, audiences }, metadata, isPlain };
}

const backslash = 0x5c;

interface ReadBody {
  readonly spec: { readonly token?: string; readonly audiences?: readonly string[] };
  readonly metadata: ReviewMetadata;
}

function readJson(body: Buffer, version: ReviewVersion): ReadBody {
  const object = parseObject(body);
  return usualQuestion(object, version) ?? readObject(body, object, version);
}

const noAudiences: readonly string[] = [];

/** What almost all clients send. Undefined for everything else, which `readObject` then reads. */
function usualQuestion(object: JsonRecord, version: ReviewVersion): ReadBody | undefined {
  const { apiVersion, spec, metadata } = object;
  if (apiVersion !== groupVersions[version] || object['kind'] !== kind) return undefined;
  for (const name in object) if (!usualFields.has(name)) return undefined;
  if (!isRecord(spec) || spec['audiences'] !== undefined || !isEmptyMetadata(metadata))
    return undefined;
  if (!isEmptyStatus(object['status'])) return undefined;
  const { token } = spec;
  if (typeof token !== 'string' || !token.isWellFormed()) return undefined;
  return { spec: { token, audiences: noAudiences }, metadata: noMetadata };
}

/** Another one may be `Kind`, which counts as `kind`. */
const usualFields: ReadonlySet<string> = new Set([
  'apiVersion',
  'kind',
  'metadata',
  'spec',
  'status',
]);

/** client-go sends `{}`, and older ones `{"creationTimestamp":null}`. */
function isEmptyMetadata(metadata: unknown): boolean {
  if (metadata === undefined) return true;
  if (!isRecord(metadata)) return false;
  for (const name in metadata)
    if (name !== 'creationTimestamp' || metadata[name] !== null) return false;
  return true;
}

/** client-go sends `{"user":{}}`. */
function isEmptyStatus(status: unknown): boolean {
  if (status === undefined) return true;
  if (!isRecord(status)) return false;
  for (const name in status) if (name !== 'user' || !isEmptyRecord(status[name])) return false;
  return true;
}

function isEmptyRecord(value: unknown): boolean {
  if (!isRecord(value)) return false;
  for (const _ in value) return false;
  return true;
}

function readObject(body: Buffer, object: JsonRecord, version: ReviewVersion): ReadBody {
  const type = typeOf(body, object);
  const given = recognise(body, type.apiVersion, type.kind, version);
  const problem = reviewProblem(object, given);
  if (problem !== undefined) throw unhandled(kind, given, problem);
  // Their types are right, or they are null or missing.
  const { spec, metadata } = object as { spec?: JsonRecord; metadata?: JsonRecord };
  const read: ReadBody = {
    spec: {
      token: textOf(spec?.['token']),
      audiences: ((spec?.['audiences'] ?? []) as readonly unknown[]).map(textOf),
    },
    metadata: metadataOf(metadata ?? {}),
  };
  refuseOtherVersion(given, version);
  return read;
}

/** Go looks for these two with a decoder that ignores case, and takes the last. */
function typeOf(body: Buffer, object: JsonRecord): { apiVersion: string; kind: string } {
  const type = { apiVersion: '', kind: '' };
  let problem: string | undefined;
  for (const [key, value] of Object.entries(object)) {
    const field = typeFields.find(([, name]) => name.test(key))?.[0];
    if (field === undefined || value === null) continue;
    if (typeof value === 'string') type[field] = value.toWellFormed();
    else
      problem ??= `json: cannot unmarshal ${goKind(value)} into Go struct field .${field} of type string`;
  }
  if (problem === undefined) return type;
  throw unrecognized(body, `couldn't get version/kind; json parse error: ${problem}`);
}

const typeFields = [
  ['apiVersion', /^apiVersion$/iu],
  ['kind', /^kind$/iu],
] as const;

/** A null is no value, as in Go, and half of a surrogate pair is replaced. */
function textOf(value: unknown): string {
  return typeof value === 'string' ? value.toWellFormed() : '';
}

function metadataOf(given: JsonRecord): ReviewMetadata {
  let metadata: Record<string, unknown> | undefined;
  for (const name of ['name', 'generateName'] as const) {
    const value = textOf(given[name]);
    if (value !== '') (metadata ??= {})[name] = value;
  }
  for (const name of ['labels', 'annotations'] as const) {
    const map = Object.entries((given[name] ?? {}) as JsonRecord);
    if (map.length === 0) continue;
    (metadata ??= {})[name] = Object.fromEntries(
      map.map(([key, value]) => [key.toWellFormed(), textOf(value)]),
    );
  }
  return metadata ?? noMetadata;
}

function parseObject(body: Buffer): JsonRecord {
  const failed = (why: string) =>
    unrecognized(body, `couldn't get version/kind; json parse error: ${why}`);
  const excess = body.length <= smallBytes ? undefined : jsonExcess(body, maxValues);
  if (excess === 'values') {
    throw new HansaError(
      'HANSA_TOO_LARGE',
      `Request entity too large: limit is ${maxValues} fields and items`,
    );
  }
  if (excess !== undefined) throw failed(`invalid character '${excess}' exceeded max depth`);
  let value: unknown;
  try {
    value = JSON.parse(decodeUtf8(body));
  } catch {
    throw failed(jsonSyntaxError(body));
  }
  if (value === null) return {};
  if (isRecord(value)) return value;
  throw failed(
    String.raw`json: cannot unmarshal ${goKind(value)} into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }`,
  );
}

/** Field numbers of k8s.io/api/authentication/v1 and v1beta1, and of meta/v1. */
const reviewShape: Shape = {
  1: [
    'metadata',
    {
      1: ['name', 'text'],
      2: ['generateName', 'text'],
      11: ['labels', 'map'],
      12: ['annotations', 'map'],
    },
  ],
  2: ['spec', { 1: ['token', 'text'], 2: ['audiences', 'texts'] }],
};

function readProtobuf(body: Buffer, version: ReviewVersion): ReadBody {
  const envelope = orRefuse(
    () => readEnvelope(body),
    (why) => unrecognized(body, why),
  );
  const given = recognise(body, envelope.apiVersion, envelope.kind, version);
  const message = orRefuse(
    () => readMessage(envelope.raw, reviewShape),
    (why) => unhandled(kind, given, why),
  );
  refuseOtherVersion(given, version);
  // The shape has these types.
  const { spec = {}, metadata = noMetadata } = message as Partial<ReadBody>;
  return { spec, metadata };
}

function orRefuse<T>(read: () => T, refusal: (why: string) => HansaError): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof ProtobufError ? refusal(error.message) : error;
  }
}

/** The version of the body. It may leave out its group, version and kind: those of the path count then. */
function recognise(
  body: Buffer,
  apiVersion: string,
  named: string,
  expected: ReviewVersion,
): ReviewVersion {
  const parts = apiVersion === '/' ? [''] : apiVersion.split('/');
  if (parts.length > 2) throw unrecognized(body, `unexpected GroupVersion string: ${apiVersion}`);
  const [givenVersion = '', givenGroup = ''] = parts.toReversed();
  const isDefault = givenVersion === '' && (givenGroup === '' || givenGroup === group);
  const ofGroup = isDefault ? group : givenGroup;
  const version = isDefault ? expected : givenVersion;
  const shown = named === '' ? kind : named;
  if (ofGroup === group && isVersion(version) && shown === kind) return version;
  const groupVersion = ofGroup === '' ? version : `${ofGroup}/${version}`;
  throw unhandled(
    shown,
    version,
    version === ''
      ? // kube-apiserver shows the whole body here, and so the token.
        "Object 'apiVersion' is missing"
      : `no kind ${quoteGo(shown)} is registered for version ${quoteGo(groupVersion)}`,
  );
}

function isVersion(text: string): text is ReviewVersion {
  return Object.hasOwn(groupVersions, text);
}

function refuseOtherVersion(given: ReviewVersion, version: ReviewVersion): void {
  if (given === version) return;
  throw badRequest(
    `the API version in the data (${groupVersions[given]}) does not match the expected API version (${groupVersions[version]})`,
  );
}

function unrecognized(body: Buffer, why: string): HansaError {
  return badRequest(
    `the object provided is unrecognized (must be of type ${kind}): ${why} (${summaryOf(body)})`,
  );
}

function unhandled(named: string, version: string, why: string): HansaError {
  return badRequest(
    `${named} in version ${quoteGo(version)} cannot be handled as a ${kind}: ${why}`,
  );
}

function badRequest(message: string): HansaError {
  return new HansaError('HANSA_BAD_REQUEST', message);
}
