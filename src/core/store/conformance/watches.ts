// Conformance tests of watches, resumption and compaction.

import assert from 'node:assert/strict';
import type { Change, Store } from '../store.ts';
import type { MakePlace } from './harness.ts';
import { put, Recorder, test, turn, withErrorCode, withStore } from './harness.ts';

async function fill(store: Store, count: number, collection = 'things'): Promise<void> {
  for (let at = 0; at < count; at++) {
    await store.commit({ put: [put(collection, `n${at % 7}`, `value ${at}`)] });
  }
}

export function watchConformance(makePlace: MakePlace): void {
  test('a watch is told of each change with what was there before', () =>
    withStore(makePlace, async (store) => {
      const seen: Change[] = [];
      store.watch('things', 0, { changes: (changes) => seen.push(...changes), ended() {} });
      const made = await store.commit({ put: [put('things', 'a', 'one'), put('others', 'x')] });
      const changed = await store.commit({ put: [put('things', 'a', 'two')] });
      await store.commit({ delete: [{ collection: 'things', name: 'a' }] });
      const [first, second] = [made.entries[0], changed.entries[0]];
      const about = { collection: 'things', name: 'a' };
      assert.deepEqual(seen, [
        { ...about, revision: 1, entry: first, previous: undefined },
        { ...about, revision: 3, entry: second, previous: first },
        { ...about, revision: 4, entry: undefined, previous: second },
      ]);
    }));

  test('the changes of one commit come in one call, after they can be read', () =>
    withStore(makePlace, async (store) => {
      const calls: number[][] = [];
      store.watch('things', 0, {
        changes: (changes) => {
          calls.push(changes.map((change) => change.revision));
          for (const change of changes) {
            assert.equal(store.get('things', change.name), change.entry);
          }
        },
        ended() {},
      });
      await store.commit({ put: [put('things', 'a'), put('things', 'b'), put('things', 'c')] });
      assert.deepEqual(calls, [[1, 2, 3]]);
    }));

  test('a watch goes on from any revision of history, never before it has returned', () =>
    withStore(makePlace, async (store) => {
      await fill(store, 10);
      await store.commit({ put: [put('others', 'x')] });
      for (const after of [0, 4, 9, 10, 11]) {
        const recorder = new Recorder();
        const watch = store.watch('things', after, recorder);
        assert.deepEqual(recorder.calls, []);
        await turn();
        const expected = Array.from({ length: Math.max(0, 10 - after) }, (_, at) => after + 1 + at);
        assert.deepEqual(recorder.revisions, expected);
        watch.stop();
      }
    }));

  test('nothing is lost or told twice between history and what comes new', () =>
    withStore(makePlace, async (store) => {
      const recorders: Recorder[] = [];
      const writing = fill(store, 60);
      for (let at = 0; at < 25; at++) {
        const recorder = new Recorder();
        recorders.push(recorder);
        store.watch('things', 0, recorder);
        await turn();
      }
      await writing;
      await turn();
      const expected = Array.from({ length: 60 }, (_, at) => at + 1);
      for (const recorder of recorders) assert.deepEqual(recorder.revisions, expected);
    }));

  test('a watch that another watcher opens in its callback hears of later changes only', () =>
    withStore(makePlace, async (store) => {
      const inner = new Recorder();
      let opened = false;
      store.watch('things', 0, {
        changes: () => {
          if (opened) return;
          opened = true;
          store.watch('things', store.revision, inner);
        },
        ended() {},
      });
      await fill(store, 3);
      await turn();
      assert.deepEqual(inner.revisions, [2, 3]);
    }));

  test('a stopped watch is told of nothing more, not even of its history', () =>
    withStore(makePlace, async (store) => {
      await fill(store, 2);
      const early = new Recorder();
      store.watch('things', 0, early).stop();
      const late = new Recorder();
      const watch = store.watch('things', 2, late);
      await fill(store, 1);
      watch.stop();
      watch.stop();
      await fill(store, 1);
      await turn();
      assert.deepEqual(early.calls, []);
      assert.deepEqual(late.revisions, [3]);
      await store.close();
      assert.deepEqual(late.ends, []);
    }));

  test('a watcher that throws harms nobody else', () =>
    withStore(makePlace, async (store) => {
      const other = new Recorder();
      store.watch('things', 0, {
        changes: () => {
          throw new Error('a broken watcher');
        },
        ended() {},
      });
      store.watch('things', 0, other);
      await fill(store, 2);
      assert.deepEqual(other.revisions, [1, 2]);
    }));

  test('a thousand watchers each see every change exactly once and in order', () =>
    withStore(makePlace, async (store) => {
      const watchers = Array.from({ length: 1000 }, () => new Recorder());
      for (const watcher of watchers) store.watch('things', 0, watcher);
      await Promise.all([fill(store, 40), fill(store, 10, 'others')]);
      await turn();
      const expected = (watchers[0] as Recorder).revisions;
      assert.equal(expected.length, 40);
      for (const watcher of watchers) assert.deepEqual(watcher.revisions, expected);
    }));

  test('a watch from the future, or from nowhere, is refused as expired', () =>
    withStore(makePlace, async (store) => {
      await fill(store, 3);
      for (const after of [4, -1, 1.5, Number.NaN]) {
        assert.throws(
          () => store.watch('things', after, new Recorder()),
          withErrorCode('HANSA_EXPIRED'),
        );
      }
    }));

  test('compaction forgets history and keeps what is current', () =>
    withStore(makePlace, async (store, place) => {
      await fill(store, 20);
      await store.commit({ delete: [{ collection: 'things', name: 'n0' }] });
      await store.compact(15);
      assert.equal(store.compactedRevision, 15);
      assert.equal(store.revision, 21);
      assert.throws(
        () => store.watch('things', 14, new Recorder()),
        withErrorCode('HANSA_EXPIRED'),
      );
      const recorder = new Recorder();
      store.watch('things', 15, recorder);
      await turn();
      assert.deepEqual(recorder.revisions, [16, 17, 18, 19, 20, 21]);
      const before = store.list('things');
      await store.compact(10);
      assert.equal(store.compactedRevision, 15, 'compacting to the past does nothing');
      await store.close();
      const again = await place.open();
      assert.deepEqual(again.list('things'), before);
      assert.equal(again.compactedRevision, 15);
      const resumed = new Recorder();
      again.watch('things', 15, resumed);
      await turn();
      assert.deepEqual(resumed.calls.flat(), recorder.calls.flat());
      await again.compact(21);
      await again.close();
      const compacted = await place.open();
      assert.deepEqual(compacted.list('things'), before);
      assert.equal(compacted.revision, 21);
      await compacted.close();
    }));

  test('history cannot be forgotten before it is made', () =>
    withStore(makePlace, async (store) => {
      await fill(store, 2);
      await assert.rejects(store.compact(3), withErrorCode('HANSA_BAD_REQUEST'));
    }));

  test('history that outgrows its count is compacted by itself', () =>
    withStore(
      makePlace,
      async (store) => {
        await fill(store, 250);
        await store.commit({});
        assert.ok(store.compactedRevision >= 150, `compacted to ${store.compactedRevision}`);
        assert.ok(store.compactedRevision <= 250 - 80, 'some history stays');
        assert.equal(store.count('things'), 7);
      },
      { history: { maxChanges: 100 } },
    ));

  test('history that outgrows its bytes is compacted by itself', () =>
    withStore(
      makePlace,
      async (store) => {
        const value = Buffer.alloc(10_000);
        for (let at = 0; at < 40; at++) {
          await store.commit({ put: [put('things', 'a', value)] });
        }
        await store.commit({});
        assert.ok(store.compactedRevision >= 28, `compacted to ${store.compactedRevision}`);
      },
      { history: { maxBytes: 100_000 } },
    ));

  test('closing ends every watch with a reason', () =>
    withStore(makePlace, async (store) => {
      const recorder = new Recorder();
      store.watch('things', 0, recorder);
      await store.close();
      assert.deepEqual(recorder.ends, ['HANSA_UNAVAILABLE']);
    }));
}
