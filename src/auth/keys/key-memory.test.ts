import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { hasCode } from '../../core/errors/error.ts';
import { clusterSite, testJwks } from '../clusters/test-clusters.ts';
import type { StoredCluster } from '../clusters/compile-cluster.ts';
import { KeyCache, keyTiming } from './key-cache.ts';
import { firstByMs, KeyMemory, keysCollection } from './key-memory.ts';

const issuer = 'https://kubernetes.default.svc.cluster.local';
const hourMs = 3_600_000;

async function memorySite() {
  const site = await clusterSite();
  const { clock, random, transport, directory, store, prove } = site;
  const find = (name: string) => directory.find(name);
  const warnings: string[] = [];
  /** A process of the site. All share the store. */
  const start = () => {
    const memory = new KeyMemory({
      store,
      find,
      log: { warn: (text) => void warnings.push(text) },
    });
    return new KeyCache({ clock, random, transport, find, memory, prove });
  };
  const cluster = (name: string): StoredCluster => find(name) ?? assert.fail(name);
  const settle = async <T>(work: Promise<T>): Promise<T> => {
    const settled = Promise.allSettled([work]);
    await clock.advance(20_000);
    const [one] = await settled;
    if (one?.status === 'rejected') throw one.reason;
    // What was fetched is stored by now.
    for (let turn = 0; turn < 20; turn++) await Promise.resolve();
    await new Promise((resolve) => setImmediate(resolve));
    return (one as PromiseFulfilledResult<T>).value;
  };
  return {
    ...site,
    start,
    cluster,
    warnings,
    register: (name: string, more: object = {}) =>
      site.create(name, { issuer, apiServer: `https://${name}.example`, ...more }),
    fetch: (keys: KeyCache, name: string) => settle(keys.keepFresh(cluster(name))),
    refresh: (keys: KeyCache, name: string) => settle(keys.refresh(cluster(name))),
    ids: (keys: KeyCache, name: string) =>
      keys.current(cluster(name))?.keys.map(({ keyId }) => keyId),
    revision: () => store.get(keysCollection, 'app1')?.revision,
  };
}

suite('keys in the store', () => {
  test('survive a restart in an outage, until they are 24 hours old', async () => {
    const { register, apiServer, start, fetch, refresh, ids, clock, warnings } = await memorySite();
    apiServer('app1.example').publish(issuer, { a: 0, b: 1 });
    await register('app1');
    const before = start();
    await fetch(before, 'app1');
    await clock.advance(keyTiming.refreshMs * 2);
    await fetch(before, 'app1');
    apiServer('app1.example').down = true;
    await clock.advance(keyTiming.survivalMs - hourMs);
    const after = start();
    // Not before a fetch was tried: a key may have been removed meanwhile.
    assert.equal(ids(after, 'app1'), undefined);
    const keys = await refresh(after, 'app1');
    assert.deepEqual(
      keys.keys.map(({ keyId }) => keyId),
      ['a', 'b'],
    );
    assert.deepEqual(ids(after, 'app1'), ['a', 'b']);
    await clock.advance(2 * hourMs);
    assert.equal(ids(after, 'app1'), undefined);
    assert.deepEqual(warnings, []);
    await assert.rejects(refresh(start(), 'app1'), (error) => hasCode(error, 'HANSA_UNAVAILABLE'));
  });

  test('are committed only where they changed', async () => {
    const { register, apiServer, start, fetch, clock, revision } = await memorySite();
    apiServer('app1.example').publish(issuer, { a: 0 });
    await register('app1');
    const [keys, replica] = [start(), start()];
    await fetch(keys, 'app1');
    const first = revision();
    assert.ok(first !== undefined);
    await fetch(replica, 'app1');
    await clock.advance(keyTiming.refreshMs * 2);
    await fetch(keys, 'app1');
    assert.equal(revision(), first);
    apiServer('app1.example').publish(issuer, { a: 0, b: 1 });
    await clock.advance(keyTiming.refreshMs * 2);
    await fetch(keys, 'app1');
    assert.notEqual(revision(), first);
  });

  test('of another API server, or of a Cluster of before, are not used', async () => {
    const { register, apiServer, start, fetch, refresh, change, remove } = await memorySite();
    apiServer('app1.example').publish(issuer, { a: 0 });
    await register('app1');
    await fetch(start(), 'app1');
    apiServer('app1.example').down = true;
    await change('app1', (spec) => ({ ...spec, apiServer: 'https://moved.example' }));
    apiServer('moved.example').down = true;
    await assert.rejects(refresh(start(), 'app1'), (error) => hasCode(error, 'HANSA_UNAVAILABLE'));
    await remove('app1');
    await register('app1');
    await assert.rejects(refresh(start(), 'app1'), (error) => hasCode(error, 'HANSA_UNAVAILABLE'));
  });
});

