import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { fetchBundles, openAuthority, put, putEntry, startTestSite } from './test-workload-site.ts';

const name = 'spire.example';
const id = 'spiffe://spire.example';

test('a bundle that goes stale is taken from workloads by time alone, and given back when it is confirmed', async (t) => {
  const site = await startTestSite();
  const { store, clock } = site;
  const spire = await openAuthority(name, clock);
  const bundle = encodeSpiffeBundle(spire.bundle, { sequence: 1, refreshHintSeconds: 60 });
  const syncedAt = (ms: number): string => new Date(ms).toISOString();
  const federation = (confirmedAt: string, ready: string) =>
    put(store, 'spiffefederations', name, {
      spec: { bundleSource: { httpsWeb: {} }, staleAfterSeconds: 60, quarantined: false },
      status: {
        bundle,
        source: 'https_web',
        refreshHintSeconds: 60,
        syncedAt: confirmedAt,
        conditions: [{ type: 'Ready', status: ready }],
      },
    });
  await federation(syncedAt(clock.now()), 'True');
  await putEntry(store, 'web', { federatesWith: ['*'] });
  const stream = fetchBundles(site.socket);
  // Streams first: a site that stops waits for them.
  t.after(async () => {
    stream.close();
    await site.stop();
  });
  assert((await stream.next()).bundles[id] !== undefined);
  // Confirmed once more: only a fact tells of it, and nothing is sent.
  store.facts.merge('spiffefederations', name, {
    uid: `uid-${name}`,
    syncedAt: syncedAt(clock.now() + 60_000),
  });
  clock.offsetMs += 121_000;
  site.services.refresh();
  clock.offsetMs += 61_000;
  site.services.refresh();
  const told = await stream.next();
  assert.equal(told.bundles[id], undefined);
  // The sync sees the endpoint again: a change of state.
  store.facts.merge('spiffefederations', name, { syncedAt: syncedAt(clock.now()) });
  await federation(syncedAt(clock.now()), 'Unknown');
  assert((await stream.next()).bundles[id] !== undefined);
});
