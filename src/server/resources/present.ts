// The form of a response, chosen from the Accept header: the object, a table or only metadata, as JSON
// or YAML.

import { stringify } from 'yaml';
import type { Kind } from '../../api/kind.ts';
import { apiVersion, type Json } from '../../api/object.ts';
import { tableColumns, tableRow } from '../../api/documents/table.ts';
import { mediaRanges } from '../../core/plane/media-types.ts';
import { notAcceptable, notAcceptableForm } from './errors.ts';
import type { ObjectDraft } from './object-of.ts';

export interface Form {
  readonly as: 'object' | 'table' | 'metadata';
  readonly encoding: 'json' | 'yaml';
}

const plainJson: Form = { as: 'object', encoding: 'json' };

const offered = ['application/json', 'application/yaml'];

/** Size of the cache of parsed Accept headers. Clients use only a few. */
const maxRememberedForms = 256;
const remembered = { object: new Map<string, Form>(), list: new Map<string, Form>() };

/** `what` is the type of the response. A list of metadata has another name in the Accept header. */
export function negotiate(accept: string | undefined, what: 'object' | 'list'): Form {
  if (accept === undefined || accept === '' || accept === 'application/json' || accept === '*/*')
    return plainJson;
  const forms = remembered[what];
  let form = forms.get(accept);
  if (form === undefined) {
    form = chooseForm(accept, what);
    if (forms.size >= maxRememberedForms) forms.clear();
    forms.set(accept, form);
  }
  return form;
}

function chooseForm(accept: string, what: 'object' | 'list'): Form {
  for (const { type, parameters } of mediaRanges(accept)) {
    const encoding = encodingOf(type);
    if (encoding === undefined) continue;
    const as = parameters.get('as');
    if (as === undefined) return { as: 'object', encoding };
    if (parameters.get('g') !== 'meta.k8s.io' || parameters.get('v') !== 'v1') continue;
    if (as === 'Table') return { as: 'table', encoding };
    if (as === 'PartialObjectMetadata' || as === 'PartialObjectMetadataList') {
      if (as.endsWith('List') === (what === 'list')) return { as: 'metadata', encoding };
      throw notAcceptableForm(
        `you requested ${as}, but the requested object is ${what === 'list' ? 'a list' : 'not a list'}`,
      );
    }
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

/** Larger responses are not formatted as YAML, which would block the event loop for 100 ms per megabyte. */
export const maxLaidOutCharacters = 64 * 1024;

/** JSON is also YAML (YAML 1.2 section 1.3), so a large YAML response is plain JSON. */
export function encode(form: Form, value: unknown): string {
  // kube-apiserver ends JSON with a line feed, for curl users.
  const json = `${JSON.stringify(value)}\n`;
  return form.encoding === 'json' || json.length > maxLaidOutCharacters ? json : stringify(value);
}

export type IncludeObject = 'None' | 'Metadata' | 'Object';

export function includeObjectOf(query: URLSearchParams): IncludeObject {
  const value = query.get('includeObject');
  return value === 'None' || value === 'Object' ? value : 'Metadata';
}

const metaVersion = 'meta.k8s.io/v1';

export function partialMetadata(object: ObjectDraft): Json {
  return {
    kind: 'PartialObjectMetadata',
    apiVersion: metaVersion,
    metadata: object.metadata as Json,
  };
}

export interface RowOptions {
  readonly nowMs: number;
  readonly include: IncludeObject;
}

export function tableOf(
  kind: Kind,
  object: ObjectDraft,
  options: RowOptions & { readonly withColumns: boolean },
): Json {
  const metadata = { resourceVersion: object.metadata.resourceVersion ?? '' };
  return {
    ...tableHead(metadata, options.withColumns ? kind : undefined),
    rows: [rowOf(kind, object, options)],
  };
}

function tableHead(metadata: Json, kind: Kind | undefined): { readonly [key: string]: Json } {
  return {
    kind: 'Table',
    apiVersion: metaVersion,
    metadata,
    columnDefinitions: kind === undefined ? null : (tableColumns(kind) as unknown as Json),
  };
}

function rowOf(kind: Kind, object: ObjectDraft, { nowMs, include }: RowOptions): Json {
  return {
    cells: tableRow(kind, object, nowMs) as Json,
    object: rowObject(object, include),
  };
}

/** A list in one form: all but its items, the field of the items, and one item. */
export interface ListForm {
  readonly head: { readonly [key: string]: Json };
  readonly field: string;
  readonly item: (object: ObjectDraft) => Json;
}

export function listForm(form: Form, kind: Kind, metadata: Json, options: RowOptions): ListForm {
  if (form.as === 'table') {
    return {
      head: tableHead(metadata, kind),
      field: 'rows',
      item: (object) => rowOf(kind, object, options),
    };
  }
  if (form.as === 'metadata') {
    const head = { kind: 'PartialObjectMetadataList', apiVersion: metaVersion, metadata };
    return { head, field: 'items', item: partialMetadata };
  }
  const head = { apiVersion, kind: `${kind.kind}List`, metadata };
  return { head, field: 'items', item: (object) => object as Json };
}

function rowObject(object: ObjectDraft, include: IncludeObject): Json {
  if (include === 'None') return null;
  return include === 'Object' ? (object as Json) : partialMetadata(object);
}
