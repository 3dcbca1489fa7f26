// Reads metadata as kube-apiserver does, through a typed struct: it drops empty values, formats
// timestamps in UTC with whole seconds, reports unknown fields, and rejects the request for a wrong
// type, with the messages of Go's JSON decoder.

import { HansaError } from '../../core/errors/error.ts';
import { timestamp } from '../object.ts';
import { objectMetaSchema } from './object-meta.ts';
import { parseTimestamp, timestampProblem } from '../values/date-time.ts';
import { compareBytes, goKind } from '../schema/go-text.ts';
import { isInt64, isObject } from '../schema/json.ts';
import { joinPath } from '../schema/prune.ts';
import type { ObjectSchema, Schema, StringSchema } from '../schema/schema.ts';

type Untyped = Readonly<Record<string, unknown>>;

export interface CoercedMetadata {
  readonly metadata: Untyped;
  readonly unknown: readonly string[];
}

/** Go's pointers and required fields: they are printed even where they hold a zero. */
const printedWhenEmpty: ReadonlySet<string> = new Set([
  'deletionGracePeriodSeconds',
  'ownerReferences[].apiVersion',
  'ownerReferences[].kind',
  'ownerReferences[].name',
  'ownerReferences[].uid',
  'ownerReferences[].controller',
  'ownerReferences[].blockOwnerDeletion',
]);

/** Where Go has a type of its own for a string. */
const goTypes: ReadonlyMap<string, string> = new Map([
  ['ObjectMeta.uid', 'types.UID'],
  ['OwnerReference.ownerReferences.uid', 'types.UID'],
  ['ManagedFieldsEntry.managedFields.operation', 'v1.ManagedFieldsOperationType'],
]);

/** The input is not changed; where there is nothing to change the same value comes back. */
export function coerceMetadata(metadata: unknown): CoercedMetadata {
  if (metadata === null) return { metadata: {}, unknown: [] };
  if (!isObject(metadata)) throw mismatch(metadata, '', 'v1.ObjectMeta');
  const unknown: string[] = [];
  const coerced = coerceFirst(metadata, unknown);
  return {
    metadata: coerced,
    unknown: unknown.map((path) => `metadata.${path}`).toSorted(compareBytes),
  };
}

/** Fields that only the server sets. */
const times = ['creationTimestamp', 'deletionTimestamp'] as const;
const counts = ['generation', 'deletionGracePeriodSeconds'] as const;

/**
 * Without times that do not say when and counts that are fractions: kube-apiserver reads what is
 * applied into no struct, and takes them for none.
 */
export function withoutUnreadable(metadata: Untyped): Untyped {
  const kept: Record<string, unknown> = { ...metadata };
  for (const name of times) {
    const time = kept[name];
    if (typeof time !== 'string' || parseTimestamp(time) === undefined) delete kept[name];
  }
  for (const name of counts) {
    const count = kept[name];
    if (typeof count === 'number' && !isInt64(count)) delete kept[name];
  }
  return kept;
}

/**
 * Of several invalid values, reports the one that Go's decoder reports. That decoder reads keys in
 * order, stops at an invalid time, and otherwise reports the first wrong type at the end.
 */
function coerceFirst(metadata: Untyped, unknown: string[]): Untyped {
  const read = (value: Untyped): Untyped =>
    coerceObject(objectMetaSchema, value, 'ObjectMeta', '', '', unknown);
  try {
    return read(metadata);
  } catch {
    const ordered = inOrder(metadata) as Untyped;
    read(timesOf(ordered));
    return read(ordered);
  }
}

function timesOf(metadata: Untyped): Untyped {
  const found: Record<string, unknown> = {};
  for (const name of times) found[name] = metadata[name];
  const entries = metadata['managedFields'];
  if (!Array.isArray(entries)) return found;
  const timed = entries.filter(isObject).map(({ time }) => ({ time }));
  return { ...found, managedFields: timed };
}

function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inOrder);
  if (!isObject(value)) return value;
  const keys = Object.keys(value).toSorted(compareBytes);
  return Object.fromEntries(keys.map((key) => [key, inOrder(value[key])]));
}

function mismatch(value: unknown, field: string, goType: string): HansaError {
  const where = field === '' ? 'value' : `struct field ${field}`;
  return new HansaError(
    'HANSA_BAD_REQUEST',
    `json: cannot unmarshal ${goKind(value)} into Go ${where} of type ${goType}`,
  );
}

/**
 * `path` has indices (for unknown fields), `shape` has `[]` (to look up what is special), `struct`
 * is how Go names the place in errors: the innermost type, then the fields that lead to it.
 */
