// Prunes an object: drops fields that the schema does not declare, and reports them as
// kube-apiserver does (`unknown field "spec.rules[0].x"`). It also drops null fields that have no
// default, because no field is nullable, except inside an `any`.

import { compareBytes } from './go-text.ts';
import { isObject } from './json.ts';
import type { ObjectSchema, Schema } from './schema.ts';

export interface Pruned {
  readonly value: unknown;
  /** Paths of what was dropped because it is unknown, in the order of their bytes. */
  readonly unknown: readonly string[];
}

const nothingUnknown: readonly string[] = [];

/** The input is never changed; where nothing is dropped, the same value comes back. */
export function prune(schema: Schema, value: unknown, path = ''): Pruned {
  const unknown: string[] = [];
  const pruned = pruneAt(schema, value, path, unknown);
  if (unknown.length === 0) return { value: pruned, unknown: nothingUnknown };
  return { value: pruned, unknown: unknown.toSorted(compareBytes) };
}

export function joinPath(path: string, key: string): string {
  return path === '' ? key : `${path}.${key}`;
}

/** An undefined schema knows nothing: that is the case below values that are not of their type. */
function pruneAt(
  schema: Schema | undefined,
  value: unknown,
  path: string,
  unknown: string[],
): unknown {
  if (typeof value !== 'object' || value === null || schema?.type === 'any') return value;
  if (Array.isArray(value)) {
    const items = schema?.type === 'list' ? schema.items : undefined;
    return pruneList(items, value, path, unknown);
  }
  if (!isObject(value)) return value;
  if (schema?.type === 'map') return pruneMap(schema.values, value, path, unknown);
  return pruneObject(schema?.type === 'object' ? schema : undefined, value, path, unknown);
}

function pruneList(
  items: Schema | undefined,
  value: readonly unknown[],
  path: string,
  unknown: string[],
): unknown {
  let copy: unknown[] | undefined;
  for (let i = 0; i < value.length; i++) {
    const before = value[i];
    if (typeof before !== 'object') continue;
    const after = pruneAt(items, before, `${path}[${i}]`, unknown);
    if (after === before) continue;
    copy ??= [...value];
    copy[i] = after;
  }
  return copy ?? value;
}

function pruneMap(
  values: Schema,
  value: Readonly<Record<string, unknown>>,
  path: string,
  unknown: string[],
): unknown {
  let copy: Record<string, unknown> | undefined;
  for (const key of Object.keys(value)) {
    const before = value[key];
    if (before === null && dropsNull(values)) {
      copy ??= { ...value };
      delete copy[key];
    } else if (typeof before === 'object') {
      const after = pruneAt(values, before, joinPath(path, key), unknown);
      if (after === before) continue;
      copy ??= { ...value };
      copy[key] = after;
    }
  }
  return copy ?? value;
}

function pruneObject(
  schema: ObjectSchema | undefined,
  value: Readonly<Record<string, unknown>>,
  path: string,
  unknown: string[],
): unknown {
  const keys = Object.keys(value);
  let kept: Record<string, unknown> | undefined;
  // Built up from what is known, not cut down: nearly all of a hostile object may be unknown.
  const keptBefore = (at: number): Record<string, unknown> => {
    kept ??= Object.fromEntries(keys.slice(0, at).map((key) => [key, value[key]]));
    return kept;
  };
  for (const [at, key] of keys.entries()) {
    const field =
      schema !== undefined && Object.hasOwn(schema.fields, key) ? schema.fields[key] : undefined;
    const before = value[key];
    if (field === undefined) {
      unknown.push(joinPath(path, key));
      keptBefore(at);
    } else if (before === null && dropsNull(field.schema)) keptBefore(at);
    else {
      const after =
        typeof before === 'object'
          ? pruneAt(field.schema, before, joinPath(path, key), unknown)
          : before;
      if (kept !== undefined || after !== before) keptBefore(at)[key] = after;
    }
  }
  return kept ?? value;
}

/** A null with a default stays for defaulting to replace. */
function dropsNull(schema: Schema): boolean {
  return schema.type !== 'any' && !('default' in schema);
}
