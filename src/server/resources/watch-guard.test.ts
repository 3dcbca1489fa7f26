import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { settle, VirtualClock } from '../../core/clock/virtual.ts';
import { openStore } from '../../core/store/open.ts';
import { WatchGuard } from './watch-guard.ts';

async function guarded(count: number) {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  const asked = Array.from({ length: count }, () => 0);
  const open = asked.map((_, index) => ({
    recheck: () => {
      asked[index] = (asked[index] ?? 0) + 1;
    },
  }));
  const guard = new WatchGuard({ store, clock, collections: ['roles'], open });
  const write = async (collection: string): Promise<void> => {
    await store.commit({ put: [{ collection, name: 'a', encode: () => Buffer.from('{}') }] });
    await settle();
    await settle();
  };
  return { clock, guard, asked, write };
}

suite('the guard of watches', () => {
  test('asks every watch again when something changes that access depends on', async () => {
    const { asked, write } = await guarded(40);
    await write('roles');
    assert.deepEqual(new Set(asked), new Set([1]));
  });

  test('does not ask for changes of anything else', async () => {
    const { asked, write } = await guarded(2);
    await write('sites');
    assert.deepEqual(asked, [0, 0]);
  });

  test('asks once for many changes in a short time, and after the last of them', async () => {
    const { clock, asked, write } = await guarded(1);
    for (let count = 0; count < 50; count += 1) await write('roles');
    assert.deepEqual(asked, [1]);
    await clock.advance(100);
    await settle();
    assert.deepEqual(asked, [2]);
    await clock.advance(1000);
    assert.deepEqual(asked, [2]);
  });

  test('asks now and then for what ends by time', async () => {
    const { clock, asked } = await guarded(1);
    for (let minute = 0; minute < 2; minute += 1) {
      await clock.advance(30_000);
      await settle();
    }
    assert.deepEqual(asked, [2]);
  });

  test('asks nobody after it was stopped', async () => {
    const { clock, guard, asked, write } = await guarded(1);
    guard.stop();
    await write('roles');
    await clock.advance(60_000);
    assert.deepEqual(asked, [0]);
  });
});
