// Computes the field set of a value. `toFieldSet` returns the fields that an applied configuration
// claims: leaves, list items and map entries. `everyField` also returns the objects between them, for
// comparisons.

import type { Json } from '../object.ts';
import type { ListSchema, Schema } from '../schema/schema.ts';
import {
  type FieldEntry,
  type FieldSet,
  type MutableFieldSet,
  emptySet,
  leaf,
} from './field-set.ts';
import { isJsonObject } from './json-value.ts';
import type { PathElement } from './path-element.ts';
import {
  SchemaMismatch,
  asList,
  asMap,
  elementOfField,
  fieldSchema,
  isDeclaredField,
  itemElement,
  knownFields,
  listShape,
  mapShape,
} from './shape.ts';

export function toFieldSet(schema: Schema, value: Json): FieldSet {
  return claimed(schema, value).below;
}

/** The entry for a value; useless (no member, nothing below) for an empty list, which nobody owns. */
function claimed(schema: Schema, value: Json): FieldEntry {
  const map = mapShape(schema, value);
  if (map !== undefined) {
    const fields = asMap(value);
    if (fields === undefined) return { member: false, below: emptySet };
    const below: MutableFieldSet = new Map();
    for (const name of Object.keys(fields)) {
      const child = fields[name] as Json;
      const inner = fieldSchema(map, name);
      if (inner === undefined) throw new SchemaMismatch(`.${name}: field not declared in schema`);
      const entry = claimed(inner, child);
      const member =
        entry.member ||
        child === null ||
        (isJsonObject(child) && Object.keys(child).length === 0) ||
        !isDeclaredField(map, name);
      if (member || entry.below.size > 0) {
        below.set(
          elementOfField(map, name),
          entry.member === member
            ? entry
            : entry.below.size === 0
              ? leaf
              : { member, below: entry.below },
        );
      }
    }
    return { member: false, below };
  }
  const list = listShape(schema);
  if (list === undefined) return leaf;
  const items = asList(value);
  if (items === undefined || items.length === 0) return { member: false, below: emptySet };
  return {
    member: false,
    below: itemEntries(list, items, (item) => claimed(list.items, item).below),
  };
}

/** Items that share their keys cannot be told apart: each such group is one leaf. */
function itemEntries(
  list: ListSchema,
  items: readonly Json[],
  belowItem: (item: Json) => FieldSet,
): FieldSet {
  const below: MutableFieldSet = new Map();
  for (const item of items) {
    const element = itemElement(list, item);
    if (below.has(element)) below.set(element, leaf);
    else {
      const inner = belowItem(item);
      below.set(element, inner.size === 0 ? leaf : { member: true, below: inner });
    }
  }
  return below;
}

/** The value with everything in it, objects between included. */
export function everyField(schema: Schema, value: Json): FieldEntry {
  switch (schema.type) {
    case 'string':
    case 'integer':
    case 'boolean':
      return leaf;
    case 'list': {
      if (schema.listType === 'atomic') return leaf;
      const items = asList(value);
      if (items === undefined || items.length === 0) return leaf;
      return {
        member: true,
        below: itemEntries(schema, items, (item) => everyField(schema.items, item).below),
      };
    }
    default: {
      const map = mapShape(schema, value);
      if (map === undefined) return leaf;
      const fields = asMap(value);
      if (fields === undefined) return leaf;
      const below: MutableFieldSet = new Map();
      if (map.type === 'object') {
        const known = knownFields(map);
        for (const name in fields) {
          const field = known.get(name);
          if (field !== undefined)
            below.set(field.element, everyField(field.schema, fields[name] as Json));
          else addUndeclared(below, map, name, fields[name] as Json);
        }
      } else {
        for (const name in fields) addUndeclared(below, map, name, fields[name] as Json);
      }
      return below.size === 0 ? leaf : { member: true, below };
    }
  }
}

function addUndeclared(
  below: Map<PathElement, FieldEntry>,
  map: Parameters<typeof fieldSchema>[0],
  name: string,
  value: Json,
): void {
  const inner = fieldSchema(map, name);
  if (inner === undefined) throw new SchemaMismatch(`.${name}: field not declared in schema`);
  below.set(elementOfField(map, name), everyField(inner, value));
}
