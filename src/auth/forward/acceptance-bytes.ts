// The memory that one cached acceptance takes: what V8 allocates for its strings, arrays and objects,
// without pointer compression, as in Node. A test compares it with the heap.

import type { Acceptance } from '../review/verdict.ts';

/** The entry, the key of 32 bytes, and the slot in a Map that is half full on average. */
const entryBytes = 56 + 48 + 72;
/** The acceptance and its user. */
const objectBytes = 56 + 56;
/** An array: the object and the head of its elements. */
const arrayBytes = 32 + 16;
/** One field of an object in dictionary form, whose size is a power of two. */
const fieldBytes = 48;

export function acceptanceBytes({ user, audiences }: Acceptance): number {
  let bytes = entryBytes + objectBytes + stringBytes(user.username) + stringBytes(user.uid);
  bytes += stringsBytes(user.groups) + stringsBytes(audiences);
  for (const key in user.extra) bytes += fieldBytes + stringsBytes(user.extra[key] ?? []);
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
