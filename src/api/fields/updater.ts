// Computes field ownership after a write: the core of server-side apply, over field sets and values
// of one version. It does not know metadata, timestamps or encodings.

import type { Json } from '../object.ts';
import { jsonEquals } from '../schema/json.ts';
import type { Schema } from '../schema/schema.ts';
import { compare } from './compare.ts';
import {
  type FieldSet,
  type MutableFieldSet,
  difference,
  emptySet,
  intersection,
  isEmpty,
  recursiveDifference,
  union,
  unionAll,
} from './field-set.ts';
import { merge } from './merge.ts';
import { removeItems } from './remove-items.ts';
import { reconcileWithSchema } from './schema-change.ts';
import { fieldSchema, isDeclaredField } from './shape.ts';
import { toFieldSet } from './to-field-set.ts';

/** Field sets by the identifier of their manager. */
export type Managers = ReadonlyMap<string, FieldSet>;

/** Fields that others own and that an apply without force would change. */
export interface Conflict {
  readonly manager: string;
  readonly fields: FieldSet;
}

export class ConflictError extends Error {
  readonly conflicts: readonly Conflict[];

  constructor(conflicts: readonly Conflict[]) {
    super('apply conflicts with other field managers');
    this.conflicts = conflicts;
  }
}

export interface Applied {
  /** Undefined where the merge changes nothing. */
  readonly object: Json | undefined;
  readonly managers: Map<string, FieldSet>;
}

/** A write of a whole object: `manager` owns what it changed, and takes it from everyone else. */
export function updateManagers(
  schema: Schema,
  live: Json,
  next: Json,
  managers: Managers,
  manager: string,
  ignored: FieldSet,
): Map<string, FieldSet> {
  const reconciled = reconcileAll(schema, managers);
  const changed = settle(schema, live, next, reconciled, manager, true, ignored);
  const own = union(
    union(difference(reconciled.get(manager) ?? emptySet, changed.removed), changed.modified),
    changed.added,
  );
  const kept = recursiveDifference(own, ignored);
  if (isEmpty(kept)) reconciled.delete(manager);
  else reconciled.set(manager, kept);
  return reconciled;
}

/** An apply: `manager` declares all its fields. Fields that it declared before and that have no other owner are removed. */
export function applyConfiguration(
  schema: Schema,
  live: Json,
  config: Json,
  managers: Managers,
  manager: string,
  force: boolean,
  ignored: FieldSet,
): Applied {
  const reconciled = reconcileAll(schema, managers);
  const merged = merge(schema, live, config);
  const last = reconciled.get(manager);
  reconciled.set(manager, recursiveDifference(toFieldSet(schema, config), ignored));
  const object =
    last === undefined || isEmpty(last) ? merged : pruneAbandoned(schema, merged, reconciled, last);
  settle(schema, live, object, reconciled, manager, force, ignored);
  return { object: jsonEquals(live, object) ? undefined : object, managers: reconciled };
}

function reconcileAll(schema: Schema, managers: Managers): Map<string, FieldSet> {
  const out = new Map<string, FieldSet>();
  for (const [manager, set] of managers) out.set(manager, reconcileWithSchema(schema, set));
  return out;
}

/** Takes from all other managers what the change from `live` to `next` took; changes `managers`. */
function settle(
  schema: Schema,
  live: Json,
  next: Json,
  managers: Map<string, FieldSet>,
  manager: string,
  force: boolean,
  ignored: FieldSet,
): ReturnType<typeof compare> {
  const all = compare(schema, live, next);
  const changed = {
    added: recursiveDifference(all.added, ignored),
    modified: recursiveDifference(all.modified, ignored),
    removed: recursiveDifference(all.removed, ignored),
  };
  const written = union(changed.modified, changed.added);
  const conflicts: Conflict[] = [];
  for (const [other, set] of managers) {
    if (other === manager) continue;
    const fields = intersection(set, written);
    if (!isEmpty(fields)) conflicts.push({ manager: other, fields });
  }
  if (!force && conflicts.length > 0) throw new ConflictError(conflicts);
  for (const { manager: other, fields } of conflicts) {
    managers.set(other, difference(managers.get(other) ?? emptySet, fields));
  }
  for (const [other, set] of managers) {
    const kept = other === manager ? set : difference(set, changed.removed);
    if (isEmpty(kept)) managers.delete(other);
    else if (kept !== set) managers.set(other, kept);
  }
  return changed;
}

/**
 * Removes what the manager applied last time, does not apply now, and no other manager owns.
 * `managers` has the new set of the applying manager already.
 */
function pruneAbandoned(schema: Schema, merged: Json, managers: Managers, last: FieldSet): Json {
  const lastNamed = withNamedFields(schema, last);
  const mergedFields = withNamedFields(schema, toFieldSet(schema, merged));
  const owned = unionAll([...managers.values()]);

  // What would go, but is owned, comes back.
  const bare = removeItems(schema, merged, lastNamed);
  const withOwned = removeItems(
    schema,
    merged,
    difference(
      mergedFields,
      union(withNamedFields(schema, toFieldSet(schema, bare)), withNamedFields(schema, owned)),
    ),
  );
  // What would go with its parent, but was never the applier's, comes back as well.
  const remaining = withNamedFields(schema, toFieldSet(schema, withOwned));
  return removeItems(schema, merged, intersection(difference(mergedFields, remaining), lastNamed));
}

/** The set and every declared field on the way to its members: `a.b.c` gives `a` and `a.b` too. */
function withNamedFields(schema: Schema | undefined, set: FieldSet): FieldSet {
  if (set.size === 0) return set;
  const out: MutableFieldSet = new Map();
  for (const [element, entry] of set) {
    if (entry.below.size === 0) {
      out.set(element, entry);
      continue;
    }
    const name = element.startsWith('f:') ? element.slice(2) : undefined;
    let member = entry.member;
    let inner: Schema | undefined;
    if (schema !== undefined && name !== undefined && isMapSchema(schema)) {
      member ||= isDeclaredField(schema, name);
      inner = fieldSchema(schema, name);
    } else if (schema?.type === 'list' && element.startsWith('k:')) inner = schema.items;
    out.set(element, { member, below: withNamedFields(inner, entry.below) });
  }
  return out;
}

function isMapSchema(
  schema: Schema,
): schema is Extract<Schema, { type: 'object' | 'map' | 'any' }> {
  return schema.type === 'object' || schema.type === 'map' || schema.type === 'any';
}
