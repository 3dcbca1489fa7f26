import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import {
  consistencyPath,
  inclusionPath,
  type LeafRange,
  verifyConsistency,
  verifyInclusion,
} from './proofs.ts';
import { naivePath, naiveRoot, naiveSubproof, rowsOf } from './test-naive-tree.ts';
import { emptyRoot, leafHash } from './tree.ts';

function rootsOf(rows: readonly Buffer[], path: readonly LeafRange[]): Buffer[] {
  return path.map(({ from, to }) => naiveRoot(rows.slice(from, to)));
}

const size = fc.integer({ min: 1, max: 80 });
const indexAndSize = size.chain((n) => fc.tuple(fc.nat(n - 1), fc.constant(n)));
const twoSizes = size.chain((n) => fc.tuple(fc.nat(n), fc.constant(n)));

describe('inclusion proofs', () => {
  test('are those of the recursive definition, and verify', () => {
    fc.assert(
      fc.property(indexAndSize, ([index, n]) => {
        const rows = rowsOf(n);
        const proof = rootsOf(rows, inclusionPath(index, n));
        assert.deepEqual(proof, naivePath(index, rows));
        const leaf = leafHash(rows[index] as Buffer);
        assert.ok(
          verifyInclusion({ index, leafHash: leaf, size: n, rootHash: naiveRoot(rows), proof }),
        );
      }),
    );
  });

  test('verify for nothing else: another index, size, leaf, root, or a changed proof', () => {
    fc.assert(
      fc.property(indexAndSize, fc.nat(), fc.nat(255), ([index, n], pick, bit) => {
        const rows = rowsOf(n);
        const claim = {
          index,
          leafHash: leafHash(rows[index] as Buffer),
          size: n,
          rootHash: naiveRoot(rows),
          proof: naivePath(index, rows),
        };
        const other = leafHash(Buffer.from('other'));
        assert.ok(!verifyInclusion({ ...claim, leafHash: other }));
        assert.ok(!verifyInclusion({ ...claim, rootHash: other }));
        assert.ok(!verifyInclusion({ ...claim, proof: [...claim.proof, other] }));
        if (n > 1) {
          assert.ok(!verifyInclusion({ ...claim, index: (index + 1) % n }));
          assert.ok(!verifyInclusion({ ...claim, proof: claim.proof.slice(1) }));
          const at = pick % claim.proof.length;
          const proof = claim.proof.with(at, flipped(claim.proof[at] as Buffer, bit));
          assert.ok(!verifyInclusion({ ...claim, proof }));
        }
      }),
    );
  });

  test('of nonsense do not verify, and do not throw', () => {
    const leaf = leafHash(Buffer.from('a'));
    const claim = { index: 0, leafHash: leaf, size: 1, rootHash: leaf, proof: [] };
    assert.ok(verifyInclusion(claim));
    assert.ok(!verifyInclusion({ ...claim, index: 1 }));
    assert.ok(!verifyInclusion({ ...claim, index: -1 }));
    assert.ok(!verifyInclusion({ ...claim, size: Number.NaN }));
    assert.ok(!verifyInclusion({ ...claim, rootHash: Buffer.alloc(0) }));
    assert.ok(!verifyInclusion({ ...claim, leafHash: Buffer.alloc(31) }));
  });
});

describe('consistency proofs', () => {
  test('are those of the recursive definition, and verify', () => {
    fc.assert(
      fc.property(twoSizes, ([size1, size2]) => {
        const rows = rowsOf(size2);
        const proof = rootsOf(rows, consistencyPath(size1, size2));
        assert.deepEqual(proof, size1 === 0 ? [] : naiveSubproof(size1, rows, true));
        const rootHash1 = naiveRoot(rows.slice(0, size1));
        assert.ok(
          verifyConsistency({ size1, rootHash1, size2, rootHash2: naiveRoot(rows), proof }),
        );
      }),
    );
  });

  test('verify for nothing else: a rewritten past, another size, or a changed proof', () => {
    fc.assert(
      fc.property(twoSizes, fc.nat(), fc.nat(255), ([size1, size2], pick, bit) => {
        fc.pre(size1 > 0 && size1 < size2);
        const rows = rowsOf(size2);
        const claim = {
          size1,
          rootHash1: naiveRoot(rows.slice(0, size1)),
          size2,
          rootHash2: naiveRoot(rows),
          proof: naiveSubproof(size1, rows, true),
        };
        const rewritten = rows.with(pick % size1, Buffer.from('rewritten'));
        assert.ok(
          !verifyConsistency({
            ...claim,
            rootHash2: naiveRoot(rewritten),
            proof: naiveSubproof(size1, rewritten, true),
          }),
        );
        assert.ok(!verifyConsistency({ ...claim, proof: claim.proof.slice(1) }));
        assert.ok(!verifyConsistency({ ...claim, proof: [...claim.proof, emptyRoot] }));
        const at = pick % claim.proof.length;
        const proof = claim.proof.with(at, flipped(claim.proof[at] as Buffer, bit));
        assert.ok(!verifyConsistency({ ...claim, proof }));
      }),
    );
  });

  test('do not let a log shrink, nor an equal size have two roots', () => {
    const root = naiveRoot(rowsOf(5));
    const other = naiveRoot(rowsOf(4));
    const claim = { size1: 5, rootHash1: root, size2: 5, rootHash2: root, proof: [] };
    assert.ok(verifyConsistency(claim));
    assert.ok(!verifyConsistency({ ...claim, rootHash2: other }));
    assert.ok(!verifyConsistency({ ...claim, size2: 4, rootHash2: other }));
    assert.ok(!verifyConsistency({ ...claim, size1: 0 }));
    assert.ok(!verifyConsistency({ ...claim, size1: -1 }));
  });
});

function flipped(bytes: Buffer, bit: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[bit >> 3] = (copy[bit >> 3] as number) ^ (1 << (bit & 7));
  return copy;
}
