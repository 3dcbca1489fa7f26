// The Merkle tree of RFC 6962 (§2.1; the algorithms of RFC 9162 §2.1, which hashes alike): pure
// arithmetic and SHA-256. Nothing here reads a log; proof.ts does that.

import { hash, timingSafeEqual } from 'node:crypto';

export const hashBytes = 32;

/** MTH({}) is the hash of nothing (RFC 6962 §2.1). */
export const emptyRoot: Buffer = hash('sha256', '', 'buffer');

// `hash` is synchronous, so its input may be put together in a buffer that the next call reuses.
// A leaf has at most a few KiB; longer ones get a buffer of their own.
const leafScratch = Buffer.alloc(16 * 1024);
const nodeScratch = Buffer.alloc(1 + 2 * hashBytes);
nodeScratch[0] = 0x01;

/** SHA-256(0x00 || row) */
export function leafHash(row: Uint8Array): Buffer {
  const length = 1 + row.length;
  if (length > leafScratch.length)
    return hash('sha256', Buffer.concat([Buffer.of(0), row]), 'buffer');
  leafScratch.set(row, 1);
  return hash('sha256', leafScratch.subarray(0, length), 'buffer');
}

/** SHA-256(0x01 || left || right) */
export function nodeHash(left: Uint8Array, right: Uint8Array): Buffer {
  nodeScratch.set(left, 1);
  nodeScratch.set(right, 1 + hashBytes);
  return hash('sha256', nodeScratch, 'buffer');
}

/** A subtree that just became complete: 2^height leaves, the number-th of its height. */
export type SubtreeComplete = (height: number, number: number, hash: Buffer) => void;

/**
 * The roots of the complete subtrees that make up the tree, largest first: all that is needed to
 * append, in O(log n) hashes and O(log n) memory, and to tell the root. A value that is appended
 * to in place; `clone` before a transaction that may roll back.
 */
export class Frontier {
  #size: number;
  readonly #peaks: Buffer[];

  private constructor(size: number, peaks: Buffer[]) {
    this.#size = size;
    this.#peaks = peaks;
  }

  static empty(): Frontier {
    return new Frontier(0, []);
  }

  /** From `encode`'s bytes. Throws RangeError where they are not those of a tree of this size. */
  static decode(size: number, bytes: Uint8Array): Frontier {
    if (!Number.isSafeInteger(size) || size < 0) throw new RangeError(`no tree has ${size} leaves`);
    const count = onesIn(size);
    if (bytes.length !== count * hashBytes) {
      throw new RangeError(
        `the frontier of ${size} leaves takes ${count * hashBytes} bytes, not ${bytes.length}`,
      );
    }
    const copy = Buffer.from(bytes);
    const peaks = Array.from({ length: count }, (_, i) =>
      copy.subarray(i * hashBytes, (i + 1) * hashBytes),
    );
    return new Frontier(size, peaks);
  }

  get size(): number {
    return this.#size;
  }

  /** Appends one leaf; `complete` hears of every subtree that it completes, the leaf itself first. */
  append(leaf: Buffer, complete?: SubtreeComplete): void {
    let node = leaf;
    let height = 0;
    let number = this.#size;
    complete?.(height, number, node);
    // Each trailing one of the size is a subtree that now gets its sister.
    while (number % 2 === 1) {
      const left = this.#peaks.pop();
      if (left === undefined) throw new Error('frontier without the peak that its size asks for');
      node = nodeHash(left, node);
      height++;
      number = (number - 1) / 2;
      complete?.(height, number, node);
    }
    this.#peaks.push(node);
    this.#size++;
  }

  root(): Buffer {
    let node: Buffer | undefined;
    for (let i = this.#peaks.length - 1; i >= 0; i--) {
      const peak = this.#peaks[i] as Buffer;
      node = node === undefined ? peak : nodeHash(peak, node);
    }
    return node ?? emptyRoot;
  }

