// Decodes a request body into an object of the kind that the path names, with the error messages of
// kube-apiserver.

import type { Kind } from '../../api/kind.ts';
import { apiVersion, type Json } from '../../api/object.ts';
import { dropDuplicateOwners } from '../../api/metadata/owner-references.ts';
import { defaultObject, pruneObject, strictlyRefused } from '../../api/resource-schema.ts';
import { goKind } from '../../api/schema/go-text.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { jsonSyntaxError } from '../../core/json/json-syntax-error.ts';
import { summaryOf } from '../../core/json/json-body.ts';
import { duplicateFields, jsonExcess, MAX_VALUES } from '../../core/json/strict-json.ts';
import { mediaTypeOf } from '../../core/plane/media-types.ts';
import { badRequest, unsupportedMediaType } from './errors.ts';
import type { ObjectDraft } from './object-of.ts';
import type { WriteOptions } from './options.ts';
import { parseYaml } from './parse-yaml.ts';

export const objectMediaTypes = ['application/json', 'application/yaml'] as const;

export interface ParsedBody {
  readonly value: Json;
  /** Errors of strict field validation, such as `duplicate field "x"`. */
  readonly strictErrors: readonly string[];
}

/** Parses JSON or YAML. Throws HANSA_BAD_REQUEST with the first error. */
export function parseBody(body: Buffer, mediaType: string): ParsedBody {
  return mediaType.includes('yaml')
    ? parseYamlBody(body.toString('utf8'), body)
    : parseJson(body, MAX_VALUES);
}

/** Like `parseBody`, with at most `maxValues` fields and items. */
export function parseJson(body: Buffer, maxValues: number): ParsedBody {
  refuseExcess(body, maxValues);
  const text = body.toString('utf8');
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    throw badRequest(jsonSyntaxError(body));
  }
  return { value, strictErrors: strictErrorsOf(body) };
}

/** Runs before any traversal, which would block the event loop. */
function refuseExcess(json: Buffer, maxValues: number): void {
  const excess = jsonExcess(json, maxValues);
  if (excess === undefined) return;
  if (excess === 'values')
    throw new HansaError(
      'HANSA_TOO_LARGE',
      `Request entity too large: limit is ${maxValues} fields and items`,
    );
  throw badRequest(`invalid character '${excess}' exceeded max depth`);
}

function strictErrorsOf(json: Buffer): string[] {
  return duplicateFields(json).map((path) => `duplicate field ${JSON.stringify(path)}`);
}

function parseYamlBody(text: string, body: Buffer): ParsedBody {
  return jsonInYaml(text, body) ?? yamlAsJson(text);
}

/** Undefined if the text is not JSON, or if YAML gives it another meaning or error message. */
function jsonInYaml(text: string, body: Buffer): ParsedBody | undefined {
  if (body[0] !== OPENING_BRACE || text.includes('"<<"')) return undefined;
  refuseExcess(body, MAX_VALUES);
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
  const strictErrors = strictErrorsOf(body);
  return strictErrors.length === 0 ? { value, strictErrors } : undefined;
}

const OPENING_BRACE = 0x7b;

function yamlAsJson(text: string): ParsedBody {
  const { json, duplicates } = parseYaml(text);
  refuseExcess(Buffer.from(json), MAX_VALUES);
  // Serialized JSON has no duplicates.
  return { value: JSON.parse(json) as Json, strictErrors: duplicates };
}

/** Decodes the object of a create or update: checks the envelope, prunes and sets defaults. */
export function decodeObject(
  kind: Kind,
  body: Buffer,
  contentType: string | undefined,
  options: WriteOptions,
  warn: (text: string) => void,
): ObjectDraft {
  const mediaType = mediaTypeOf(contentType);
  if (!objectMediaTypes.some((accepted) => accepted === mediaType))
    throw unsupportedMediaType(objectMediaTypes);
  const { object, strictErrors } = recognise(kind, body, mediaType);
  const given = textOf(object['apiVersion']);
  if (given !== apiVersion) {
    throw badRequest(
      `the API version in the data (${given}) does not match the expected API version (${apiVersion})`,
    );
  }
  return settleObject(kind, withMetadata(object, warn), strictErrors, options, warn);
}

