// Inclusion and consistency proofs of the RFC 6962 tree: which subtrees a proof consists of, and
// whether a proof is valid. core/audit/proof.ts reads the hashes of those subtrees from a log.

import { timingSafeEqual } from 'node:crypto';
import { emptyRoot, half, hashBytes, nodeHash, onesIn } from './tree.ts';

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

/** RFC 9162 §2.1.3.2. Never throws: a malformed proof is invalid. */
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

function isPowerOfTwo(value: number): boolean {
  return onesIn(value) === 1;
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

function isHash(value: Uint8Array): boolean {
  return value.length === hashBytes;
}
