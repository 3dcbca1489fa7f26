// From the bytes of a request to an object of the kind that the path names: parsed once, with
// everything that is wrong said in kube-apiserver's words.

import { parseDocument } from 'yaml';
import type { Kind } from '../../api/kind.ts';
import { apiVersion, type Json, version } from '../../api/object.ts';
import { defaultObject, pruneObject } from '../../api/resource-schema.ts';
import { inspectJson } from '../http/strict-json.ts';
import { badRequest, unsupportedMediaType } from './errors.ts';
import type { Draft } from './object-of.ts';
import type { WriteOptions } from './options.ts';

export const objectMediaTypes = ['application/json', 'application/yaml'] as const;

export function mediaTypeOf(contentType: string | undefined): string {
  if (contentType === undefined || contentType === '') return 'application/json';
  const semicolon = contentType.indexOf(';');
  return (semicolon < 0 ? contentType : contentType.slice(0, semicolon)).trim().toLowerCase();
}

export interface ParsedBody {
  readonly value: Json;
  /** What only strict field validation objects to, as `duplicate field "x"`. */
  readonly strictErrors: readonly string[];
}

/** Parses JSON or YAML; throws HANSA_BAD_REQUEST with the place of the first error. */
export function parseBody(body: Buffer, mediaType: string): ParsedBody {
  const text = body.toString('utf8');
  return mediaType.includes('yaml') ? parseYaml(text) : parseJson(text);
}

function parseJson(text: string): ParsedBody {
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch (error) {
    throw badRequest(`couldn't get version/kind; json parse error: ${(error as Error).message}`);
  }
  return { value, strictErrors: strictErrorsOf(text) };
}

function strictErrorsOf(json: string): string[] {
  const findings = inspectJson(json);
  if (findings.tooDeep)
    throw badRequest("couldn't get version/kind; json parse error: exceeded max depth");
  return findings.duplicates.map((path) => `duplicate field ${JSON.stringify(path)}`);
}

/** Aliases are expanded at most this often: a small document must not become a huge one. */
const maxYamlAliases = 100;

function parseYaml(text: string): ParsedBody {
  const document = parseDocument(text, { uniqueKeys: true, merge: true, logLevel: 'silent' });
  const fatal = document.errors.find((error) => error.code !== 'DUPLICATE_KEY');
  if (fatal !== undefined)
    throw badRequest(`error converting YAML to JSON: yaml: ${fatal.message.split('\n')[0]}`);
  let json: string;
  try {
    json = JSON.stringify(document.toJS({ maxAliasCount: maxYamlAliases }) ?? null);
  } catch (error) {
    throw badRequest(`error converting YAML to JSON: yaml: ${(error as Error).message}`);
  }
  const strictErrors = document.errors.map((error) => {
    const line = error.linePos?.[0].line ?? 0;
    return `yaml: unmarshal errors:\n  line ${line}: key already set in map`;
  });
  return {
    value: JSON.parse(json) as Json,
    strictErrors: [...strictErrors, ...strictErrorsOf(json)],
  };
}

/** Decodes the object of a create or an update: envelope checked, pruned and defaulted. */
export function decodeObject(
  kind: Kind,
  body: Buffer,
  contentType: string | undefined,
  options: WriteOptions,
  warn: (text: string) => void,
): Draft {
  const mediaType = mediaTypeOf(contentType);
  if (!objectMediaTypes.some((accepted) => accepted === mediaType))
    throw unsupportedMediaType(objectMediaTypes);
  const { value, strictErrors } = parseBody(body, mediaType);
  const checked = checkEnvelope(kind, value);
  return settleObject(kind, checked, strictErrors, options, warn);
}

/** Prunes and defaults, and reports unknown and duplicate fields as the request asked for. */
export function settleObject(
  kind: Kind,
  object: Draft,
  strictErrors: readonly string[],
  options: WriteOptions,
  warn: (text: string) => void,
): Draft {
  const pruned = pruneObject(kind, object);
  if (options.fieldValidation !== 'Ignore') {
    const errors = [
      ...strictErrors,
      ...pruned.unknown.map((path) => `unknown field ${JSON.stringify(path)}`),
    ];
    if (errors.length > 0 && options.fieldValidation === 'Strict') {
      throw badRequest(`${notHandled(kind)}: strict decoding error: ${errors.join(', ')}`);
    }
    for (const error of errors) warn(error);
  }
  return defaultObject(kind, pruned.object) as Draft;
}

