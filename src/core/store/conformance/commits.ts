// Conformance tests of commits: their order, their limits, and what readers see of them.

import assert from 'node:assert/strict';
import { maxValueBytes } from '../store.ts';
import type { MakePlace } from './harness.ts';
import { put, test, withErrorCode, withStore } from './harness.ts';

export function commitConformance(makePlace: MakePlace): void {
  test('a new store is empty and at revision 0', () =>
    withStore(makePlace, async (store) => {
      assert.equal(store.revision, 0);
      assert.equal(store.compactedRevision, 0);
      assert.equal(store.get('things', 'a'), undefined);
      assert.deepEqual(store.list('things'), { entries: [], revision: 0 });
      assert.equal(store.count('things'), 0);
    }));

  test('each put takes the next revision and is encoded with it', () =>
    withStore(makePlace, async (store) => {
      const encode = (revision: number) => Buffer.from(`at ${revision}`);
      const first = await store.commit({
        put: [
          { collection: 'things', name: 'a', encode },
          { collection: 'things', name: 'b', encode },
        ],
      });
      assert.deepEqual(
        first.entries.map((entry) => [entry.name, entry.revision, entry.value.toString()]),
        [
          ['a', 1, 'at 1'],
          ['b', 2, 'at 2'],
        ],
      );
      assert.equal(first.revision, 2);
      assert.equal(store.revision, 2);
      assert.equal(store.get('things', 'a'), first.entries[0]);
      assert.equal(store.count('things'), 2);
    }));

  test('puts come before deletions, and a deletion of nothing takes no revision', () =>
    withStore(makePlace, async (store) => {
      await store.commit({ put: [put('things', 'a'), put('things', 'b')] });
      const committed = await store.commit({
        delete: [
          { collection: 'things', name: 'absent' },
          { collection: 'things', name: 'a' },
        ],
        put: [put('things', 'c')],
      });
      assert.equal(committed.entries[0]?.revision, 3);
      assert.equal(committed.revision, 4);
      assert.equal(store.get('things', 'a'), undefined);
      const nothing = await store.commit({ delete: [{ collection: 'things', name: 'a' }] });
      assert.equal(nothing.revision, 4);
      assert.equal(store.revision, 4);
    }));

  test('a commit that changes nothing resolves at the present revision', () =>
    withStore(makePlace, async (store) => {
      await store.commit({ put: [put('things', 'a')] });
      assert.deepEqual(await store.commit({}), { entries: [], revision: 1 });
    }));

  test('commits are written in the order of the calls', () =>
    withStore(makePlace, async (store) => {
      const names = Array.from({ length: 300 }, (_, at) => `n${at}`);
      const all = await Promise.all(
        names.map((name) => store.commit({ put: [put('things', name)] })),
      );
      assert.deepEqual(
        all.map((committed) => committed.revision),
        names.map((_, at) => at + 1),
      );
    }));

  test('a failed expectation rejects its own commit and leaves those around it alone', () =>
    withStore(makePlace, async (store) => {
      const [first, conflict, last] = await Promise.allSettled([
        store.commit({ put: [put('things', 'a')] }),
        store.commit({
          expect: [{ collection: 'things', name: 'a', at: 7 }],
          put: [put('things', 'b')],
          delete: [{ collection: 'things', name: 'a' }],
        }),
        store.commit({ put: [put('things', 'c')] }),
      ]);
      assert.equal(first.status, 'fulfilled');
      assert.equal(last.status === 'fulfilled' && last.value.revision, 2);
      assert.ok(conflict.status === 'rejected');
      withErrorCode('HANSA_CONFLICT')(conflict.reason);
      assert.equal(store.get('things', 'b'), undefined);
      assert.notEqual(store.get('things', 'a'), undefined);
    }));

  test('a value that is kept keeps no other bytes in memory', () =>
    withStore(makePlace, async (store) => {
      const shared = Buffer.from('value');
      assert.ok(shared.buffer.byteLength > shared.byteLength);
      await store.commit({ put: [{ collection: 'things', name: 'a', encode: () => shared }] });
      const value = store.get('things', 'a')?.value;
      assert.deepEqual(value, shared);
      assert.equal(value?.buffer.byteLength, shared.byteLength);
    }));

  test('a collection grows no further than expected, also by commits that come at once', () =>
    withStore(makePlace, async (store) => {
      const create = (name: string) =>
        store
          .commit({ expect: [{ collection: 'things', below: 3 }], put: [put('things', name)] })
          .then(
            () => 'made',
            (error: unknown) => {
              withErrorCode('HANSA_CONFLICT')(error);
              return 'refused';
            },
          );
      await store.commit({ put: [put('things', 'a'), put('others', 'a')] });
      assert.deepEqual(await Promise.all(['b', 'c', 'd'].map(create)), ['made', 'made', 'refused']);
      assert.equal(await create('d'), 'refused');
      // One that goes makes room within the same transaction; one that is replaced takes none.
      const remove = store.commit({ delete: [{ collection: 'things', name: 'a' }] });
      const replace = store.commit({ put: [put('things', 'b')] });
      const both = Promise.all(['d', 'e'].map(create));
      await Promise.all([remove, replace]);
      assert.deepEqual(await both, ['made', 'refused']);
      assert.equal(store.count('things'), 3);
    }));

  test('expectations see the commits that wait before them', () =>
    withStore(makePlace, async (store) => {
      const expectAbsent = { collection: 'things', name: 'a', at: 'absent' } as const;
      const create = () =>
        store.commit({ expect: [expectAbsent], put: [put('things', 'a')] }).then(
          () => 'made',
          () => 'refused',
        );
      assert.deepEqual(await Promise.all([create(), create(), create()]), [
        'made',
        'refused',
        'refused',
      ]);
      const remove = store.commit({
        expect: [{ collection: 'things', name: 'a', at: 1 }],
        delete: [{ collection: 'things', name: 'a' }],
      });
      assert.deepEqual(await Promise.all([remove.then(() => 'removed'), create()]), [
        'removed',
        'made',
      ]);
      assert.equal(store.revision, 3);
    }));

  test('of many writers that read the same version exactly one wins', () =>
    withStore(makePlace, async (store) => {
      await store.commit({ put: [put('things', 'counter', '0')] });
      const increment = async (): Promise<void> => {
        for (;;) {
          const entry = store.get('things', 'counter');
          assert.ok(entry);
          const next = String(Number(entry.value.toString()) + 1);
          try {
            await store.commit({
              expect: [{ collection: 'things', name: 'counter', at: entry.revision }],
              put: [put('things', 'counter', next)],
            });
            return;
          } catch (error) {
            withErrorCode('HANSA_CONFLICT')(error);
          }
        }
      };
      await Promise.all(Array.from({ length: 20 }, increment));
      assert.equal(store.get('things', 'counter')?.value.toString(), '20');
    }));

  test('a value of the largest size is kept, and one byte more is refused with its whole commit', () =>
    withStore(makePlace, async (store) => {
      await store.commit({ put: [put('things', 'large', Buffer.alloc(maxValueBytes, 1))] });
      assert.equal(store.get('things', 'large')?.value.byteLength, maxValueBytes);
      const [refused, beside] = await Promise.allSettled([
        store.commit({
          put: [put('things', 'a'), put('things', 'b', Buffer.alloc(maxValueBytes + 1))],
        }),
        store.commit({ put: [put('things', 'c')] }),
      ]);
      assert.ok(refused.status === 'rejected');
      withErrorCode('HANSA_TOO_LARGE')(refused.reason);
      assert.equal(beside.status === 'fulfilled' && beside.value.revision, 2);
      assert.equal(store.get('things', 'a'), undefined);
    }));

  test('an encoder that throws rejects its commit and undoes what came before it', () =>
    withStore(makePlace, async (store) => {
      await store.commit({ put: [put('things', 'a', 'old')] });
      const encode = (): Buffer => {
        throw new Error('cannot encode');
      };
      const [failed, beside] = await Promise.allSettled([
        store.commit({
          put: [put('things', 'a', 'new'), { collection: 'things', name: 'b', encode }],
        }),
        store.commit({
          expect: [{ collection: 'things', name: 'a', at: 1 }],
          put: [put('things', 'c')],
        }),
      ]);
      assert.equal(failed.status, 'rejected');
      assert.equal(beside.status, 'fulfilled');
      assert.equal(store.get('things', 'a')?.value.toString(), 'old');
      assert.equal(store.revision, 2);
    }));

  test('names that no database could keep apart are refused', () =>
    withStore(makePlace, async (store) => {
      for (const name of ['', 'a\0b', '\ud800', 'x'.repeat(1025)]) {
        await assert.rejects(
          store.commit({ put: [put('things', name)] }),
          withErrorCode('HANSA_BAD_REQUEST'),
        );
        await assert.rejects(
          store.commit({ delete: [{ collection: name, name: 'a' }] }),
          withErrorCode('HANSA_BAD_REQUEST'),
        );
      }
    }));

  test('one commit of too many changes is refused', () =>
    withStore(makePlace, async (store) => {
      const many = Array.from({ length: 513 }, (_, at) => put('things', `n${at}`));
      await assert.rejects(store.commit({ put: many }), withErrorCode('HANSA_TOO_LARGE'));
    }));

  test('a listing is in the order of UTF-8 bytes', () =>
    withStore(makePlace, async (store) => {
      const names = ['b', 'a', 'a.b', 'a-b', 'ab', 'Z', 'é', '\uffee', '😀', '~'];
      for (const name of names) await store.commit({ put: [put('things', name)] });
      const listed = store.list('things').entries.map((entry) => entry.name);
      const expected = names.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
      assert.deepEqual(listed, expected);
    }));

  test('a listing never changes, and is shared until its collection does', () =>
    withStore(makePlace, async (store) => {
      await store.commit({ put: [put('things', 'a'), put('things', 'c')] });
      const before = store.list('things');
      await store.commit({ put: [put('others', 'x')] });
      const same = store.list('things');
      assert.equal(same.entries, before.entries);
      assert.equal(same.revision, 3);
      await store.commit({
        put: [put('things', 'b')],
        delete: [{ collection: 'things', name: 'a' }],
      });
      assert.deepEqual(
        before.entries.map((entry) => entry.name),
        ['a', 'c'],
      );
      assert.equal(before.revision, 2);
      assert.deepEqual(
        store.list('things').entries.map((entry) => entry.name),
        ['b', 'c'],
      );
    }));

  test('closing finishes what waits, then refuses everything', () =>
    withStore(makePlace, async (store) => {
      const waiting = store.commit({ put: [put('things', 'a')] });
      const closed = store.close();
      const late = store.commit({ put: [put('things', 'b')] });
      await assert.rejects(late, withErrorCode('HANSA_UNAVAILABLE'));
      assert.equal((await waiting).revision, 1);
      await closed;
      await store.close();
      const refused = withErrorCode('HANSA_UNAVAILABLE');
      assert.throws(() => store.get('things', 'a'), refused);
      assert.throws(() => store.list('things'), refused);
      assert.throws(() => store.watch('things', 0, { changes() {}, ended() {} }), refused);
      await assert.rejects(store.compact(1), refused);
      await assert.rejects(store.auditLog.read(0, 1), refused);
      await assert.rejects(store.leases.acquire('lease', 'me', 1000), refused);
    }));
}
