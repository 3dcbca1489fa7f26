import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { clusterSite, type TestServer, type WrittenSpec } from '../clusters/test-clusters.ts';
import type { StoredCluster } from '../clusters/compile-cluster.ts';
import type { Claims } from '../review/test-service-account-tokens.ts';
import { KeyCache, keyTiming } from './key-cache.ts';
import { firstByMs, KeyMemory, keysCollection } from './key-memory.ts';

const issuer = 'https://kubernetes.default.svc.cluster.local';

const tokenPath = '/api/v1/namespaces/kube-fed/serviceaccounts/hansa/token';

/** Replicas of one site, and clusters at https://NAME.example. */
async function provingSite() {
  const site = await clusterSite();
  const { clock, random, transport, directory, store, prove } = site;
  const find = (name: string): StoredCluster | undefined => directory.find(name);
  const replica = (): KeyCache =>
    new KeyCache({
      clock,
      random,
      transport,
      find,
      prove,
      memory: new KeyMemory({ store, find, log: { warn: (text) => assert.fail(text) } }),
    });
  const memory = new KeyMemory({ store, find, log: { warn: (text) => assert.fail(text) } });
  const cluster = (name: string): StoredCluster => find(name) ?? assert.fail(name);
  const settle = async <T>(work: Promise<T>): Promise<T | Error> => {
    const settled = Promise.allSettled([work]);
    await clock.advance(20_000);
    const [one] = await settled;
    // What was fetched is stored by now.
    await new Promise((resolve) => setImmediate(resolve));
    return one?.status === 'fulfilled' ? one.value : (one?.reason as Error);
  };
  const server = (name: string): TestServer => site.apiServer(`${name}.example`);
  return {
    clock,
    /** Whether app1 signs with another key by now. */
    superseded: (keyId: string) => memory.isSuperseded(cluster('app1'), keyId),
    commits: () => store.get(keysCollection, 'app1')?.revision,
    change: site.change,
    remove: site.remove,
    replica,
    cluster,
    server,
    register: async (
      name: string,
      keys: Record<string, number>,
      more: Partial<WrittenSpec> = {},
    ) => {
      server(name).publish(issuer, keys);
      await site.create(name, { issuer, apiServer: `https://${name}.example`, ...more });
    },
    fetch: (keys: KeyCache, name: string) => settle(keys.keepFresh(cluster(name))),
    refresh: (keys: KeyCache, name: string) => settle(keys.refresh(cluster(name))),
    /** The keys that count for a cluster. A star marks the proven ones. */
    ids: (keys: KeyCache, name: string) =>
      keys
        .current(cluster(name))
        ?.keys.map(({ keyId, provenAtMs }) => `${keyId}${provenAtMs === undefined ? '' : '*'}`),
    requests: (name: string) => server(name).asked.filter((path) => path.endsWith('/token')).length,
  };
}

