// Adapts stored field sets to a changed schema. If a field that an older release tracked field by
// field is atomic now, its manager owns the whole field.

import type { Schema } from '../schema/schema.ts';
import { type FieldEntry, type FieldSet, type MutableFieldSet, leaf } from './field-set.ts';
import { fieldSchema } from './shape.ts';

/** Returns the very same set where nothing has to change, which is nearly always. */
export function reconcileWithSchema(schema: Schema, set: FieldSet): FieldSet {
  let out: MutableFieldSet | undefined;
  for (const [element, entry] of set) {
    const inner = innerSchema(schema, element);
    if (inner === undefined) continue;
    const reconciled = reconcileEntry(inner, entry);
    if (reconciled === entry) continue;
    out ??= new Map(set);
    out.set(element, reconciled);
  }
  return out ?? set;
}

function innerSchema(schema: Schema, element: string): Schema | undefined {
  switch (schema.type) {
    case 'object':
    case 'map':
      return element.startsWith('f:') ? fieldSchema(schema, element.slice(2)) : undefined;
    case 'list':
      return schema.items;
    default:
      // Free-form values have no declared shape that could change.
      return undefined;
  }
}

function reconcileEntry(schema: Schema, entry: FieldEntry): FieldEntry {
  if (entry.below.size === 0) return entry;
  const atomic =
    schema.type === 'list'
      ? schema.listType === 'atomic'
      : (schema.type === 'object' || schema.type === 'map') && schema.mapType === 'atomic';
  if (atomic) return leaf;
  const below = reconcileWithSchema(schema, entry.below);
  return below === entry.below ? entry : { member: entry.member, below };
}
