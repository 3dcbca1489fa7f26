// The hashes of complete subtrees of 256, 65,536, … leaves, which the store keeps in addition to the
// leaf hashes. With them a proof needs few reads, and the store can verify its frontier.

import { Frontier, hashBytes } from '../../merkle/tree.ts';

/** log2 of how many children a stored subtree has. */
const heightPerLevel = 8;

/** The level of a subtree of 2^height leaves, or undefined where its hash is not stored. */
export function storedLevel(height: number): number | undefined {
  return height > 0 && height % heightPerLevel === 0 ? height / heightPerLevel : undefined;
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
    const within = Frontier.empty();
    for (let at = 0; at < edge.byteLength; at += hashBytes) {
      within.append(edge.subarray(at, at + hashBytes));
    }
    parts.push(within.encode());
  }
  return Buffer.concat(parts);
}
