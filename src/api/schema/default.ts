// Applies defaults as kube-apiserver does for custom resources: a missing or null field takes the
// default of its schema, and then defaults apply inside that value too.

import { isObject } from './json.ts';
import type { ListSchema, MapSchema, ObjectSchema, Schema } from './schema.ts';

const withDefaults = new WeakMap<Schema, boolean>();

/** Whether anything at or below this schema has a default; a schema without is not walked at all. */
function hasDefaults(schema: Schema): boolean {
  const known = withDefaults.get(schema);
  if (known !== undefined) return known;
  const found = 'default' in schema || childrenOf(schema).some(hasDefaults);
  withDefaults.set(schema, found);
  return found;
}

function childrenOf(schema: Schema): readonly Schema[] {
  if (schema.type === 'object') return Object.values(schema.fields).map((field) => field.schema);
  if (schema.type === 'list') return [schema.items];
  return schema.type === 'map' ? [schema.values] : [];
}

/**
 * Returns `value` with what the schema adds. The input is never changed: where nothing was added
 * the same value comes back, and a changed object shares what did not change with the old one.
 */
export function applyDefaults(schema: Schema, value: unknown): unknown {
  if (!hasDefaults(schema)) return value;
  if (schema.type === 'list') return Array.isArray(value) ? defaultItems(schema, value) : value;
  if (!isObject(value)) return value;
  if (schema.type === 'object') return defaultFields(schema, value);
  return schema.type === 'map' ? defaultValues(schema, value) : value;
}

function defaultFields(schema: ObjectSchema, value: Readonly<Record<string, unknown>>): unknown {
  let copy: Record<string, unknown> | undefined;
  for (const name in schema.fields) {
    const child = schema.fields[name]?.schema;
    if (child === undefined || !hasDefaults(child)) continue;
    const before = Object.hasOwn(value, name) ? value[name] : undefined;
    const after = defaultChild(child, before);
    if (after === before) continue;
    copy ??= { ...value };
    copy[name] = after;
  }
  return copy ?? value;
}

function defaultValues(schema: MapSchema, value: Readonly<Record<string, unknown>>): unknown {
  let copy: Record<string, unknown> | undefined;
  for (const key of Object.keys(value)) {
    const after = defaultChild(schema.values, value[key]);
    if (after === value[key]) continue;
    copy ??= { ...value };
    copy[key] = after;
  }
  return copy ?? value;
}

function defaultItems(schema: ListSchema, value: readonly unknown[]): unknown {
  let copy: unknown[] | undefined;
  for (let i = 0; i < value.length; i++) {
    const after = defaultChild(schema.items, value[i]);
    if (after === value[i]) continue;
    copy ??= [...value];
    copy[i] = after;
  }
  return copy ?? value;
}

function defaultChild(schema: Schema, value: unknown): unknown {
  const missing = value === undefined || value === null;
  if (missing && 'default' in schema) return applyDefaults(schema, schema.default);
  return value === undefined ? undefined : applyDefaults(schema, value);
}
