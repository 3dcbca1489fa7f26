// The memory that one known token takes in the cache: what V8 allocates for its strings, arrays and objects,
// without pointer compression, as in Node. A test compares it with the heap.

import type { Acceptance } from '../review/verdict.ts';
import type { ClaimedIdentity } from './upstream-answer.ts';

/** The entry, the key of 32 bytes, and the slot in a Map that is half full on average. */
const entryBytes = 96 + 48 + 72;
/** An acceptance and its user. */
const objectBytes = 56 + 56;
/** The claims around the acceptance. */
const claimedBytes = 40;
/** An array: the object and the head of its elements. */
const arrayBytes = 32 + 16;
/** One field of an object in dictionary form, whose size is a power of two. */
const fieldBytes = 48;

export function knownTokenBytes(
  { acceptance: claimed, tokenAudiences }: ClaimedIdentity,
  acceptance: Acceptance | undefined,
): number {
  const { user } = claimed;
  let bytes = entryBytes + claimedBytes + objectBytes;
  bytes += stringBytes(user.username) + stringBytes(user.uid) + stringsBytes(user.groups);
  bytes += stringsBytes(claimed.audiences);
  if (tokenAudiences !== claimed.audiences) bytes += stringsBytes(tokenAudiences);
  for (const key in user.extra) bytes += fieldBytes + stringsBytes(user.extra[key] ?? []);
  // It shares its strings with the claims, except the audiences.
  if (acceptance !== undefined && acceptance !== claimed) {
    bytes += objectBytes + stringsBytes(acceptance.audiences);
    bytes += fieldBytes * Object.keys(acceptance.user.extra).length;
  }
  return bytes;
}

function stringsBytes(strings: readonly string[]): number {
  let bytes = arrayBytes;
  for (const text of strings) bytes += 8 + stringBytes(text);
  return bytes;
}

/** Two bytes for each character cannot be too little. Names in Kubernetes are ASCII, with one byte each. */
function stringBytes(text: string): number {
  return 24 + text.length;
}