suite('a key that another cluster published first', () => {
  /** app1 has published `a` for longer than an hour, and evil publishes it too. None can prove it. */
  const stolen = async (own: Record<string, number> = {}, more: object = {}) => {
    const site = await memorySite();
    site.apiServer('app1.example').publish(issuer, { a: 0 });
    site.apiServer('app1.example').signer = undefined;
    await site.register('app1');
    await site.fetch(site.start(), 'app1');
    await site.clock.advance(firstByMs);
    site.apiServer('evil.example').publish(issuer, { a: 0, ...own });
    site.apiServer('evil.example').signer = undefined;
    await site.register('evil', more);
    return site;
  };

  test('is not used, also while its owner has no keys in this process', async () => {
    const { start, fetch, ids, cluster } = await stolen({ own: 1 });
    const keys = start();
    await fetch(keys, 'evil');
    assert.deepEqual(ids(keys, 'evil'), ['own']);
    assert.deepEqual(keys.stateOf(cluster('evil'))?.copiedFrom, ['app1']);
    assert.deepEqual(keys.sharedWith(cluster('evil')), ['app1']);
    await fetch(keys, 'app1');
    assert.deepEqual(ids(keys, 'app1'), ['a']);
    // The owner did nothing.
    assert.deepEqual(keys.sharedWith(cluster('app1')), []);
  });

  test('leaves no keys where the cluster has no other', async () => {
    const { start, fetch, ids, cluster } = await stolen();
    const keys = start();
    await fetch(keys, 'evil');
    assert.equal(ids(keys, 'evil'), undefined);
    const { failure } = keys.stateOf(cluster('evil')) ?? {};
    assert.equal(failure?.reason, 'SharedKeys');
    assert.match(failure?.message ?? '', /those of cluster app1.*spec\.sharesKeys/);
  });

  test('is used where the operator says that both clusters sign with it', async () => {
    const { start, fetch, ids, cluster } = await stolen({}, { sharesKeys: true });
    const keys = start();
    for (const name of ['app1', 'evil']) await fetch(keys, name);
    assert.deepEqual(ids(keys, 'evil'), ['a']);
    for (const name of ['app1', 'evil']) assert.deepEqual(keys.sharedWith(cluster(name)), []);
  });

  test('is used by a second Cluster for the same API server', async () => {
    const { start, fetch, ids } = await stolen({}, { apiServer: 'https://app1.example' });
    const keys = start();
    await fetch(keys, 'evil');
    assert.deepEqual(ids(keys, 'evil'), ['a']);
  });

  test('is used again after the other Cluster is deleted', async () => {
    const { start, fetch, ids, remove, clock, store } = await stolen();
    const keys = start();
    await fetch(keys, 'evil');
    await remove('app1');
    assert.equal(store.get(keysCollection, 'app1'), undefined);
    await clock.advance(keyTiming.longestRetryMs);
    await fetch(keys, 'evil');
    assert.deepEqual(ids(keys, 'evil'), ['a']);
  });

  test('is reported and used where nobody was clearly first, so that no cluster can end the other', async () => {
    const { start, fetch, ids, cluster, apiServer, clock } = await stolen({ own: 1 });
    const keys = start();
    for (const name of ['app1', 'evil']) await fetch(keys, name);
    // A copier polls the new key, and the site fetches from the copier first.
    for (const [name, one] of [
      ['evil', 'own'],
      ['app1', 'a'],
    ] as const) {
      apiServer(`${name}.example`).publish(issuer, { [one]: one === 'a' ? 0 : 1, new: 2 });
      apiServer(`${name}.example`).signer = undefined;
    }
    await clock.advance(keyTiming.refreshMs);
    for (const name of ['evil', 'app1']) await fetch(keys, name);
    assert.deepEqual(ids(keys, 'app1'), ['a', 'new']);
    assert.deepEqual(keys.sharedWith(cluster('app1')), ['evil']);
  });
});

test('stored keys that cannot be read any more are not used, and reported', async () => {
  const { register, apiServer, start, fetch, refresh, store, warnings } = await memorySite();
  apiServer('app1.example').publish(issuer, { a: 0 });
  await register('app1');
  await fetch(start(), 'app1');
  apiServer('app1.example').down = true;
  const stored = store.get(keysCollection, 'app1')?.value.toString() ?? '';
  const broken = Buffer.from(stored.replace('"EC"', '"oct"'));
  await store.commit({
    put: [{ collection: keysCollection, name: 'app1', encode: () => broken }],
  });
  await assert.rejects(refresh(start(), 'app1'), (error) => hasCode(error, 'HANSA_UNAVAILABLE'));
  assert.deepEqual(warnings, ['cannot read the stored keys of a cluster']);
});

test('the key set in the store is the one that was fetched', async () => {
  const { register, apiServer, start, fetch, store } = await memorySite();
  apiServer('app1.example').publish(issuer, { a: 0 });
  await register('app1');
  await fetch(start(), 'app1');
  const stored = store.get(keysCollection, 'app1')?.value.toString() ?? '';
  const [published] = (JSON.parse(testJwks({ a: 0 })) as { keys: { x: string }[] }).keys;
  assert.ok(stored.includes(published?.x ?? 'none'));
  assert.doesNotMatch(stored, /"d":/);
});
