// Cuts a value along a field set: `removeItems` without the fields of the set, `extractItems` with
// nothing but them. A container that loses all of its fields becomes null, as in kube-apiserver; the
// pruning of nulls takes it away afterwards.

import type { Json } from '../object.ts';
import type { Schema } from '../schema/schema.ts';
import { type FieldSet, emptySet } from './field-set.ts';
import { isJsonArray, isJsonObject, setOwn } from './json-value.ts';
import { anySchema, elementOfField, fieldSchema, itemElement } from './shape.ts';

export function removeItems(schema: Schema, value: Json, set: FieldSet): Json {
  return cut(schema, value, set, false);
}

export function extractItems(schema: Schema, value: Json, set: FieldSet): Json {
  return cut(schema, value, set, true);
}

function cut(schema: Schema, value: Json, set: FieldSet, extract: boolean): Json {
  switch (schema.type) {
    case 'list':
      return cutList(schema, value, set, extract);
    case 'object':
    case 'map':
      return cutMap(schema, value, set, extract);
    case 'any':
      if (isJsonObject(value)) return cutMap(schema, value, set, extract);
      return isJsonArray(value) && !extract ? null : value;
    default:
      return value;
  }
}

function cutList(
  schema: Extract<Schema, { type: 'list' }>,
  value: Json,
  set: FieldSet,
  extract: boolean,
): Json {
  if (!isJsonArray(value)) return null;
  if (value.length === 0 || schema.listType === 'atomic') return extract ? value : null;
  const out: Json[] = [];
  for (const item of value) {
    const entry = set.get(itemElement(schema, item));
    const inner = (entry?.below.size ?? 0) > 0;
    if (extract ? entry === undefined : entry?.member) continue;
    out.push(inner ? cut(schema.items, item, entry?.below ?? emptySet, extract) : item);
  }
  return out.length === 0 ? null : out;
}

function cutMap(
  schema: Extract<Schema, { type: 'object' | 'map' | 'any' }>,
  value: Json,
  set: FieldSet,
  extract: boolean,
): Json {
  if (!isJsonObject(value)) return null;
  const names = Object.keys(value);
  if (names.length === 0 || (schema.type !== 'any' && schema.mapType === 'atomic')) {
    return extract ? value : null;
  }
  const out: Record<string, Json> = {};
  let size = 0;
  for (const name of names) {
    const child = value[name] as Json;
    const entry = set.get(elementOfField(schema, name));
    const inner = fieldSchema(schema, name) ?? anySchema;
    let kept: Json;
    if (entry === undefined) {
      if (extract) continue;
      kept = child;
    } else if (entry.member) {
      if (!extract) continue;
      // The set of the parent goes down with a member: kube-apiserver does so, and extracts a
      // member that is an object with the fields that its parent's set happens to name.
      kept = cut(inner, child, set, true);
    } else kept = cut(inner, child, entry.below, extract);
    setOwn(out, name, kept);
    size++;
  }
  return size === 0 ? null : out;
}