suite('a key', () => {
  test('is proven by a token that the cluster signs with it for this site', async () => {
    const { register, replica, fetch, ids, requests, clock } = await provingSite();
    await register('app1', { a: 0 });
    const keys = replica();
    await fetch(keys, 'app1');
    assert.deepEqual(ids(keys, 'app1'), ['a*']);
    // Nothing is left to prove.
    await clock.advance(keyTiming.refreshMs);
    await fetch(keys, 'app1');
    assert.equal(requests('app1'), 1);
  });

  test('with which the cluster does not sign yet is proven as soon as it does', async () => {
    const { register, replica, fetch, refresh, ids, server } = await provingSite();
    await register('app1', { old: 0, next: 1 });
    const keys = replica();
    await fetch(keys, 'app1');
    assert.deepEqual(ids(keys, 'app1'), ['old*', 'next']);
    server('app1').signer = { kid: 'next', number: 1 };
    // A review of a token with the other key asks for it.
    await refresh(keys, 'app1');
    assert.deepEqual(ids(keys, 'app1'), ['old*', 'next*']);
  });

  test('supersedes the one with which the cluster signed before, once it signs with it', async () => {
    const { register, replica, fetch, refresh, server, clock, superseded, commits } =
      await provingSite();
    await register('app1', { old: 0, next: 1 });
    const keys = replica();
    await fetch(keys, 'app1');
    assert.deepEqual(['old', 'next', 'unknown'].map(superseded), [false, true, true]);
    // A repeated proof is no news for other replicas.
    const before = commits();
    await clock.advance(keyTiming.refreshMs);
    await fetch(keys, 'app1');
    assert.equal(commits(), before);
    server('app1').signer = { kid: 'next', number: 1 };
    await refresh(keys, 'app1');
    assert.deepEqual(['old', 'next'].map(superseded), [true, false]);
    // Back again: the set changes when it is dropped.
    server('app1').keys({ old: 0 });
    await clock.advance(keyTiming.refreshMs);
    await fetch(keys, 'app1');
    assert.deepEqual(['old', 'next'].map(superseded), [false, true]);
  });

  test('stays proven in other replicas and after a restart, also in an outage', async () => {
    const { register, replica, fetch, refresh, ids, server, requests } = await provingSite();
    await register('app1', { a: 0 });
    await fetch(replica(), 'app1');
    const other = replica();
    await fetch(other, 'app1');
    assert.deepEqual(ids(other, 'app1'), ['a*']);
    assert.equal(requests('app1'), 1);
    server('app1').down = true;
    const restarted = replica();
    await refresh(restarted, 'app1');
    assert.deepEqual(ids(restarted, 'app1'), ['a*']);
  });

  test('has no proof at another API server, or for another Cluster of the name', async () => {
    const { register, replica, fetch, ids, server, change, remove } = await provingSite();
    await register('app1', { a: 0 });
    const keys = replica();
    await fetch(keys, 'app1');
    server('moved').publish(issuer, { a: 0 });
    server('moved').signer = undefined;
    await change('app1', (spec) => ({ ...spec, apiServer: 'https://moved.example' }));
    await fetch(keys, 'app1');
    assert.deepEqual(ids(keys, 'app1'), ['a']);
    await remove('app1');
    await register('app1', { a: 0 });
    server('app1').signer = undefined;
    await fetch(keys, 'app1');
    assert.deepEqual(ids(keys, 'app1'), ['a']);
  });

  const now = 1_767_225_600;
  const forgeries: Record<string, { claims?: Claims; number?: number; kid?: string }> = {
    'of another audience': { claims: { aud: ['hansa://lubeck.example'] } },
    'of the audience of another registration': {
      claims: { aud: ['hansa://lubeck.example/clusters/victim/uid/nonce'] },
    },
    'that is for the API server, too': { claims: { aud: [issuer, 'hansa://lubeck.example'] } },
    'without an audience': { claims: { aud: [] } },
    'of another account': {
      claims: {
        'kubernetes.io': { namespace: 'kube-fed', serviceaccount: { name: 'other', uid: 'u' } },
      },
    },
    'of an account of a tenant': {
      claims: {
        sub: 'system:serviceaccount:kube-fed:hansa',
        'kubernetes.io': { namespace: 'tenant', serviceaccount: { name: 'hansa', uid: 'u' } },
      },
    },
    'of another issuer': { claims: { iss: 'https://other.example' } },
    'that expired': { claims: { exp: now - 3600 } },
    'that another key signed': { number: 5 },
    'that names another key': { kid: 'other' },
  };
  for (const [what, { claims, number = 0, kid = 'a' }] of Object.entries(forgeries)) {
    test(`is not proven by a token ${what}`, async () => {
      const { register, replica, fetch, ids, server, cluster } = await provingSite();
      await register('app1', { a: 0 });
      server('app1').signer = { kid, number, ...(claims && { claims }) };
      const keys = replica();
      await fetch(keys, 'app1');
      assert.deepEqual(ids(keys, 'app1'), ['a']);
      assert.equal(keys.stateOf(cluster('app1'))?.unproven?.reason, 'Unproven');
    });
  }

  test('is not proven by a token that a registration was asked for before', async () => {
    const { register, replica, fetch, ids, server, clock } = await provingSite();
    await register('owner', { a: 0 });
    await register('evil', { a: 0 });
    // The API server of evil has a token of the owner for it, from another time.
    const earlier = await server('owner').answer(tokenPath, {
      clock,
      timeoutMs: 1,
      maxBytes: 65_536,
      audiences: ['hansa://lubeck.example/clusters/evil/uid/another-nonce'],
    });
    const body = earlier.body.toString();
    server('evil').answers.set(tokenPath, () => ({ status: 201, body }));
    const keys = replica();
    await fetch(keys, 'evil');
    assert.deepEqual(ids(keys, 'evil'), ['a']);
  });

  for (const [status, expected] of [
    [401, /^Unauthorized .*CredentialFresh/],
    [403, /^Unproven .*hansa cluster add app1/],
    [404, /^Unproven .*no ServiceAccount kube-fed\/hansa/],
    [500, /^Unproven .*HTTP 500/],
  ] as const) {
    test(`without a proof says why: HTTP ${status}`, async () => {
      const { register, replica, fetch, server, cluster } = await provingSite();
      await register('app1', { a: 0 });
      server('app1').answers.set(tokenPath, () => ({ status }));
      const keys = replica();
      await fetch(keys, 'app1');
      const { reason, message } = keys.stateOf(cluster('app1'))?.unproven ?? {};
      assert.match(`${reason} ${message}`, expected);
    });
  }

  test('without a proof is asked for again soon, and after a new credential at once', async () => {
    const { register, replica, server, cluster, ids, clock, requests } = await provingSite();
    await register('app1', { a: 0 });
    const { signer } = server('app1');
    server('app1').signer = undefined;
    const keys = replica();
    const waitMs = await keys.keepFresh(cluster('app1'), 1);
    assert.ok(waitMs <= keyTiming.firstRetryMs);
    server('app1').signer = signer;
    await keys.keepFresh(cluster('app1'), 2);
    assert.deepEqual(ids(keys, 'app1'), ['a*']);
    assert.equal(requests('app1'), 2);
    assert.ok(clock.monotonic() < keyTiming.firstRetryMs);
  });

  test('needs no proof in mode jwks, which sends no token anywhere', async () => {
    const { register, replica, fetch, cluster, server, ids } = await provingSite();
    await register('app1', { a: 0 }, { validation: { mode: 'jwks' } });
    server('app1').signer = undefined;
    const keys = replica();
    await fetch(keys, 'app1');
    assert.deepEqual(ids(keys, 'app1'), ['a']);
    assert.equal(keys.stateOf(cluster('app1'))?.unproven, undefined);
  });
});