  encode(): Buffer {
    return Buffer.concat(this.#peaks);
  }

  clone(): Frontier {
    return new Frontier(this.#size, [...this.#peaks]);
  }
}

/** Leaves `from` up to, but without, `to`. */
export interface LeafRange {
  readonly from: number;
  readonly to: number;
}

/** The k of RFC 6962 §2.1: the largest power of two below `width`, which is 2 or more. */
export function splitPoint(width: number): number {
  let power = 1;
  while (power * 2 < width) power *= 2;
  return power;
}

/** PATH(m, D[n]): the subtrees whose roots prove that leaf `index` is in the tree, deepest first. */
export function inclusionPath(index: number, size: number): LeafRange[] {
  const path: LeafRange[] = [];
  let from = 0;
  let to = size;
  while (to - from > 1) {
    const middle = from + splitPoint(to - from);
    if (index < middle) {
      path.push({ from: middle, to });
      to = middle;
    } else {
      path.push({ from, to: middle });
      from = middle;
    }
  }
  return path.toReversed();
}

/** PROOF(m, D[n]): the subtrees whose roots prove that the first `size1` of `size2` leaves are as they were. */
export function consistencyPath(size1: number, size2: number): LeafRange[] {
  if (size1 === 0 || size1 === size2) return [];
  const path: LeafRange[] = [];
  let from = 0;
  let to = size2;
  // SUBPROOF's flag b: whether the subtree in hand is the whole old tree, whose root is known.
  while (to !== size1) {
    const middle = from + splitPoint(to - from);
    if (size1 <= middle) {
      path.push({ from: middle, to });
      to = middle;
    } else {
      path.push({ from, to: middle });
      from = middle;
    }
  }
  if (from !== 0) path.push({ from, to });
  return path.toReversed();
}

export interface InclusionClaim {
  readonly index: number;
  readonly leafHash: Uint8Array;
  readonly size: number;
  readonly rootHash: Uint8Array;
  readonly proof: readonly Uint8Array[];
}

/** RFC 9162 §2.1.3.2. Total: whatever is malformed is simply not a proof. */
export function verifyInclusion(claim: InclusionClaim): boolean {
  const { index, size, rootHash, proof } = claim;
  if (!isCount(index) || !isCount(size) || index >= size) return false;
  if (![claim.leafHash, rootHash, ...proof].every(isHash)) return false;
  let fn = index;
  let sn = size - 1;
  let node: Uint8Array = claim.leafHash;
  for (const sister of proof) {
    if (sn === 0) return false;
    if (fn % 2 === 1 || fn === sn) {
      node = nodeHash(sister, node);
      while (fn % 2 === 0 && fn !== 0) {
        fn = half(fn);
        sn = half(sn);
      }
    } else {
      node = nodeHash(node, sister);
    }
    fn = half(fn);
    sn = half(sn);
  }
  return sn === 0 && timingSafeEqual(node, rootHash);
}

export interface ConsistencyClaim {
  readonly size1: number;
  readonly rootHash1: Uint8Array;
  readonly size2: number;
  readonly rootHash2: Uint8Array;
  readonly proof: readonly Uint8Array[];
}

/** RFC 9162 §2.1.4.2. Every log is consistent with the empty one, by an empty proof. */
export function verifyConsistency(claim: ConsistencyClaim): boolean {
  const { size1, rootHash1, size2, rootHash2, proof } = claim;
  if (!isCount(size1) || !isCount(size2) || size1 > size2) return false;
  if (![rootHash1, rootHash2, ...proof].every(isHash)) return false;
  if (size1 === 0) return proof.length === 0 && timingSafeEqual(rootHash1, emptyRoot);
  if (size1 === size2) return proof.length === 0 && timingSafeEqual(rootHash1, rootHash2);
  // Where the old tree is complete, its root is a node of the new one and is left out of the proof.
  const path = isPowerOfTwo(size1) ? [rootHash1, ...proof] : proof;
  const first = path[0];
  if (first === undefined) return false;
  let fn = size1 - 1;
  let sn = size2 - 1;
  while (fn % 2 === 1) {
    fn = half(fn);
    sn = half(sn);
  }
  let old: Uint8Array = first;
  let now: Uint8Array = first;
  for (const sister of path.slice(1)) {
    if (sn === 0) return false;
    if (fn % 2 === 1 || fn === sn) {
      old = nodeHash(sister, old);
      now = nodeHash(sister, now);
      while (fn % 2 === 0 && fn !== 0) {
        fn = half(fn);
        sn = half(sn);
      }
    } else {
      now = nodeHash(now, sister);
    }
    fn = half(fn);
    sn = half(sn);
  }
  return sn === 0 && timingSafeEqual(old, rootHash1) && timingSafeEqual(now, rootHash2);
}

// Sizes pass 2^32, where JavaScript's shifts end; so halves and ones are counted by arithmetic.

function half(value: number): number {
  return Math.floor(value / 2);
}

function onesIn(value: number): number {
  let ones = 0;
  for (let rest = value; rest > 0; rest = half(rest)) ones += rest % 2;
  return ones;
}

function isPowerOfTwo(value: number): boolean {
  return onesIn(value) === 1;
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

function isHash(value: Uint8Array): boolean {
  return value.length === hashBytes;
}
