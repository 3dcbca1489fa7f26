// Keys of items in lists of type set and map, and the search for duplicates.

import { duplicate, type FieldError, invalid, mostErrors } from './field-error.ts';
import { stringifyGo } from './go-text.ts';
import { isObject } from './json.ts';
import { joinPath } from './prune.ts';
import type { ListSchema, Schema } from './schema.ts';

const withUniqueness = new WeakMap<Schema, boolean>();

function promisesUniqueness(schema: Schema): boolean {
  const known = withUniqueness.get(schema);
  if (known !== undefined) return known;
  let found = false;
  if (schema.type === 'list') {
    found = schema.listType !== 'atomic' || promisesUniqueness(schema.items);
  } else if (schema.type === 'map') {
    found = promisesUniqueness(schema.values);
  } else if (schema.type === 'object') {
    found = Object.values(schema.fields).some((field) => promisesUniqueness(field.schema));
  }
  withUniqueness.set(schema, found);
  return found;
}

/** Every second appearance of an item in a set, or of a key in a map; further ones are not said again. */
export function duplicatesIn(schema: Schema, value: unknown): FieldError[] {
  const errors: FieldError[] = [];
  collect(schema, value, '', errors);
  return errors;
}

function collect(schema: Schema, value: unknown, path: string, errors: FieldError[]): void {
  if (!promisesUniqueness(schema) || errors.length >= mostErrors) return;
  if (schema.type === 'object' && isObject(value)) {
    for (const name in schema.fields) {
      const field = schema.fields[name];
      if (field === undefined || !Object.hasOwn(value, name)) continue;
      collect(field.schema, value[name], joinPath(path, name), errors);
    }
  } else if (schema.type === 'map' && isObject(value)) {
    for (const key of Object.keys(value)) {
      collect(schema.values, value[key], `${path}[${key}]`, errors);
    }
  } else if (schema.type === 'list' && Array.isArray(value)) {
    if (schema.listType === 'set') collectSet(value, path, errors);
    else if (schema.listType === 'map') collectMap(schema.keys ?? [], value, path, errors);
    if (!promisesUniqueness(schema.items)) return;
    for (let i = 0; i < value.length; i++) collect(schema.items, value[i], `${path}[${i}]`, errors);
  }
}

/** Indices of second appearances. Strings and numbers, which nearly all are, compare as they are. */
function secondAppearances(items: readonly unknown[]): number[] {
  const times = new Map<unknown, number>();
  const found: number[] = [];
  for (const [i, item] of items.entries()) {
    // Composite items are told apart from strings by their own wrapper of the text.
    const identity = typeof item === 'object' && item !== null ? `json:${stringifyGo(item)}` : item;
    const key = typeof item === 'string' ? `text:${item}` : identity;
    const seen = times.get(key) ?? 0;
    if (seen === 1 && found.push(i) === mostErrors) break;
    times.set(key, seen + 1);
  }
  return found;
}

function collectSet(value: readonly unknown[], path: string, errors: FieldError[]): void {
  if (value.length <= 1) return;
  for (const i of secondAppearances(value)) errors.push(duplicate(`${path}[${i}]`, value[i]));
}

function keyOf(keys: readonly string[], item: unknown): Readonly<Record<string, unknown>> {
  const key: Record<string, unknown> = {};
  if (!isObject(item)) return key;
  for (const name of keys) if (Object.hasOwn(item, name)) key[name] = item[name];
  return key;
}

function collectMap(
  keys: readonly string[],
  value: readonly unknown[],
  path: string,
  errors: FieldError[],
): void {
  for (const [i, item] of value.entries()) {
    if (item === null || isObject(item)) continue;
    errors.push(invalid(`${path}[${i}]`, item, 'must be an object for an array of list-type map'));
    return;
  }
  if (value.length <= 1) return;
  const itemKeys = value.map((item) => keyOf(keys, item));
  for (const i of secondAppearances(itemKeys)) errors.push(duplicate(`${path}[${i}]`, itemKeys[i]));
}

/** The item of the old list with the same keys; only lists of type 'map' can tell. */
export function correlatedItem(schema: ListSchema, item: unknown, old: unknown): unknown {
  if (schema.listType !== 'map' || !Array.isArray(old) || !isObject(item)) return undefined;
  const keys = schema.keys ?? [];
  return old.find(
    (candidate) => isObject(candidate) && keys.every((key) => candidate[key] === item[key]),
  );
}
