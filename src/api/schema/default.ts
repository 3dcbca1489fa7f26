// Defaulting, as kube-apiserver does it for custom resources: a field that is missing, or null,
// takes the default of its schema, and then the value (the default too) is walked for more.

import { isObject } from './json.ts';
import type { Schema } from './schema.ts';

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
  switch (schema.type) {
    case 'object':
      return Object.values(schema.fields).map((field) => field.schema);
    case 'list':
      return [schema.items];
    case 'map':
      return [schema.values];
    default:
      return [];
  }
}

/**
 * Returns `value` with what the schema adds. The input is never changed: where nothing was added
 * the same value comes back, and a changed object shares what did not change with the old one.
 */
export function applyDefaults(schema: Schema, value: unknown): unknown {
  if (!hasDefaults(schema)) return value;
  switch (schema.type) {
    case 'object': {
      if (!isObject(value)) return value;
      let copy: Record<string, unknown> | undefined;
      for (const [name, field] of Object.entries(schema.fields)) {
        if (!hasDefaults(field.schema)) continue;
        const before = Object.hasOwn(value, name) ? value[name] : undefined;
        const after = defaultChild(field.schema, before);
        if (after === before) continue;
        copy ??= { ...value };
        copy[name] = after;
      }
      return copy ?? value;
    }
    case 'map': {
      if (!isObject(value)) return value;
      let copy: Record<string, unknown> | undefined;
      for (const [key, before] of Object.entries(value)) {
        const after = defaultChild(schema.values, before);
        if (after === before) continue;
        copy ??= { ...value };
        copy[key] = after;
      }
      return copy ?? value;
    }
    case 'list': {
      if (!Array.isArray(value)) return value;
      let copy: unknown[] | undefined;
      for (let i = 0; i < value.length; i++) {
        const after = defaultChild(schema.items, value[i]);
        if (after === value[i]) continue;
        copy ??= [...value];
        copy[i] = after;
      }
      return copy ?? value;
    }
    default:
      return value;
  }
}

function defaultChild(schema: Schema, value: unknown): unknown {
  const missing = value === undefined || value === null;
  if (missing && 'default' in schema) return applyDefaults(schema, schema.default);
  return value === undefined ? undefined : applyDefaults(schema, value);
}
