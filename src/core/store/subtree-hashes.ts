// The hashing of RFC 6962 section 2.1, as far as appending needs it: a log of n leaves is
// remembered by its frontier, the hashes of the perfect subtrees that its size is the sum of.

import { hash } from 'node:crypto';

export const hashBytes = 32;

/** log2 of how many children a stored subtree has: hashes are kept of 256, 65,536, … leaves. */
const heightPerLevel = 8;

/** Inputs are put together here: nothing else runs between filling it and hashing it. */
const scratch = Buffer.allocUnsafeSlow(4096);
const nodeInput = scratch.subarray(0, 1 + 2 * hashBytes);

/** Hashes are cut from blocks: a block of memory for each would cost more than the hashing. */
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

/** SHA-256(0x00 || body). */
export function leafHash(body: Uint8Array): Buffer {
  const length = 1 + body.byteLength;
  const input = length <= scratch.byteLength ? scratch.subarray(0, length) : Buffer.alloc(length);
  input[0] = 0;
  input.set(body, 1);
  return sha256(input);
}

/** SHA-256(0x01 || left || right). */
export function nodeHash(left: Uint8Array, right: Uint8Array): Buffer {
  nodeInput[0] = 1;
  nodeInput.set(left, 1);
  nodeInput.set(right, 1 + hashBytes);
  return sha256(nodeInput);
}

export function countOnes(size: number): number {
  let ones = 0;
  for (let rest = size; rest > 0; rest = Math.floor(rest / 2)) ones += rest % 2;
  return ones;
}

export class Frontier {
  #size: number;
  /** Largest subtree first. */
  readonly #hashes: Buffer[];

  constructor(size: number, frontier: Buffer) {
    this.#size = size;
    this.#hashes = [];
    for (let at = 0; at < frontier.byteLength; at += hashBytes) {
      this.#hashes.push(frontier.subarray(at, at + hashBytes));
    }
  }

  get size(): number {
    return this.#size;
  }

  /**
   * Amortised two hashes a leaf, at most log2(size) + 1. `complete` hears of each subtree of
   * 256^level leaves that this leaf completed.
   */
  append(leaf: Buffer, complete?: (level: number, number: number, hash: Buffer) => void): void {
    const index = this.#size;
    let node = leaf;
    let rest = index;
    for (let height = 1; rest % 2 === 1; height++) {
      node = nodeHash(this.#hashes.pop() ?? node, node);
      rest = (rest - 1) / 2;
      if (height % heightPerLevel === 0) {
        const level = height / heightPerLevel;
        complete?.(level, Math.floor(index / 256 ** level), node);
      }
    }
    this.#hashes.push(node);
    this.#size = index + 1;
  }

  /** MTH(D[n]) of RFC 6962 section 2.1. */
  rootHash(): Buffer {
    let root: Buffer | undefined;
    for (let at = this.#hashes.length - 1; at >= 0; at--) {
      const left = this.#hashes[at] as Buffer;
      root = root === undefined ? left : nodeHash(left, root);
    }
    return root ?? hash('sha256', '', 'buffer');
  }

  bytes(): Buffer {
    return Buffer.concat(this.#hashes);
  }
}

/** How many hashes each element of `Opened.edges` holds for a log of `size` leaves. */
export function edgeCounts(size: number): number[] {
  const counts: number[] = [];
  for (let rest = size; rest > 0; rest = Math.floor(rest / 256)) counts.push(rest % 256);
  return counts;
}

/** The frontier that follows from the hashes on the right edge of the tree. */
export function frontierOfEdges(edges: readonly Buffer[]): Buffer {
  const parts: Buffer[] = [];
  for (const edge of edges.toReversed()) {
    // Within one level a stored hash is a leaf of a tree of at most 255.
    const within = new Frontier(0, Buffer.alloc(0));
    for (let at = 0; at < edge.byteLength; at += hashBytes) {
      within.append(edge.subarray(at, at + hashBytes));
    }
    parts.push(within.bytes());
  }
  return Buffer.concat(parts);
}
