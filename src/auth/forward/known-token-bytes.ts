// The memory that one known token takes in the cache: what V8 allocates for its strings, arrays and objects,
// without pointer compression, as in Node. A test compares it with the heap.

import type { StoredAcceptance } from '../review/stored-acceptance.ts';

/** The entry with its numbers and links, the key of 32 bytes, and the slot in a Map that is half full on average. */
const entryBytes = 152 + 48 + 72;
/** A stored acceptance with its number, without its text. */
const acceptanceBytes = 64;
/** An array: the object and the head of its elements. */
const arrayBytes = 32 + 16;

/** `tokenAudiences` only where they are not those of the claims. */
export function knownTokenBytes(
  claims: StoredAcceptance,
  acceptance: StoredAcceptance | undefined,
  tokenAudiences: readonly string[] | undefined,
): number {
  let bytes = entryBytes + acceptanceBytes + stringBytes(claims.json);
  if (acceptance !== undefined && acceptance !== claims) {
    bytes += acceptanceBytes + stringBytes(acceptance.json);
  }
  if (tokenAudiences !== undefined) {
    bytes += arrayBytes;
    for (const text of tokenAudiences) bytes += 8 + stringBytes(text);
  }
  return bytes;
}

/** Names in Kubernetes are ASCII, which V8 keeps in one byte for each character. */
function stringBytes(text: string): number {
  return 24 + text.length;
}
