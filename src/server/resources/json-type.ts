import type { Json } from '../../api/object.ts';

/** As Go's encoding/json names JSON types in its errors. */
export function jsonTypeOf(value: Json): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return typeof value === 'boolean' ? 'bool' : typeof value;
}
