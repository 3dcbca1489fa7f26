import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { verifyConsistency, verifyInclusion } from '../merkle/proofs.ts';
import { Frontier, hashBytes, leafHash } from '../merkle/tree.ts';
import { consistencyProof, type HashReader, inclusionProof, rootHashAt } from './proof.ts';

/** A log in memory that counts reads, and refuses what the contract does not allow. */
class StoredHashes implements HashReader {
  readonly #frontiers: Frontier[] = [Frontier.empty()];
  readonly #levels: Buffer[][] = [[]];
  reads = 0;

  constructor(size: number) {
    const frontier = Frontier.empty();
    for (let i = 0; i < size; i++) {
      frontier.append(leafHash(Buffer.from(`row ${i}`)), (height, _, hash) => {
        if (height % 8 === 0) (this.#levels[height / 8] ??= []).push(hash);
      });
      this.#frontiers.push(frontier.clone());
    }
  }

  rootAt(size: number): Buffer {
    return (this.#frontiers[size] as Frontier).root();
  }

  async leafHashes(from: number, count: number): Promise<Buffer> {
    return this.#read(0, from, count);
  }

  async subtreeHashes(level: number, from: number, count: number): Promise<Buffer> {
    assert.ok(level >= 1);
    return this.#read(level, from, count);
  }

  #read(level: number, from: number, count: number): Buffer {
    this.reads++;
    assert.ok(count >= 1 && count <= 4096);
    const hashes = (this.#levels[level] ?? []).slice(from, from + count);
    assert.equal(hashes.length, count, `level ${level} has no ${from}+${count}`);
    const bytes = Buffer.concat(hashes);
    assert.equal(bytes.length, count * hashBytes);
    return bytes;
  }
}

const largest = 70_000;
const stored = new StoredHashes(largest);
/** Sizes around the edges of stored subtrees are as likely as others. */
const size = fc.oneof(
  fc.integer({ min: 1, max: largest }),
  fc.constantFrom(1, 2, 255, 256, 257, 511, 512, 513, 65_535, 65_536, 65_537, 65_792),
);

describe('proofs from a stored log', () => {
  test('of inclusion verify, and take few reads', async () => {
    await fc.assert(
      fc.asyncProperty(
        size,
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        async (n, at) => {
          const index = Math.floor(at * n);
          stored.reads = 0;
          const proof = await inclusionProof(stored, index, n);
          assert.ok(stored.reads <= 6, `${stored.reads} reads`);
          const claim = { index, leafHash: leafHash(Buffer.from(`row ${index}`)), size: n, proof };
          assert.ok(verifyInclusion({ ...claim, rootHash: stored.rootAt(n) }));
        },
      ),
      { numRuns: 200 },
    );
  });

  test('of consistency verify, and take few reads', async () => {
    await fc.assert(
      fc.asyncProperty(size, size, async (a, b) => {
        const [size1, size2] = [Math.min(a, b), Math.max(a, b)];
        stored.reads = 0;
        const proof = await consistencyProof(stored, size1, size2);
        assert.ok(stored.reads <= 6, `${stored.reads} reads`);
        const rootHash1 = stored.rootAt(size1);
        const rootHash2 = stored.rootAt(size2);
        assert.ok(verifyConsistency({ size1, rootHash1, size2, rootHash2, proof }));
      }),
      { numRuns: 200 },
    );
  });

  test('know the root of every earlier size', async () => {
    for (const n of [0, 1, 255, 256, 300, 65_536, 65_537, largest]) {
      assert.deepEqual(await rootHashAt(stored, n), stored.rootAt(n));
    }
  });
});
