// Reads the body of a TokenReview: JSON or protobuf, v1 or v1beta1. Errors are those of kube-apiserver.
// Unknown fields and `status` are ignored, and of duplicate fields the last one counts.

import { goKind } from '../../api/schema/go-text.ts';
import { HansaError } from '../../core/errors/error.ts';
import { isRecord, type JsonRecord } from '../../core/json/is-record.ts';
import { summaryOf } from '../../core/json/json-body.ts';
import { jsonSyntaxError } from '../../core/json/json-syntax-error.ts';
import { jsonExcess } from '../../core/json/strict-json.ts';
import { ProtobufError, readEnvelope, readMessage, type Shape } from '../../core/kube/protobuf.ts';
import { bodyEncoding } from './review-encoding.ts';
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
  if (!isRecord(spec) || spec['audiences'] !== undefined || !isEmptyMetadata(metadata))
    return undefined;
  const { token } = spec;
  if (typeof token !== 'string' || !token.isWellFormed()) return undefined;
  return { spec: { token, audiences: noAudiences }, metadata: noMetadata };
}

/** client-go sends `{}`, and older ones `{"creationTimestamp":null}`. */
function isEmptyMetadata(metadata: unknown): boolean {
  if (metadata === undefined) return true;
  if (!isRecord(metadata)) return false;
  for (const name in metadata) if (name !== 'creationTimestamp') return false;
  return true;
}

function readObject(body: Buffer, object: JsonRecord, version: ReviewVersion): ReadBody {
  const [apiVersion = '', named = ''] = ['apiVersion', 'kind'].map((key) => {
    const value = object[key] ?? '';
    if (typeof value === 'string') return value;
    throw unrecognized(
      body,
      `couldn't get version/kind; json parse error: json: cannot unmarshal ${goKind(value)} into Go struct field .${key} of type string`,
    );
  });
  if (apiVersion.split('/').length > 2)
    throw unrecognized(body, `unexpected GroupVersion string: ${apiVersion}`);
  const given = recognise(apiVersion, named, version);
  const unfit = (why: string) => unhandled(kind, given, why);
  const spec = recordAt(object['spec'], 'TokenReview.spec', 'v1.TokenReviewSpec', unfit);
  const metadata = recordAt(object['metadata'], 'TokenReview.metadata', 'v1.ObjectMeta', unfit);
  const text = (value: unknown, path: string) => {
    if (value === undefined || value === null) return '';
    // Go replaces half of a surrogate pair.
    if (typeof value === 'string') return value.toWellFormed();
    throw unfit(unmarshalError(value, path, 'string'));
  };
  const audiences = spec['audiences'] ?? [];
  if (!Array.isArray(audiences))
    throw unfit(unmarshalError(audiences, 'TokenReviewSpec.spec.audiences', '[]string'));
  const read: ReadBody = {
    spec: {
      token: text(spec['token'], 'TokenReviewSpec.spec.token'),
      audiences: audiences.map((item) => text(item, 'TokenReviewSpec.spec.audiences')),
    },
    metadata: readMetadata(metadata, text, unfit),
  };
  refuseOtherVersion(given, version);
  return read;
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
    value = JSON.parse(body.toString('utf8'));
  } catch {
    throw failed(jsonSyntaxError(body));
  }
  if (value === null) return {};
  if (isRecord(value)) return value;
  throw failed(
    String.raw`json: cannot unmarshal ${goKind(value)} into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }`,
  );
}

function recordAt(
  value: unknown,
  path: string,
  type: string,
  unfit: (why: string) => HansaError,
): JsonRecord {
  if (value === undefined || value === null) return {};
  if (isRecord(value)) return value;
  throw unfit(unmarshalError(value, path, type));
}

function readMetadata(
  given: JsonRecord,
  text: (value: unknown, path: string) => string,
  unfit: (why: string) => HansaError,
): ReviewMetadata {
  let metadata: Record<string, unknown> | undefined;
  for (const name of ['name', 'generateName'] as const) {
    const value = text(given[name], `ObjectMeta.metadata.${name}`);
    if (value !== '') (metadata ??= {})[name] = value;
  }
  for (const name of ['labels', 'annotations'] as const) {
    const path = `ObjectMeta.metadata.${name}`;
    const map = Object.entries(recordAt(given[name], path, 'map[string]string', unfit));
    if (map.length === 0) continue;
    (metadata ??= {})[name] = Object.fromEntries(
      map.map(([key, value]) => [key, text(value, path)]),
    );
  }
  return metadata ?? noMetadata;
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
  const given = recognise(envelope.apiVersion, envelope.kind, version);
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

/** The group and version of the body. A body may leave them out. */
function recognise(apiVersion: string, named: string, version: ReviewVersion): string {
  const expected = `${group}/${version}`;
  const given = apiVersion === '' ? expected : apiVersion;
  const isKnown = given === `${group}/v1` || given === `${group}/v1beta1`;
  if (isKnown && (named === kind || named === '')) return given;
  const shown = named === '' ? kind : named;
  throw unhandled(
    shown,
    given,
    `no kind ${JSON.stringify(shown)} is registered for version ${JSON.stringify(given)}`,
  );
}

function refuseOtherVersion(given: string, version: ReviewVersion): void {
  if (given === `${group}/${version}`) return;
  throw badRequest(
    `the API version in the data (${given}) does not match the expected API version (${group}/${version})`,
  );
}

function unmarshalError(value: unknown, path: string, type: string): string {
  return `json: cannot unmarshal ${goKind(value)} into Go struct field ${path} of type ${type}`;
}

function unrecognized(body: Buffer, why: string): HansaError {
  return badRequest(
    `the object provided is unrecognized (must be of type ${kind}): ${why} (${summaryOf(body)})`,
  );
}

function unhandled(named: string, apiVersion: string, why: string): HansaError {
  const version = apiVersion.slice(apiVersion.indexOf('/') + 1);
  return badRequest(
    `${named} in version ${JSON.stringify(version)} cannot be handled as a ${kind}: ${why}`,
  );
}

function badRequest(message: string): HansaError {
  return new HansaError('HANSA_BAD_REQUEST', message);
}
