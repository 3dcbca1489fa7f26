import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Frontier, leafHash } from '../../merkle/tree.ts';
import { edgeCounts, frontierOfEdges, storedLevel } from './subtree-hashes.ts';

describe('the stored hashes of subtrees', () => {
  test('are those of each complete subtree of 256^level leaves, and lead to the frontier', () => {
    const size = 65_536 + 256 + 3;
    const frontier = Frontier.empty();
    const hashes: Buffer[][] = [[], [], []];
    for (let at = 0; at < size; at++) {
      const leaf = leafHash(Buffer.from(`${at}`));
      hashes[0]?.push(leaf);
      frontier.append(leaf, (height, number, hash) => {
        const level = storedLevel(height);
        if (level === undefined) return;
        assert.equal(number, hashes[level]?.length);
        hashes[level]?.push(hash);
      });
    }
    assert.deepEqual(
      hashes.map((level) => level.length),
      [size, 257, 1],
    );
    assert.deepEqual(edgeCounts(size), [3, 1, 1]);
    const edges = edgeCounts(size).map((count, level) =>
      Buffer.concat(hashes[level]?.slice(-count) ?? []),
    );
    assert.deepEqual(frontierOfEdges(edges), frontier.encode());
  });
});
