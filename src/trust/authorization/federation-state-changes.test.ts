import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { systemClock } from '../../core/clock/system.ts';
import { FederatedBundles } from '../federation/federated-bundles.ts';
import { openStore } from '../../core/store/open.ts';
import { FederationStateSource, watchFederationState } from './federation-state-changes.ts';
import {
  openAuthority,
  put,
  putEntry,
  putFederation,
  remove,
} from '../workload/test-workload-site.ts';

async function scene(t: TestContext) {
  const clock = systemClock;
  const store = await openStore({ driver: 'memory' }, { clock });
  t.after(() => store.close());
  const own = await openAuthority('lubeck.example', clock);
  const spire = await openAuthority('spire.example', clock);
  return { clock, store, spire, bundles: new FederatedBundles(store, own) };
}

/** What is told comes with the turn of the watch. */
const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
};

describe('a change of relations', () => {
  test('is told where a bundle, labels, a condition or a grant is another, and not otherwise', async (t) => {
    const { store, clock, bundles, spire } = await scene(t);
    let told = 0;
    t.after(
      watchFederationState({
        store,
        clock,
        bundles,
        changed: () => told++,
        ended: (error) => assert.fail(error),
      }),
    );
    const after = async (change: Promise<void>): Promise<number> => {
      told = 0;
      await change;
      await turns();
      return told;
    };
    const ready = { conditions: [{ type: 'Ready', status: 'True' }] };
    assert.equal(await after(putFederation(store, spire)), 1);
    assert.equal(await after(putFederation(store, spire, undefined, { syncedAt: 'now' })), 0);
    assert.equal(await after(putFederation(store, spire, { zone: 'north' })), 1);
    assert.equal(await after(putFederation(store, spire, { zone: 'north' }, ready)), 1);
    assert.equal(
      await after(putFederation(store, spire, { zone: 'north' }, { ...ready, syncedAt: 'now' })),
      0,
    );
    await spire.prepare('x509', () => []);
    assert.equal(await after(putFederation(store, spire, { zone: 'north' }, ready)), 1);
    assert.equal(await after(remove(store, 'spiffefederations', 'spire.example')), 1);
    const peer = (status: object) =>
      put(store, 'federationpeers', 'b.example', { spec: {}, status });
    assert.equal(await after(peer({ state: 'active' })), 1);
    assert.equal(await after(peer({ state: 'active', lastSeen: 'now' })), 0);
    assert.equal(await after(peer({ state: 'suspended' })), 1);
    assert.equal(await after(put(store, 'federationgrants', 'g', { spec: { peer: 'x' } })), 1);
  });

  test('is told where the deadline of a bundle moves, as it does on an agent', async (t) => {
    const { store, clock, bundles } = await scene(t);
    let told = 0;
    t.after(
      watchFederationState({
        store,
        clock,
        bundles,
        changed: () => told++,
        ended: (error) => assert.fail(error),
      }),
    );
    const confirmed = async (syncedAt: string): Promise<number> => {
      told = 0;
      const spec = { bundleSource: { httpsWeb: {} } };
      await put(store, 'spiffefederations', 'spire.example', { spec, status: { syncedAt } });
      await turns();
      return told;
    };
    assert.equal(await confirmed('2026-05-01T12:00:00Z'), 1);
    assert.equal(await confirmed('2026-05-01T12:00:00Z'), 0);
    assert.equal(await confirmed('2026-05-01T12:07:30Z'), 1);
  });

  test('asks for every entry once, however many relations there are', async (t) => {
    const { store, clock, bundles } = await scene(t);
    for (let at = 0; at < 50; at++) {
      await put(store, 'serviceoffers', `offer-${at}`, { spec: { at } });
    }
    await putEntry(store, 'a');
    await putEntry(store, 'b');
    const asked: string[] = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    const source = new FederationStateSource({ store, clock, bundles }, 'workloadentries').start({
      add: (name) => {
        asked.push(name);
        resolve();
      },
      ended: (error) => assert.fail(error),
    });
    await promise;
    source.stop();
    assert.deepEqual(asked, ['a', 'b']);
  });
});