suite('a copy of a key', () => {
  test('ends when its owner proves it, however long it was published before, in every replica', async () => {
    const { register, replica, fetch, ids, cluster, clock, server } = await provingSite();
    await register('evil', { a: 0, own: 1 });
    server('evil').signer = { kid: 'own', number: 1 };
    const [keys, other] = [replica(), replica()];
    for (const one of [keys, other]) await fetch(one, 'evil');
    assert.deepEqual(ids(keys, 'evil'), ['a', 'own*']);
    await clock.advance(2 * firstByMs);
    await register('app1', { a: 0 });
    await fetch(keys, 'app1');
    assert.deepEqual(ids(keys, 'app1'), ['a*']);
    for (const one of [keys, other]) {
      assert.deepEqual(ids(one, 'evil'), ['own*']);
      assert.deepEqual(one.stateOf(cluster('evil'))?.copiedFrom, ['app1']);
      assert.deepEqual(one.sharedWith(cluster('evil')), ['app1']);
    }
    assert.deepEqual(keys.sharedWith(cluster('app1')), []);
  });

  test('never counts where its owner proved it before', async () => {
    const { register, replica, fetch, ids, cluster, server } = await provingSite();
    await register('app1', { a: 0 });
    await register('evil', { a: 0 });
    server('evil').signer = undefined;
    const keys = replica();
    for (const name of ['app1', 'evil']) await fetch(keys, name);
    assert.deepEqual(ids(keys, 'app1'), ['a*']);
    assert.equal(ids(keys, 'evil'), undefined);
    assert.equal(keys.stateOf(cluster('evil'))?.failure?.reason, 'SharedKeys');
  });

  test('takes nothing from an owner that cannot prove it', async () => {
    const { register, replica, fetch, ids, server } = await provingSite();
    await register('app1', { a: 0 }, { validation: { mode: 'jwks' } });
    server('app1').signer = undefined;
    await register('evil', { a: 0, own: 1 });
    server('evil').signer = { kid: 'own', number: 1 };
    const keys = replica();
    for (const name of ['evil', 'app1']) await fetch(keys, name);
    assert.deepEqual(ids(keys, 'app1'), ['a']);
    assert.deepEqual(ids(keys, 'evil'), ['a', 'own*']);
  });

  test('that both clusters prove ends for neither, and both say so', async () => {
    const { register, replica, fetch, ids, cluster, clock } = await provingSite();
    await register('app1', { a: 0 });
    const keys = replica();
    await fetch(keys, 'app1');
    await clock.advance(2 * firstByMs);
    await register('twin', { a: 0 });
    await fetch(keys, 'twin');
    await fetch(keys, 'app1');
    for (const [name, other] of [
      ['app1', 'twin'],
      ['twin', 'app1'],
    ] as const) {
      assert.deepEqual(ids(keys, name), ['a*']);
      assert.deepEqual(keys.sharedWith(cluster(name)), [other]);
    }
  });
});
