// Finds duplicate keys of JSON objects inside tokens, which go-jose refuses and JSON.parse does not see.

import { isRecord, type JsonRecord } from '../../core/json/is-record.ts';
import { duplicateFields } from '../../core/json/strict-json.ts';

/**
 * The first duplicate key of `record`, or of the objects in it that `inside` names by their paths.
 * Duplicates elsewhere do not matter: go-jose skips what it does not know.
 */
export function duplicateKeyOf(
  json: Buffer,
  record: JsonRecord,
  inside: ReadonlyMap<string, (record: JsonRecord) => unknown> = new Map(),
): string | undefined {
  if (isCanonical(json, record)) return undefined;
  for (const path of duplicateFields(json)) {
    if (Object.hasOwn(record, path)) return path;
    for (const [prefix, find] of inside) {
      const found = path.startsWith(prefix) ? find(record) : undefined;
      const key = path.slice(prefix.length);
      if (isRecord(found) && Object.hasOwn(found, key)) return key;
    }
  }
  return undefined;
}

/** Text that is written back unchanged has no duplicate. Far quicker than a search, and true for real tokens. */
function isCanonical(json: Buffer, record: JsonRecord): boolean {
  try {
    return JSON.stringify(record) === json.toString('utf8');
  } catch {
    // Too deep for JSON.stringify.
    return false;
  }
}
