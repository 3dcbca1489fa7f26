// In which form an answer goes out: the object itself, a table for people, or metadata only; as
// JSON or YAML. Chosen once per request from the Accept header.

import { stringify } from 'yaml';
import type { Kind } from '../../api/kind.ts';
import type { Json } from '../../api/object.ts';
import { tableColumns, tableRow } from '../../api/table.ts';
import { notAcceptable } from './errors.ts';
import type { Draft } from './object-of.ts';

export interface Form {
  readonly as: 'object' | 'table' | 'metadata';
  readonly encoding: 'json' | 'yaml';
}

const plainJson: Form = { as: 'object', encoding: 'json' };

const offered = ['application/json', 'application/yaml'];

/** Accept headers come from few kinds of clients; their forms are remembered, up to this many. */
const maxRememberedForms = 256;
const remembered = new Map<string, Form>();

export function negotiate(accept: string | undefined): Form {
  if (accept === undefined || accept === '' || accept === 'application/json' || accept === '*/*')
    return plainJson;
  let form = remembered.get(accept);
  if (form === undefined) {
    form = chooseForm(accept);
    if (remembered.size >= maxRememberedForms) remembered.clear();
    remembered.set(accept, form);
  }
  return form;
}

function chooseForm(accept: string): Form {
  for (const range of accept.split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim());
    const encoding = encodingOf(type.toLowerCase());
    if (encoding === undefined) continue;
    const given = new Map(parameters.map((parameter) => parameter.split('=') as [string, string]));
    const as = given.get('as');
    if (as === undefined) return { as: 'object', encoding };
    if (given.get('g') !== 'meta.k8s.io' || given.get('v') !== 'v1') continue;
    if (as === 'Table') return { as: 'table', encoding };
    if (as === 'PartialObjectMetadata' || as === 'PartialObjectMetadataList')
      return { as: 'metadata', encoding };
  }
  throw notAcceptable(offered);
}

function encodingOf(type: string): Form['encoding'] | undefined {
  if (type === 'application/json' || type === '*/*' || type === 'application/*') return 'json';
  return type === 'application/yaml' ? 'yaml' : undefined;
}

export function contentTypeOf(form: Form): string {
  return form.encoding === 'json' ? 'application/json' : 'application/yaml';
}

export function encode(form: Form, value: unknown): string {
  // kube-apiserver ends JSON with a line feed, for people with curl.
  return form.encoding === 'json' ? `${JSON.stringify(value)}\n` : stringify(value);
}

export type IncludeObject = 'None' | 'Metadata' | 'Object';

export function includeObjectOf(query: URLSearchParams): IncludeObject {
  const value = query.get('includeObject');
  return value === 'None' || value === 'Object' ? value : 'Metadata';
}

const metaVersion = 'meta.k8s.io/v1';

export function partialMetadata(object: Draft): Json {
  return {
    kind: 'PartialObjectMetadata',
    apiVersion: metaVersion,
    metadata: object.metadata as Json,
  };
}

export function tableOf(
  kind: Kind,
  objects: readonly Draft[],
  metadata: Json,
  options: { nowMs: number; include: IncludeObject; withColumns: boolean },
): Json {
  return {
    kind: 'Table',
    apiVersion: metaVersion,
    metadata,
    columnDefinitions: options.withColumns ? (tableColumns(kind) as unknown as Json) : null,
    rows: objects.map((object) => ({
      cells: tableRow(kind, object, options.nowMs) as Json,
      object: rowObject(object, options.include),
    })),
  };
}

function rowObject(object: Draft, include: IncludeObject): Json {
  if (include === 'None') return null;
  return include === 'Object' ? (object as Json) : partialMetadata(object);
}
