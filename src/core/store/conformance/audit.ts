// Conformance tests of the audit log, compared with a naive implementation of RFC 6962 section 2.1.

import assert from 'node:assert/strict';
import { naiveRoot, sha256 } from '../../merkle/test-naive-tree.ts';
import type { Store } from '../store.ts';
import { maxValueBytes } from '../store.ts';
import type { MakePlace } from './harness.ts';
import { audit, put, test, withErrorCode, withStore } from './harness.ts';

/** Every row of the log from `first` on, read in as many steps as it takes. */
export async function readAll(store: Store, first = 0): Promise<Buffer[]> {
  const rows: Buffer[] = [];
  while (first + rows.length < store.auditLog.size) {
    const page = await store.auditLog.read(first + rows.length, 1000);
    assert.ok(page.length > 0, 'a read below the size returns at least one row');
    rows.push(...page);
  }
  return rows;
}

export function auditConformance(makePlace: MakePlace): void {
  test('the empty log has the hash of nothing', () =>
    withStore(makePlace, async ({ auditLog }) => {
      assert.equal(auditLog.size, 0);
      assert.deepEqual(auditLog.rootHash, sha256());
      assert.deepEqual(await auditLog.read(0, 10), []);
    }));

  test('each row learns its index and the revision of the last change of its commit', () =>
    withStore(makePlace, async (store) => {
      const encode = (at: { index: number; revision: number }) => Buffer.from(JSON.stringify(at));
      await store.commit({ put: [put('things', 'a'), put('things', 'b')], audit: [{ encode }] });
      await store.commit({ audit: [{ encode }, { encode }] });
      assert.deepEqual(
        (await readAll(store)).map((row) => JSON.parse(row.toString())),
        [
          { index: 0, revision: 2 },
          { index: 1, revision: 2 },
          { index: 2, revision: 2 },
        ],
      );
    }));

  test('a commit that is refused leaves no row, and one row too large refuses its commit', () =>
    withStore(makePlace, async (store) => {
      const [conflict, large, beside] = await Promise.allSettled([
        store.commit({
          expect: [{ collection: 'things', name: 'a', at: 1 }],
          audit: [audit('conflict')],
        }),
        store.commit({
          put: [put('things', 'a')],
          audit: [audit('before'), { encode: () => Buffer.alloc(maxValueBytes + 1) }],
        }),
        store.commit({ put: [put('things', 'b')], audit: [audit('kept')] }),
      ]);
      assert.deepEqual(
        [conflict.status, large.status, beside.status],
        ['rejected', 'rejected', 'fulfilled'],
      );
      assert.deepEqual((await readAll(store)).map(String), ['kept']);
      assert.deepEqual(store.auditLog.rootHash, naiveRoot([Buffer.from('kept')]));
      assert.equal(store.get('things', 'a'), undefined);
    }));

  test('the root is that of RFC 6962 at every size', () =>
    withStore(makePlace, async (store) => {
      const leaves: Buffer[] = [];
      for (let size = 1; size <= 70; size++) {
        leaves.push(Buffer.from(`row ${size}`));
        await store.commit({ audit: [audit(`row ${size}`)] });
        assert.deepEqual(store.auditLog.rootHash, naiveRoot(leaves));
      }
    }));

  test('hashes of leaves and of subtrees are those of RFC 6962, also after reopening', () =>
    withStore(makePlace, async (store, place) => {
      const size = 3 * 256 + 77;
      const leaves = Array.from({ length: size }, (_, at) => Buffer.from(`leaf ${at}`));
      for (let at = 0; at < size; at += 100) {
        const rows = leaves.slice(at, at + 100).map((leaf) => audit(leaf.toString()));
        await store.commit({ audit: rows });
      }
      await store.close();
      const { auditLog, close, commit } = await reopened(place);
      assert.deepEqual(auditLog.rootHash, naiveRoot(leaves));
      assert.deepEqual(
        await auditLog.leafHashes(700, 100),
        Buffer.concat(leaves.slice(700, 800).map((leaf) => naiveRoot([leaf]))),
      );
      const subtree = (at: number) => naiveRoot(leaves.slice(at * 256, (at + 1) * 256));
      assert.deepEqual(
        await auditLog.subtreeHashes(1, 1, 2),
        Buffer.concat([subtree(1), subtree(2)]),
      );
      await commit({ audit: [audit('after reopening')] });
      assert.deepEqual(auditLog.rootHash, naiveRoot([...leaves, Buffer.from('after reopening')]));
      await close();
    }));

  test('what is not in the log cannot be asked for', () =>
    withStore(makePlace, async (store) => {
      await store.commit({ audit: [audit('one')] });
      const { auditLog } = store;
      const refused = withErrorCode('HANSA_BAD_REQUEST');
      await assert.rejects(auditLog.leafHashes(0, 2), refused);
      await assert.rejects(auditLog.leafHashes(-1, 1), refused);
      await assert.rejects(auditLog.read(-1, 1), refused);
      await assert.rejects(auditLog.subtreeHashes(1, 0, 1), refused);
      await assert.rejects(auditLog.subtreeHashes(0, 0, 1), refused);
      assert.deepEqual(await auditLog.read(1, 1), []);
      assert.deepEqual(await auditLog.leafHashes(1, 0), Buffer.alloc(0));
    }));

  test('one read returns about a mebibyte, and at least one row', () =>
    withStore(makePlace, async (store) => {
      const row = { encode: () => Buffer.alloc(400_000) };
      await store.commit({ audit: [row, row, row, row, row] });
      assert.equal((await store.auditLog.read(0, 100)).length, 2);
      await store.commit({ audit: [{ encode: () => Buffer.alloc(maxValueBytes) }] });
      assert.equal((await store.auditLog.read(5, 100)).length, 1);
    }));
}

async function reopened(place: { open(): Promise<Store> }): Promise<{
  auditLog: Store['auditLog'];
  commit: Store['commit'];
  close: Store['close'];
}> {
  const store = await place.open();
  return {
    auditLog: store.auditLog,
    commit: (commit) => store.commit(commit),
    close: () => store.close(),
  };
}
