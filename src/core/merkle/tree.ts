// The Merkle tree of RFC 6962 (§2.1; with the algorithms of RFC 9162 §2.1, which uses the same
// hashes): the hash functions, and the frontier, which is enough to append. The store appends to the
// tree, and the audit log builds proofs from it.

import { hash } from 'node:crypto';

export const hashBytes = 32;

/** MTH({}) is the hash of nothing (RFC 6962 §2.1). */
export const emptyRoot: Buffer = hash('sha256', '', 'buffer');

// `hash` is synchronous, so all calls share one input buffer.
// An audit row has at most a few KiB; longer ones get a buffer of their own.
const leafInput = Buffer.alloc(16 * 1024);
const nodeInput = Buffer.alloc(1 + 2 * hashBytes);
nodeInput[0] = 0x01;

/** Hashes are slices of larger blocks, because one allocation per hash would cost more than the hashing. */
const hashesPerBlock = 128;
let block = Buffer.allocUnsafeSlow(hashesPerBlock * hashBytes);
let used = 0;

function sha256(input: Uint8Array): Buffer {
  if (used === block.byteLength) {
    block = Buffer.allocUnsafeSlow(hashesPerBlock * hashBytes);
    used = 0;
  }
  const start = used;
  used += block.write(hash('sha256', input, 'binary'), start, hashBytes, 'latin1');
  return block.subarray(start, used);
}

/** SHA-256(0x00 || row) */
export function leafHash(row: Uint8Array): Buffer {
  const length = 1 + row.byteLength;
  const input = length <= leafInput.length ? leafInput.subarray(0, length) : Buffer.alloc(length);
  input.set(row, 1);
  return sha256(input);
}

/** SHA-256(0x01 || left || right) */
export function nodeHash(left: Uint8Array, right: Uint8Array): Buffer {
  nodeInput.set(left, 1);
  nodeInput.set(right, 1 + hashBytes);
  return sha256(nodeInput);
}

/** A subtree that just became complete: 2^height leaves, the number-th of its height. */
export type SubtreeComplete = (height: number, number: number, hash: Buffer) => void;

/**
 * The roots of the complete subtrees that make up the tree, largest first: enough to append
 * in O(log n) hashes and O(log n) memory, and to compute the root. Appending changes it in place;
 * `clone` it before a transaction that may roll back.
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
    if (bytes.length !== frontierBytes(size)) {
      throw new RangeError(
        `the frontier of ${size} leaves takes ${frontierBytes(size)} bytes, not ${bytes.length}`,
      );
    }
    const copy = Buffer.from(bytes);
    const peaks: Buffer[] = [];
    for (let at = 0; at < copy.length; at += hashBytes) {
      peaks.push(copy.subarray(at, at + hashBytes));
    }
    return new Frontier(size, peaks);
  }

  get size(): number {
    return this.#size;
  }

  /**
   * Appends one leaf in amortised two hashes, log2(size) + 1 at most. Calls `complete` for every
   * subtree that the leaf completes, the leaf itself first.
   */
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

/** How many bytes the encoded frontier of a tree of this size takes. */
export function frontierBytes(size: number): number {
  return onesIn(size) * hashBytes;
}

// Sizes exceed 2^32, where JavaScript's shifts end, so halves and ones are counted by arithmetic.

export function half(value: number): number {
  return Math.floor(value / 2);
}

export function onesIn(value: number): number {
  let ones = 0;
  for (let rest = value; rest > 0; rest = half(rest)) ones += rest % 2;
  return ones;
}
