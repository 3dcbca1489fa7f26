import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { naiveRoot, rowsOf, sha256 } from './test-naive-tree.ts';
import { emptyRoot, Frontier, frontierBytes, leafHash, nodeHash } from './tree.ts';

function frontierOf(rows: readonly Buffer[]): Frontier {
  const frontier = Frontier.empty();
  for (const row of rows) frontier.append(leafHash(row));
  return frontier;
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

  test('keeps a hash as it was, whatever is hashed later', () => {
    const rows = rowsOf(400);
    const hashes = rows.map((row) => leafHash(row));
    assert.deepEqual(
      hashes,
      rows.map((row) => sha256(Buffer.of(0), row)),
    );
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
      fc.property(fc.nat(600), fc.nat(600), (before, after) => {
        const rows = rowsOf(before + after);
        const start = frontierOf(rows.slice(0, before));
        const resumed = Frontier.decode(before, start.encode());
        for (const row of rows.slice(before)) resumed.append(leafHash(row));
        assert.equal(resumed.size, rows.length);
        assert.equal(resumed.encode().byteLength, frontierBytes(rows.length));
        assert.deepEqual(resumed.root(), naiveRoot(rows));
      }),
      { numRuns: 25 },
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
