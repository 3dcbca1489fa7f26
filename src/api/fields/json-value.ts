// JSON values as data: own properties only, so that keys such as `__proto__` or `constructor`
// are fields like any other and never reach an object's prototype.

import type { Json, JsonObject } from '../object.ts';

/** kube-apiserver's decoder refuses deeper documents too, at 10,000; our recursion must fit the stack. */
export const maxJsonDepth = 1000;

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function isJsonArray(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

export function ownValue(object: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Sets a property as data: plain assignment of `__proto__` would change the prototype instead. */
export function setOwn(target: Record<string, Json>, key: string, value: Json): void {
  if (key === '__proto__') {
    Object.defineProperty(target, key, {
      value,
      writable: true,
      enumerable: true,
      configurable: true,
    });
  } else {
    target[key] = value;
  }
}

/** A shallow copy without one key; the same object when it has no such key. */
export function withoutKey(object: JsonObject, key: string): JsonObject {
  if (!Object.hasOwn(object, key)) return object;
  const copy: Record<string, Json> = { ...object };
  delete copy[key];
  return copy;
}

/** Whether a value nests at most `limit` levels. It never looks deeper, however deep the value is. */
export function isWithinDepth(value: Json, limit: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (limit === 0) return false;
  if (isJsonArray(value)) {
    for (const item of value) if (!isWithinDepth(item, limit - 1)) return false;
    return true;
  }
  for (const key in value) {
    const inner = value[key] as Json;
    if (typeof inner === 'object' && !isWithinDepth(inner, limit - 1)) return false;
  }
  return true;
}
