import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { openStore } from '../../core/store/open.ts';
import { put, putEntry, remove } from '../workload/test-workload-site.ts';
import { MovedEntries } from './moved-entries.ts';
import { StoreAssignments } from './store-assignments.ts';

test('entries whose agents changed are collected for a second', async (t) => {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  const added: string[] = [];
  const source = new MovedEntries({ store, clock, assignments: new StoreAssignments(store) });
  const running = source.start({ add: (name) => added.push(name), ended: () => undefined });
  t.after(async () => {
    running.stop();
    await store.close();
  });
  const harbour = { selector: { matchLabels: { zone: 'harbour' } } };
  await putEntry(store, 'web', { agents: harbour });
  await putEntry(store, 'other', { agents: { names: ['gate'] } });
  for (const name of ['crane-1', 'crane-2', 'crane-3']) {
    await put(store, 'agents', name, { spec: {} }, { zone: 'harbour' });
  }
  await clock.advance(999);
  assert.deepEqual(added, []);
  await clock.advance(1);
  assert.deepEqual(added.splice(0), ['web']);
  await remove(store, 'agents', 'crane-2');
  await clock.advance(1000);
  assert.deepEqual(added.splice(0), ['web']);
  // An entry says why it does not apply on a machine that it names.
  await put(store, 'agents', 'gate', { spec: { entriesByName: false } });
  await clock.advance(1000);
  assert.deepEqual(added.splice(0), ['other']);
  running.stop();
  await remove(store, 'agents', 'crane-1');
  await clock.advance(1000);
  assert.deepEqual(added, []);
});
