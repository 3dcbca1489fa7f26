import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { naiveRoot } from './conformance/audit.ts';
import {
  countOnes,
  edgeCounts,
  Frontier,
  frontierOfEdges,
  leafHash,
  nodeHash,
} from './subtree-hashes.ts';

const nothing = Buffer.alloc(0);

function leaves(count: number): Buffer[] {
  return Array.from({ length: count }, (_, at) => Buffer.from(`leaf ${at}`));
}

describe('the frontier of a Merkle tree', () => {
  test('hashes leaves and nodes as the test vectors of RFC 6962 logs do', () => {
    // The values that Certificate Transparency implementations check themselves against.
    assert.equal(
      new Frontier(0, nothing).rootHash().toString('hex'),
      'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    );
    assert.equal(
      leafHash(nothing).toString('hex'),
      '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
    );
    assert.equal(
      nodeHash(leafHash(nothing), leafHash(Buffer.of(0))).toString('hex'),
      'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
    );
  });

  test('has the root of the naive definition, whole or resumed at any size', () => {
    fc.assert(
      fc.property(fc.nat(600), fc.nat(600), (before, more) => {
        const all = leaves(before + more);
        const first = new Frontier(0, nothing);
        for (const leaf of all.slice(0, before)) first.append(leafHash(leaf));
        const resumed = new Frontier(before, first.bytes());
        for (const leaf of all.slice(before)) resumed.append(leafHash(leaf));
        assert.deepEqual(resumed.rootHash(), naiveRoot(all));
        assert.equal(resumed.size, all.length);
        assert.equal(resumed.bytes().byteLength, 32 * countOnes(all.length));
      }),
      { numRuns: 25 },
    );
  });

  test('tells of each subtree when it is complete, and follows from the edge of the tree', () => {
    const size = 65_536 + 256 + 3;
    const frontier = new Frontier(0, nothing);
    const hashes: Buffer[][] = [[], [], []];
    for (let at = 0; at < size; at++) {
      const leaf = leafHash(Buffer.from(`${at}`));
      hashes[0]?.push(leaf);
      frontier.append(leaf, (level, number, hash) => {
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
    assert.deepEqual(frontierOfEdges(edges), frontier.bytes());
  });
});
