import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import {
  consistencyPath,
  emptyRoot,
  Frontier,
  inclusionPath,
  type LeafRange,
  leafHash,
  nodeHash,
  verifyConsistency,
  verifyInclusion,
} from './tree.ts';

// A second implementation, straight from the recursive definitions of RFC 6962 §2.1.
function sha256(...parts: Uint8Array[]): Buffer {
  const digest = createHash('sha256');
  for (const part of parts) digest.update(part);
  return digest.digest();
}

function naiveRoot(rows: readonly Buffer[]): Buffer {
  if (rows.length === 0) return sha256();
  if (rows.length === 1) return sha256(Buffer.of(0), rows[0] as Buffer);
  let k = 1;
  while (k < rows.length / 2) k *= 2;
  return sha256(Buffer.of(1), naiveRoot(rows.slice(0, k)), naiveRoot(rows.slice(k)));
}

function naivePath(m: number, rows: readonly Buffer[]): Buffer[] {
  if (rows.length <= 1) return [];
  let k = 1;
  while (k < rows.length / 2) k *= 2;
  return m < k
    ? [...naivePath(m, rows.slice(0, k)), naiveRoot(rows.slice(k))]
    : [...naivePath(m - k, rows.slice(k)), naiveRoot(rows.slice(0, k))];
}

function naiveSubproof(m: number, rows: readonly Buffer[], whole: boolean): Buffer[] {
  if (m === rows.length) return whole ? [] : [naiveRoot(rows)];
  let k = 1;
  while (k < rows.length / 2) k *= 2;
  return m <= k
    ? [...naiveSubproof(m, rows.slice(0, k), whole), naiveRoot(rows.slice(k))]
    : [...naiveSubproof(m - k, rows.slice(k), false), naiveRoot(rows.slice(0, k))];
}

function rowsOf(count: number): Buffer[] {
  return Array.from({ length: count }, (_, i) => Buffer.from(`row ${i}`));
}

function frontierOf(rows: readonly Buffer[]): Frontier {
  const frontier = Frontier.empty();
  for (const row of rows) frontier.append(leafHash(row));
  return frontier;
}

function rootsOf(rows: readonly Buffer[], path: readonly LeafRange[]): Buffer[] {
  return path.map(({ from, to }) => naiveRoot(rows.slice(from, to)));
}

describe('the tree of RFC 6962', () => {
  // Known answers: the test vectors of the Certificate Transparency reference implementation.
  test('has the published roots', () => {
    const rows = [
      '',
      '00',
      '10',
      '2021',
      '3031',
      '40414243',
      '5051525354555657',
      '606162636465666768696a6b6c6d6e6f',
    ];
    const roots = [
      'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
      '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
      'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
      'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
      'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
      '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
      '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
      'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
      '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
    ];
    const frontier = Frontier.empty();
    assert.equal(frontier.root().toString('hex'), roots[0]);
    rows.forEach((row, i) => {
      frontier.append(leafHash(Buffer.from(row, 'hex')));
      assert.equal(frontier.root().toString('hex'), roots[i + 1]);
    });
  });

  test('hashes a leaf longer than the scratch buffer as any other', () => {
    const row = Buffer.alloc(100_000, 7);
    assert.deepEqual(leafHash(row), sha256(Buffer.of(0), row));
  });

  test('tells a leaf from a node of the same bytes', () => {
    const left = leafHash(Buffer.from('a'));
    const right = leafHash(Buffer.from('b'));
    assert.notDeepEqual(leafHash(Buffer.concat([left, right])), nodeHash(left, right));
  });
});

describe('the frontier', () => {
  test('has the root of the recursive definition at every size', () => {
    const rows = rowsOf(130);
    const frontier = Frontier.empty();
    assert.deepEqual(frontier.root(), emptyRoot);
    for (let size = 1; size <= rows.length; size++) {
      frontier.append(leafHash(rows[size - 1] as Buffer));
      assert.deepEqual(frontier.root(), naiveRoot(rows.slice(0, size)), `size ${size}`);
    }
  });

  test('goes on from its encoded bytes', () => {
    fc.assert(
      fc.property(fc.nat(100), fc.nat(100), (before, after) => {
        const rows = rowsOf(before + after);
        const start = frontierOf(rows.slice(0, before));
        const resumed = Frontier.decode(before, start.encode());
        for (const row of rows.slice(before)) resumed.append(leafHash(row));
        assert.equal(resumed.size, rows.length);
        assert.deepEqual(resumed.root(), naiveRoot(rows));
      }),
    );
  });

  test('tells of every subtree once, when it is complete, with its hash', () => {
    const rows = rowsOf(64);
    const seen = new Map<string, Buffer>();
    const frontier = Frontier.empty();
    for (const row of rows) {
      frontier.append(leafHash(row), (height, number, node) => {
        assert.ok(!seen.has(`${height}/${number}`));
        assert.equal((number + 1) * 2 ** height, frontier.size + 1);
        seen.set(`${height}/${number}`, node);
      });
    }
    assert.equal(seen.size, 64 + 32 + 16 + 8 + 4 + 2 + 1);
    assert.deepEqual(seen.get('4/2'), naiveRoot(rows.slice(32, 48)));
  });

  test('leaves a clone alone', () => {
    const frontier = frontierOf(rowsOf(7));
    const root = frontier.root();
    const clone = frontier.clone();
    clone.append(leafHash(Buffer.from('more')));
    assert.deepEqual(frontier.root(), root);
    assert.equal(frontier.size, 7);
  });

  test('refuses bytes that are not those of a tree of the size', () => {
    assert.throws(() => Frontier.decode(3, Buffer.alloc(32)), RangeError);
    assert.throws(() => Frontier.decode(-1, Buffer.alloc(0)), RangeError);
    assert.throws(() => Frontier.decode(0.5, Buffer.alloc(0)), RangeError);
  });
});

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
