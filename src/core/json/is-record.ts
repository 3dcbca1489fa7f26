// Tells JSON objects from other values.

export type JsonRecord = Readonly<Record<string, unknown>>;

/** Not for null and lists. */
export function isRecord(value: unknown): value is JsonRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
