// The memory that one known token takes in the cache: what V8 allocates for its strings, arrays and objects,
// without pointer compression, as in Node. A test compares it with the heap.

import type { StoredAcceptance } from '../review/stored-acceptance.ts';
import type { Denial } from '../review/verdict.ts';

/** What the last check of a token said; undefined where there was none. */
export type CheckedVerdict = StoredAcceptance | Denial | undefined;

/** The entry with its numbers and links, the key of 32 bytes, and the slot in a Map that is half full on average. */
const entryBytes = 152 + 48 + 72;
/** A stored acceptance with its number, without its text. */
const acceptanceBytes = 64;
/** A denial without its text. */
const denialBytes = 48;

export function knownTokenBytes(claims: StoredAcceptance, checked: CheckedVerdict): number {
  const bytes = entryBytes + acceptanceBytes + stringBytes(claims.json);
  if (checked === undefined || checked === claims) return bytes;
  if (checked.authenticated) return bytes + acceptanceBytes + stringBytes(checked.json);
  return bytes + denialBytes + stringBytes(checked.error ?? '');
}

/** Names in Kubernetes are ASCII, which V8 keeps in one byte for each character. */
function stringBytes(text: string): number {
  return 24 + text.length;
}