function coerceObject(
  schema: ObjectSchema,
  value: Readonly<Record<string, unknown>>,
  struct: string,
  path: string,
  shape: string,
  unknown: string[],
): Readonly<Record<string, unknown>> {
  let copy: Record<string, unknown> | undefined;
  for (const name of Object.keys(value)) {
    const field = Object.hasOwn(schema.fields, name) ? schema.fields[name] : undefined;
    const before = value[name];
    let after: unknown;
    if (field === undefined) {
      unknown.push(joinPath(path, name));
    } else {
      const fieldShape = joinPath(shape, name);
      after = coerce(
        field.schema,
        before,
        `${struct}.${name}`,
        joinPath(path, name),
        fieldShape,
        unknown,
      );
      if (isEmpty(after) && !printedWhenEmpty.has(fieldShape)) after = undefined;
    }
    if (after === before) continue;
    copy ??= { ...value };
    if (after === undefined) delete copy[name];
    else copy[name] = after;
  }
  // A Go struct has all its fields: those that must be there come out empty, and are refused later.
  for (const name in schema.fields) {
    if (schema.fields[name]?.required !== true || (copy ?? value)[name] !== undefined) continue;
    copy ??= { ...value };
    copy[name] = '';
  }
  return copy ?? value;
}

function isEmpty(value: unknown): boolean {
  if (value === '' || value === 0 || value === false) return true;
  if (Array.isArray(value)) return value.length === 0;
  if (!isObject(value)) return false;
  for (const _ in value) return false;
  return true;
}

function coerce(
  schema: Schema,
  value: unknown,
  field: string,
  path: string,
  shape: string,
  unknown: string[],
): unknown {
  if (value === null || value === undefined) return undefined;
  switch (schema.type) {
    case 'string':
      return coerceString(schema, value, field);
    case 'integer':
      if (typeof value !== 'number') throw mismatch(value, field, 'int64');
      if (!isInt64(value)) {
        throw new HansaError(
          'HANSA_BAD_REQUEST',
          `json: cannot unmarshal number ${JSON.stringify(value)} into Go struct field ${field} of type int64`,
        );
      }
      return value;
    case 'boolean':
      if (typeof value !== 'boolean') throw mismatch(value, field, 'bool');
      return value;
    case 'map':
      return coerceStrings(value, field);
    case 'list':
      return coerceList(schema.items, value, field, path, shape, unknown);
    case 'object':
    case 'any':
      break;
  }
  return value;
}

function coerceString(schema: StringSchema, value: unknown, field: string): string {
  if (typeof value !== 'string') throw mismatch(value, field, goTypes.get(field) ?? 'string');
  if (schema.format === undefined) return value;
  const moment = parseTimestamp(value);
  if (moment === undefined) throw new HansaError('HANSA_BAD_REQUEST', timestampProblem(value));
  return timestamp(moment);
}

function coerceStrings(value: unknown, field: string): unknown {
  if (!isObject(value)) throw mismatch(value, field, 'map[string]string');
  let copy: Record<string, unknown> | undefined;
  for (const key of Object.keys(value)) {
    const item = value[key];
    if (typeof item === 'string') continue;
    if (item !== null) throw mismatch(item, field, 'string');
    copy ??= { ...value };
    copy[key] = '';
  }
  return copy ?? value;
}

function coerceList(
  items: Schema,
  value: unknown,
  field: string,
  path: string,
  shape: string,
  unknown: string[],
): unknown {
  const struct = field.endsWith('.ownerReferences') ? 'OwnerReference' : 'ManagedFieldsEntry';
  const itemType = items.type === 'object' ? `v1.${struct}` : 'string';
  if (!Array.isArray(value)) throw mismatch(value, field, `[]${itemType}`);
  let copy: unknown[] | undefined;
  for (let i = 0; i < value.length; i++) {
    const before: unknown = value[i];
    let after = before;
    if (items.type === 'object') {
      if (before !== null && !isObject(before)) throw mismatch(before, field, itemType);
      const inner = `${struct}.${field.slice(field.indexOf('.') + 1)}`;
      after = coerceObject(items, before ?? {}, inner, `${path}[${i}]`, `${shape}[]`, unknown);
    } else if (typeof before !== 'string') {
      if (before !== null) throw mismatch(before, field, itemType);
      after = '';
    }
    if (after === before) continue;
    copy ??= [...value];
    copy[i] = after;
  }
  return copy ?? value;
}
