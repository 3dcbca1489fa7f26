import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { TrustDomain } from '../../api/trust-domain.ts';
import { systemRandom as random } from '../../core/clock/system.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { StoreBundles } from '../../core/identity/store-bundles.ts';
import { openStore } from '../../core/store/open.ts';
import { StoreRelations } from '../relations.ts';
import { Delivery, type Subscriber } from './delivery.ts';
import { SvidSupply } from './svid-supply.ts';
import { openAuthority, putEntry } from './test-workload-site.ts';
import type { WorkloadProcess } from './workload-process.ts';
import type { WorkloadState } from './workload-state.ts';

const silent = { debug: nothing, info: nothing, warn: nothing, error: nothing, with: () => silent };
function nothing(): void {
  // Nobody reads it.
}

let stop = async (): Promise<void> => undefined;
afterEach(() => stop());

async function scene() {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  const authority = await openAuthority('lubeck.example', clock);
  const delivery = new Delivery({
    store,
    clock,
    log: silent,
    trustDomain: TrustDomain.parse('lubeck.example'),
    bundles: new StoreBundles(store, authority, clock),
    relations: new StoreRelations(store),
    supply: new SvidSupply({ authority, clock, random, issued: nothing, failed: nothing }),
    pushed: nothing,
  });
  stop = async () => {
    delivery.stop();
    await store.close();
  };
  return { store, clock, delivery };
}

function processOf(uid: number, hashed: WorkloadProcess['hashed']): WorkloadProcess {
  const selectors = [`unix:uid:${uid}`];
  return { uid, gid: uid, pid: uid, selectors, key: `${uid}`, description: `uid ${uid}`, hashed };
}

/** Resolves to the first state, and how to end the stream; or rejects as the stream would end. */
function streamOf(
  delivery: Delivery,
  process: WorkloadProcess,
  needsSvids = false,
): Promise<WorkloadState & { readonly close: () => void }> {
  return new Promise((resolve, reject) => {
    const subscriber: Subscriber = {
      needsSvids,
      versionOf: (state) => (needsSvids ? state.svidVersion : state.bundlesVersion),
      send: (state) => resolve(Object.assign(state, { close: () => close() })),
      denied: () => reject(new Error('denied')),
      failed: reject,
    };
    const close = delivery.subscribe(process, subscriber);
  });
}

test('a program that takes long to hash keeps nobody else waiting', async () => {
  const { store, delivery } = await scene();
  await putEntry(store, 'by-program', { selectors: [`unix:sha256:${'0'.repeat(64)}`] });
  await putEntry(store, 'slow', { selectors: ['unix:uid:1'] });
  await putEntry(store, 'quick', { selectors: ['unix:uid:2'] });
  let hash = (): void => undefined;
  const hashing = new Promise<void>((resolve) => (hash = resolve));
  const slow = streamOf(
    delivery,
    processOf(1, () => hashing),
  );
  const quick = await streamOf(
    delivery,
    processOf(2, async () => undefined),
  );
  assert.deepEqual(
    quick.entries.map(({ name }) => name),
    ['quick'],
  );
  hash();
  assert.deepEqual(
    (await slow).entries.map(({ name }) => name),
    ['slow'],
  );
});

test('a process is not judged before its program is hashed', async () => {
  const { store, delivery } = await scene();
  const sha256 = `unix:sha256:${'a'.repeat(64)}`;
  await putEntry(store, 'by-program', { selectors: [sha256] });
  const selectors = ['unix:uid:1'];
  const process: WorkloadProcess = {
    ...processOf(1, async () => {
      await new Promise((resolve) => setImmediate(resolve));
      selectors.push(sha256);
    }),
    selectors,
  };
  const { entries } = await streamOf(delivery, process);
  assert.deepEqual(
    entries.map(({ name }) => name),
    ['by-program'],
  );
});

test('rests where an SVID is due that nobody streams any more', async (t) => {
  const { store, clock, delivery } = await scene();
  delivery.start();
  await putEntry(store, 'web', { selectors: ['unix:uid:1'], ttlSeconds: 600 });
  const process = processOf(1, async () => undefined);
  await streamOf(delivery, process);
  const svids = await streamOf(delivery, process, true);
  svids.close();
  await clock.advance(301_000);
  const timers = t.mock.method(clock, 'timer');
  await clock.advance(1_000);
  assert.ok(timers.mock.callCount() < 10, `${timers.mock.callCount()} timers in a second`);
});
