// Compares two values of one schema: which fields were added, modified and removed.

import type { Json, JsonObject } from '../object.ts';
import { jsonEquals } from '../schema/json.ts';
import type { ListSchema, Schema } from '../schema/schema.ts';
import {
  type FieldEntry,
  type FieldSet,
  type MutableFieldSet,
  emptySet,
  leaf,
} from './field-set.ts';
import { isJsonArray, isJsonObject } from './json-value.ts';
import type { PathElement } from './path-element.ts';
import {
  type MapShape,
  SchemaMismatch,
  anySchema,
  asList,
  asMap,
  elementOfField,
  fieldSchema,
  itemElement,
  listShape,
  mapShape,
} from './shape.ts';
import { everyField } from './to-field-set.ts';

/** No field is in more than one of the sets. */
export interface Comparison {
  readonly added: FieldSet;
  readonly modified: FieldSet;
  readonly removed: FieldSet;
}

/** The three sets of one level, made when first needed: most levels are unchanged. */
class Changes {
  added: MutableFieldSet | undefined;
  modified: MutableFieldSet | undefined;
  removed: MutableFieldSet | undefined;

  add(element: PathElement, entry: FieldEntry): void {
    (this.added ??= new Map()).set(element, entry);
  }

  modify(element: PathElement): void {
    (this.modified ??= new Map()).set(element, leaf);
  }

  remove(element: PathElement, entry: FieldEntry): void {
    (this.removed ??= new Map()).set(element, entry);
  }

  /** Takes over the changes below an element that is itself in both values. */
  adopt(element: PathElement, inner: Changes): void {
    if (inner.added) this.add(element, { member: false, below: inner.added });
    if (inner.removed) this.remove(element, { member: false, below: inner.removed });
    if (inner.modified) {
      this.modified ??= new Map();
      const member = this.modified.get(element)?.member ?? false;
      this.modified.set(element, { member, below: inner.modified });
    }
  }
}

export function compare(schema: Schema, before: Json, after: Json): Comparison {
  const changes = new Changes();
  const map = mapShape(schema, after);
  if (map !== undefined) compareMaps(map, asMap(before), asMap(after), changes);
  return {
    added: changes.added ?? emptySet,
    modified: changes.modified ?? emptySet,
    removed: changes.removed ?? emptySet,
  };
}

function compareMaps(
  shape: MapShape,
  before: JsonObject | undefined,
  after: JsonObject | undefined,
  changes: Changes,
): void {
  if (before !== undefined) {
    for (const name in before) {
      const old = before[name] as Json;
      if (after !== undefined && Object.hasOwn(after, name)) {
        if (old === after[name]) continue;
        const inner = declared(shape, name);
        compareBoth(inner, elementOfField(shape, name), old, after[name] as Json, changes);
      } else {
        changes.remove(elementOfField(shape, name), everyField(declared(shape, name), old));
      }
    }
  }
  if (after !== undefined) {
    for (const name in after) {
      if (before !== undefined && Object.hasOwn(before, name)) continue;
      changes.add(
        elementOfField(shape, name),
        everyField(declared(shape, name), after[name] as Json),
      );
    }
  }
}

function declared(shape: MapShape, name: string): Schema {
  const inner = fieldSchema(shape, name);
  if (inner === undefined) throw new SchemaMismatch(`.${name}: field not declared in schema`);
  return inner;
}

/** Compares a field or item that is in both values. */
function compareBoth(
  schema: Schema,
  element: PathElement,
  before: Json,
  after: Json,
  changes: Changes,
): void {
  if (schema.type === 'any' && !(isMapLike(before) && isMapLike(after))) {
    compareKinds(element, before, after, changes);
    return;
  }
  const map = mapShape(schema, after);
  if (map !== undefined) {
    const old = asMap(before);
    const now = asMap(after);
    if (isEmptyMap(old) && isEmptyMap(now)) {
      // An empty map and null are told apart, as leaves.
      if (!jsonEquals(before, after)) changes.modify(element);
      return;
    }
    const inner = new Changes();
    compareMaps(map, old, now, inner);
    changes.adopt(element, inner);
    return;
  }
  const list = listShape(schema);
  if (list === undefined) {
    if (!jsonEquals(before, after)) changes.modify(element);
    return;
  }
  const old = asList(before);
  const now = asList(after);
  if ((old?.length ?? 0) === 0 && (now?.length ?? 0) === 0) {
    if (!jsonEquals(before, after)) changes.modify(element);
    return;
  }
  const inner = new Changes();
  compareLists(list, old ?? [], now ?? [], inner);
  changes.adopt(element, inner);
}

/** Free-form values of which at least one is a scalar or a list: the change of kind is a modification. */
function compareKinds(element: PathElement, before: Json, after: Json, changes: Changes): void {
  if (jsonEquals(before, after)) return;
  changes.modify(element);
  const inner = new Changes();
  if (isJsonObject(before)) compareMaps(anySchema, before, undefined, inner);
  if (isJsonObject(after)) compareMaps(anySchema, undefined, after, inner);
  changes.adopt(element, inner);
}

function isMapLike(value: Json): boolean {
  return value === null || isJsonObject(value);
}

function isEmptyMap(map: JsonObject | undefined): boolean {
  return map === undefined || Object.keys(map).length === 0;
}

function compareLists(
  list: ListSchema,
  before: readonly Json[],
  after: readonly Json[],
  changes: Changes,
): void {
  const old = groupItems(list, before);
  const now = groupItems(list, after);
  for (const [element, oldItems] of old) {
    compareItems(list, element, oldItems, now.get(element) ?? noItems, changes);
  }
  for (const [element, newItems] of now) {
    if (!old.has(element)) compareItems(list, element, noItems, newItems, changes);
  }
}

const noItems: readonly Json[] = [];

function groupItems(list: ListSchema, items: readonly Json[]): Map<PathElement, Json[]> {
  const groups = new Map<PathElement, Json[]>();
  for (const item of items) {
    const element = itemElement(list, item);
    const group = groups.get(element);
    if (group === undefined) groups.set(element, [item]);
    else group.push(item);
  }
  return groups;
}

/** Items that share their keys are compared as one value. */
function compareItems(
  list: ListSchema,
  element: PathElement,
  before: readonly Json[],
  after: readonly Json[],
  changes: Changes,
): void {
  const old = before[0];
  const now = after[0];
  if (before.length >= 2 && after.length >= 2) {
    if (!jsonEquals(before, after)) changes.modify(element);
  } else if (before.length >= 2) {
    if (now !== undefined) changes.add(element, itemEntry(list, now));
    changes.remove(element, leaf);
  } else if (after.length >= 2) {
    if (old !== undefined) changes.remove(element, itemEntry(list, old));
    changes.add(element, leaf);
  } else if (old === undefined) {
    if (now !== undefined) changes.add(element, itemEntry(list, now));
  } else if (now === undefined) {
    changes.remove(element, itemEntry(list, old));
  } else if (isJsonArray(now) || isJsonObject(now)) {
    compareBoth(list.items, element, old, now, changes);
  }
  // Items of a set that have the same element are equal.
}

function itemEntry(list: ListSchema, item: Json): FieldEntry {
  return everyField(list.items, item);
}