function notHandled(kind: Kind): string {
  return `${kind.kind} in version "${version}" cannot be handled as a ${kind.kind}`;
}

/** Group, version and kind must be those of the path, and metadata must be of the types of ObjectMeta. */
export function checkEnvelope(kind: Kind, value: Json): Draft {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw badRequest(
      `couldn't get version/kind; json parse error: json: cannot unmarshal ${jsonTypeOf(value)} into Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }`,
    );
  }
  const object = value as { readonly [key: string]: Json };
  if (typeof object['kind'] !== 'string' || object['kind'] === '') {
    throw badRequest(`Object 'Kind' is missing in '${JSON.stringify(value)}'`);
  }
  if (typeof object['apiVersion'] !== 'string' || object['apiVersion'] === '') {
    throw badRequest(`Object 'apiVersion' is missing in '${JSON.stringify(value)}'`);
  }
  if (object['apiVersion'] !== apiVersion) {
    throw badRequest(
      `the API version in the data (${object['apiVersion']}) does not match the expected API version (${apiVersion})`,
    );
  }
  if (object['kind'] !== kind.kind) {
    throw badRequest(
      `the kind in the data (${object['kind']}) does not match the expected kind (${kind.kind})`,
    );
  }
  const metadata = object['metadata'] ?? {};
  checkMetadata(kind, metadata);
  return { ...object, metadata } as Draft;
}

const metadataTypes: Readonly<
  Record<string, 'string' | 'integer' | 'map' | 'strings' | 'objects'>
> = {
  name: 'string',
  generateName: 'string',
  namespace: 'string',
  selfLink: 'string',
  uid: 'string',
  resourceVersion: 'string',
  generation: 'integer',
  creationTimestamp: 'string',
  deletionTimestamp: 'string',
  deletionGracePeriodSeconds: 'integer',
  labels: 'map',
  annotations: 'map',
  finalizers: 'strings',
  ownerReferences: 'objects',
  managedFields: 'objects',
};

function checkMetadata(kind: Kind, metadata: Json): void {
  const wrong = (path: string, value: Json, goType: string): never => {
    throw badRequest(
      `${notHandled(kind)}: json: cannot unmarshal ${jsonTypeOf(value)} into Go struct field ObjectMeta.${path} of type ${goType}`,
    );
  };
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) {
    throw badRequest(
      `${notHandled(kind)}: json: cannot unmarshal ${jsonTypeOf(metadata)} into Go value of type v1.ObjectMeta`,
    );
  }
  for (const [key, value] of Object.entries(metadata as { readonly [key: string]: Json })) {
    if (value === null) continue;
    const path = `metadata.${key}`;
    switch (metadataTypes[key]) {
      case 'string':
        if (typeof value !== 'string') wrong(path, value, 'string');
        break;
      case 'integer':
        if (!Number.isInteger(value)) wrong(path, value, 'int64');
        break;
      case 'map':
        if (typeof value !== 'object' || Array.isArray(value))
          wrong(path, value, 'map[string]string');
        for (const item of Object.values(value as { readonly [key: string]: Json })) {
          if (typeof item !== 'string') wrong(path, item, 'string');
        }
        break;
      case 'strings':
        if (!Array.isArray(value)) wrong(path, value, '[]string');
        for (const item of value as readonly Json[])
          if (typeof item !== 'string') wrong(path, item, 'string');
        break;
      case 'objects':
        if (!Array.isArray(value)) wrong(path, value, '[]struct');
        for (const item of value as readonly Json[]) {
          if (typeof item !== 'object' || item === null || Array.isArray(item))
            wrong(path, item, 'struct');
        }
        break;
      case undefined:
    }
  }
}

/** As Go's encoding/json names JSON types in its errors. */
function jsonTypeOf(value: Json): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return typeof value === 'boolean' ? 'bool' : typeof value;
}
