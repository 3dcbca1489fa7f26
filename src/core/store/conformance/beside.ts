// Conformance tests of leases, fences and facts.

import assert from 'node:assert/strict';
import { VirtualClock } from '../../clock/virtual.ts';
import type { MakePlace } from './harness.ts';
import { audit, put, Recorder, test, turn, withErrorCode, withStore } from './harness.ts';

export function besideConformance(makePlace: MakePlace): void {
  test('a lease has one holder until it expires by the clock of the database', async () => {
    const clock = new VirtualClock();
    await withStore(
      makePlace,
      async ({ leases }) => {
        const first = await leases.acquire('work', 'one', 1000);
        assert.deepEqual(first, {
          name: 'work',
          holder: 'one',
          epoch: 1,
          expiresAtMs: clock.now() + 1000,
        });
        await clock.advance(999);
        assert.equal(await leases.acquire('work', 'two', 1000), undefined);
        assert.equal((await leases.acquire('work', 'one', 500))?.epoch, 1);
        await clock.advance(500);
        const second = await leases.acquire('work', 'two', 1000);
        assert.equal(second?.epoch, 2);
        assert.equal(await leases.renew('work', 'one', 1, 1000), undefined);
      },
      { clock },
    );
  });

  test('renewing extends a lease, even one that expired and nobody took', async () => {
    const clock = new VirtualClock();
    await withStore(
      makePlace,
      async ({ leases }) => {
        await leases.acquire('work', 'one', 1000);
        await clock.advance(1500);
        const renewed = await leases.renew('work', 'one', 1, 1000);
        assert.equal(renewed?.expiresAtMs, clock.now() + 1000);
        assert.equal(await leases.acquire('work', 'two', 1000), undefined);
        assert.equal(await leases.renew('work', 'one', 2, 1000), undefined);
        assert.equal(await leases.renew('other', 'one', 1, 1000), undefined);
      },
      { clock },
    );
  });

  test('a released lease is free at once, and its epoch never shrinks', () =>
    withStore(makePlace, async ({ leases }) => {
      await leases.acquire('work', 'one', 60_000);
      await leases.release('work', 'two', 1);
      await leases.release('work', 'one', 9);
      assert.equal(await leases.acquire('work', 'two', 60_000), undefined);
      await leases.release('work', 'one', 1);
      assert.equal(await leases.renew('work', 'one', 1, 1000), undefined);
      assert.equal((await leases.acquire('work', 'one', 60_000))?.epoch, 2);
    }));

  test('of many who ask at once exactly one gets the lease', () =>
    withStore(makePlace, async ({ leases }) => {
      const asked = Array.from({ length: 50 }, (_, at) => leases.acquire('work', `h${at}`, 60_000));
      const got = (await Promise.all(asked)).filter((lease) => lease !== undefined);
      assert.equal(got.length, 1);
      assert.equal((await leases.list()).length, 1);
    }));

  test('nonsense is no lease', () =>
    withStore(makePlace, async ({ leases }) => {
      const refused = withErrorCode('HANSA_BAD_REQUEST');
      await assert.rejects(leases.acquire('', 'one', 1000), refused);
      await assert.rejects(leases.acquire('work', '', 1000), refused);
      await assert.rejects(leases.acquire('work', 'one', 0), refused);
      await assert.rejects(leases.acquire('work', 'one', Number.NaN), refused);
    }));

  test('a commit under an older epoch is refused, also within one transaction', () =>
    withStore(makePlace, async (store) => {
      const { leases } = store;
      await leases.acquire('work', 'one', 60_000);
      const fence = { lease: 'work', epoch: 1 };
      await store.commit({ fence, put: [put('things', 'a')] });
      const [before, , , after] = await Promise.allSettled([
        store.commit({ fence, put: [put('things', 'b')] }),
        leases.release('work', 'one', 1),
        leases.acquire('work', 'two', 60_000),
        store.commit({ fence, put: [put('things', 'c')], audit: [audit('never')] }),
      ]);
      assert.equal(before.status, 'fulfilled');
      assert.ok(after.status === 'rejected');
      withErrorCode('HANSA_FENCED')(after.reason);
      assert.equal(store.get('things', 'c'), undefined);
      assert.equal(store.auditLog.size, 0);
      await store.commit({ fence: { lease: 'work', epoch: 2 }, put: [put('things', 'd')] });
    }));

  test('a commit under a lease or an epoch that never was is refused', () =>
    withStore(makePlace, async (store) => {
      await store.leases.acquire('work', 'one', 60_000);
      for (const fence of [
        { lease: 'work', epoch: 2 },
        { lease: 'other', epoch: 1 },
      ]) {
        await assert.rejects(
          store.commit({ fence, put: [put('things', 'a')] }),
          withErrorCode('HANSA_FENCED'),
        );
      }
    }));

  test('facts are merged, removed and deleted, without a revision', () =>
    withStore(makePlace, async (store) => {
      const { facts } = store;
      facts.merge('peers', 'a', { lastSeen: 1, note: 'x' });
      facts.merge('peers', 'a', { lastSeen: 2, note: undefined });
      assert.deepEqual(facts.get('peers', 'a'), { lastSeen: 2 });
      facts.delete('peers', 'a');
      assert.equal(facts.get('peers', 'a'), undefined);
      assert.equal(store.revision, 0);
    }));

  test('a record that is deleted takes its facts along, and whoever watches is told them', () =>
    withStore(makePlace, async (store) => {
      const live = new Recorder();
      store.watch('peers', 0, live);
      await store.commit({ put: [put('peers', 'a')] });
      store.facts.merge('peers', 'a', { lastSeen: 1 });
      await store.commit({ delete: [{ collection: 'peers', name: 'a' }] });
      assert.equal(store.facts.get('peers', 'a'), undefined);
      const late = new Recorder();
      store.watch('peers', 0, late);
      await turn();
      for (const { calls } of [live, late]) {
        assert.deepEqual(
          calls.flat().map(({ facts }) => facts),
          [undefined, { lastSeen: 1 }],
        );
      }
    }));

  test('facts are written when the store is closed', () =>
    withStore(makePlace, async (store, place) => {
      for (let at = 0; at < 1200; at++) store.facts.merge('peers', `p${at}`, { at });
      store.facts.merge('peers', 'gone', { at: 0 });
      store.facts.delete('peers', 'gone');
      await store.close();
      const again = await place.open();
      assert.deepEqual(again.facts.get('peers', 'p0'), { at: 0 });
      assert.deepEqual(again.facts.get('peers', 'p1199'), { at: 1199 });
      assert.equal(again.facts.get('peers', 'gone'), undefined);
      await again.close();
    }));
}
