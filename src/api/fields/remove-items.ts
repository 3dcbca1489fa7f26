// Removes the fields of a set from a value. A container that loses all of its fields becomes null, as
// in kube-apiserver; pruning removes the null afterwards.

import type { Json } from '../object.ts';
import type { ListSchema, Schema } from '../schema/schema.ts';
import { type FieldSet, emptySet } from './field-set.ts';
import { isJsonArray, isJsonObject, setOwn } from './json-value.ts';
import { type MapShape, anySchema, elementOfField, fieldSchema, itemElement } from './shape.ts';

export function removeItems(schema: Schema, value: Json, set: FieldSet): Json {
  switch (schema.type) {
    case 'list':
      return cutList(schema, value, set);
    case 'object':
    case 'map':
      return cutMap(schema, value, set);
    case 'any':
      if (isJsonObject(value)) return cutMap(schema, value, set);
      return isJsonArray(value) ? null : value;
    default:
      return value;
  }
}

function cutList(schema: ListSchema, value: Json, set: FieldSet): Json {
  if (!isJsonArray(value) || value.length === 0 || schema.listType === 'atomic') return null;
  const out: Json[] = [];
  for (const item of value) {
    const entry = set.get(itemElement(schema, item));
    if (entry?.member) continue;
    const below = entry?.below ?? emptySet;
    out.push(below.size > 0 ? removeItems(schema.items, item, below) : item);
  }
  return out.length === 0 ? null : out;
}

function cutMap(schema: MapShape, value: Json, set: FieldSet): Json {
  if (!isJsonObject(value)) return null;
  const names = Object.keys(value);
  if (names.length === 0 || (schema.type !== 'any' && schema.mapType === 'atomic')) return null;
  const out: Record<string, Json> = {};
  let size = 0;
  for (const name of names) {
    const child = value[name] as Json;
    const entry = set.get(elementOfField(schema, name));
    if (entry?.member) continue;
    const inner = fieldSchema(schema, name) ?? anySchema;
    setOwn(out, name, entry === undefined ? child : removeItems(inner, child, entry.below));
    size++;
  }
  return size === 0 ? null : out;
}