type Unsettled = { readonly [key: string]: Json };

/** Checks that the body is a JSON object with apiVersion and kind. */
function recognise(
  kind: Kind,
  body: Buffer,
  mediaType: string,
): { object: Unsettled; strictErrors: readonly string[] } {
  const unrecognised = (why: string) =>
    badRequest(
      `the object provided is unrecognized (must be of type ${kind.kind}): ${why} (${summaryOf(body)})`,
    );
  let parsed: ParsedBody;
  try {
    parsed = parseBody(body, mediaType);
  } catch (error) {
    if (!hasCode(error, 'HANSA_BAD_REQUEST')) throw error;
    const isYaml = mediaType.includes('yaml');
    throw unrecognised(
      isYaml ? error.message : `couldn't get version/kind; json parse error: ${error.message}`,
    );
  }
  const { value, strictErrors } = parsed;
  const kindMissing = () =>
    unrecognised(`Object 'Kind' is missing in '${body.length === 0 ? '' : JSON.stringify(value)}'`);
  if (value === null) throw kindMissing();
  if (typeof value !== 'object' || Array.isArray(value)) {
    throw unrecognised(
      String.raw`couldn't get version/kind; json parse error: json: cannot unmarshal ${goKind(value)} into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }`,
    );
  }
  const object = value as Unsettled;
  for (const key of ['apiVersion', 'kind']) {
    const given = object[key];
    if (given !== undefined && given !== null && typeof given !== 'string') {
      throw unrecognised(
        `couldn't get version/kind; json parse error: json: cannot unmarshal ${goKind(given)} into Go struct field .${key} of type string`,
      );
    }
  }
  if ((object['kind'] ?? '') === '') throw kindMissing();
  const given = textOf(object['apiVersion']);
  if (given.split('/').length > 2) throw unrecognised(`unexpected GroupVersion string: ${given}`);
  return { object, strictErrors };
}

function textOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}

/**
 * Adds missing metadata and drops namespace and selfLink, which have no meaning here. Pruning rejects
 * fields of the wrong type. kube-apiserver also drops the namespace of an object that has none, so tools that
 * add one to all objects work, but a user who wrote one should know.
 */
export function withMetadata(object: Unsettled, warn: (text: string) => void): ObjectDraft {
  const metadata = object['metadata'] ?? {};
  if (typeof metadata !== 'object' || Array.isArray(metadata))
    return object as unknown as ObjectDraft;
  const kept: Record<string, Json> = { ...(metadata as Unsettled) };
  const { namespace } = kept;
  if (typeof namespace === 'string' && namespace !== '') {
    warn('metadata.namespace is ignored: the objects of a site are in no namespace');
  }
  for (const name of ['namespace', 'selfLink'])
    if (typeof kept[name] === 'string') delete kept[name];
  return { ...object, metadata: kept } as unknown as ObjectDraft;
}

/** Prunes and sets defaults, and reports unknown and duplicate fields according to `fieldValidation`. */
export function settleObject(
  kind: Kind,
  object: ObjectDraft,
  strictErrors: readonly string[],
  options: WriteOptions,
  warn: (text: string) => void,
): ObjectDraft {
  const pruned = pruneObject(kind, object);
  if (options.fieldValidation !== 'Ignore') {
    const problems = [
      ...strictErrors,
      ...pruned.unknown.map((path) => `unknown field ${JSON.stringify(path)}`),
    ];
    if (problems.length > 0 && options.fieldValidation === 'Strict')
      throw strictlyRefused(kind, problems);
    for (const problem of problems) warn(problem);
  }
  const distinct = dropDuplicateOwners(pruned.object);
  if (distinct.warning !== undefined) warn(distinct.warning);
  return defaultObject(kind, distinct.object) as ObjectDraft;
}
