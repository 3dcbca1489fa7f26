import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { openStore } from '../../core/store/open.ts';
import { pendingRefresh, refreshCollection, refreshDone } from './refresh-request.ts';

const name = 'bruges.example';

async function asked(by: string) {
  const store = await openStore({ driver: 'memory' }, { clock: new VirtualClock() });
  const ask = (who: string) =>
    store.commit({
      put: [
        {
          collection: refreshCollection,
          name,
          encode: () => Buffer.from(JSON.stringify({ by: who })),
        },
      ],
    });
  await ask(by);
  const pending = pendingRefresh(store, name);
  assert(pending);
  return { store, ask, pending };
}

test('a request that was acted on goes', async () => {
  const { store, pending } = await asked('ada');
  await refreshDone(store, pending, undefined);
  assert.equal(pendingRefresh(store, name), undefined);
});

test('one that came before the end of the last stays, also where it came in the same moment', async () => {
  const { store, ask, pending } = await asked('ada');
  // The new request arrives before the completion of the previous one.
  const asking = ask('bob');
  await refreshDone(store, pending, undefined);
  await asking;
  assert.equal(pendingRefresh(store, name)?.request.by, 'bob');
  await refreshDone(store, pending, undefined);
  assert.equal(pendingRefresh(store, name)?.request.by, 'bob');
});
