import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { hasCode } from '../../core/errors/error.ts';
import { clusterSite, testJwks } from '../clusters/test-clusters.ts';
import type { StoredCluster } from '../clusters/compile-cluster.ts';
import { KeyCache, keyTiming } from './key-cache.ts';

const issuer = 'https://issuer.example';
const jwksPath = '/openid/v1/jwks';
const minuteMs = 60_000;

async function cacheSite() {
  const site = await clusterSite();
  const { clock, random, transport, directory } = site;
  const fetches: string[] = [];
  const keys = new KeyCache({
    clock,
    random,
    transport,
    find: (name) => directory.find(name),
    fetched: ({ name }, failure) => void fetches.push(`${name} ${failure?.reason ?? 'ok'}`),
  });
  const cluster = (name = 'app1'): StoredCluster => {
    const found = directory.find(name);
    assert.ok(found);
    return found;
  };
  return {
    ...site,
    keys,
    fetches,
    cluster,
    /** Ids of the keys that verify tokens now. */
    ids: (name = 'app1') => keys.current(cluster(name))?.keys.map(({ keyId }) => keyId),
    jwksRequests: (host = 'issuer.example') =>
      site.issuer(host).asked.filter((path) => path === jwksPath).length,
    /** As the controller does. */
    keepFresh: async (forMs: number, name = 'app1') => {
      const endsMs = clock.monotonic() + forMs;
      while (clock.monotonic() < endsMs) {
        const found = directory.find(name);
        if (found === undefined) return;
        let waitMs = 0;
        const running = keys.keepFresh(found).then((ms) => (waitMs = ms));
        await clock.advance(30_000);
        await running;
        await clock.advance(Math.min(waitMs, Math.max(endsMs - clock.monotonic(), 0)));
      }
    },
  };
}

const answered = async <T>(
  work: Promise<T>,
  clock: { advance(ms: number): Promise<void> },
  ms = 0,
): Promise<T> => {
  // Observed at once, so that a rejection is never unhandled.
  const settled = work.then(
    (value) => () => value,
    (error: unknown) => () => {
      throw error;
    },
  );
  await clock.advance(ms);
  return (await settled)();
};

describe('the key cache', () => {
  test('has no keys before the first fetch, and fetches once for all who wait', async () => {
    const { create, issuer: at, keys, cluster, ids, jwksRequests, clock } = await cacheSite();
    at('issuer.example').publish(issuer, { a: 0 });
    await create('app1', { issuer });
    assert.equal(ids(), undefined);
    const all = Promise.all(Array.from({ length: 100 }, () => keys.refresh(cluster())));
    const sets = await answered(all, clock);
    assert.equal(new Set(sets).size, 1);
    assert.deepEqual(ids(), ['a']);
    assert.equal(jwksRequests(), 1);
  });

  test('answers with the very same keys while nothing is fetched', async () => {
    const { create, issuer: at, keys, cluster, clock } = await cacheSite();
    at('issuer.example').publish(issuer, { a: 0 });
    await create('app1', { issuer });
    const set = await answered(keys.refresh(cluster()), clock);
    assert.equal(keys.current(cluster()), set);
    assert.equal(set.from, 'issuer');
    assert.equal(set.fetchedAtMs, clock.now());
  });

  test('fetches again before the keys are old, and not more often', async () => {
    const { create, issuer: at, keepFresh, jwksRequests } = await cacheSite();
    at('issuer.example').publish(issuer, { a: 0 });
    await create('app1', { issuer });
    await keepFresh(3_600_000);
    const expected = 3_600_000 / keyTiming.refreshMs;
    assert.ok(jwksRequests() >= expected && jwksRequests() <= expected * 1.5, `${jwksRequests()}`);
  });

  test('ends a key at once that the document does not have any more', async () => {
    const { create, issuer: at, keepFresh, ids } = await cacheSite();
    at('issuer.example').publish(issuer, { a: 0, b: 1 });
    await create('app1', { issuer });
    await keepFresh(minuteMs);
    assert.deepEqual(ids(), ['a', 'b']);
    at('issuer.example').keys({ b: 1 });
    await keepFresh(keyTiming.refreshMs);
    assert.deepEqual(ids(), ['b']);
  });

  test('finds a new key where a review asks for it', async () => {
    const { create, issuer: at, keys, cluster, clock, ids } = await cacheSite();
    at('issuer.example').publish(issuer, { a: 0 });
    await create('app1', { issuer });
    await answered(keys.refresh(cluster()), clock);
    at('issuer.example').keys({ a: 0, b: 1 });
    const set = await answered(keys.refresh(cluster()), clock);
    assert.equal(set.for('b').length, 1);
    assert.deepEqual(ids(), ['a', 'b']);
  });

  test('limits how often reviews with unknown keys can make it fetch', async () => {
    const { create, issuer: at, keys, cluster, clock, jwksRequests } = await cacheSite();
    at('issuer.example').publish(issuer, { a: 0 });
    await create('app1', { issuer });
    for (let second = 0; second < 60; second++) {
      for (let count = 0; count < 20; count++) await answered(keys.refresh(cluster()), clock);
      await clock.advance(1000);
    }
    assert.ok(jwksRequests() >= 6 && jwksRequests() <= 10, `${jwksRequests()}`);
  });

  test('limits each cluster by itself', async () => {
    const { create, issuer: at, keys, cluster, clock, fetches } = await cacheSite();
    at('issuer.example').publish(issuer, { a: 0 });
    await create('app1', { issuer });
    await create('app2', { issuer });
    for (let count = 0; count < 20; count++) await answered(keys.refresh(cluster('app1')), clock);
    await answered(keys.refresh(cluster('app2')), clock);
    assert.equal(fetches.at(-1), 'app2 ok');
  });

  test('fetches once more for a key that was added while a fetch was in flight', async () => {
    const { create, issuer: at, keys, cluster, clock, jwksRequests } = await cacheSite();
    const server = at('issuer.example');
    server.publish(issuer, { a: 0 });
    await create('app1', { issuer });
    await answered(keys.refresh(cluster()), clock);
    let release: () => void = () => undefined;
    const old = testJwks({ a: 0 });
    server.answers.set(jwksPath, async () => {
      await new Promise<void>((resolve) => (release = resolve));
      return { status: 200, body: old };
    });
    const first = keys.refresh(cluster());
    await clock.advance(0);
    // The first answer is on its way. The cluster rotates now.
    const [second, third] = [keys.refresh(cluster()), keys.refresh(cluster())];
    server.keys({ a: 0, b: 1 });
    release();
    assert.equal((await answered(first, clock)).for('b').length, 0);
    assert.equal((await answered(second, clock)).for('b').length, 1);
    assert.equal(await third, await second);
    assert.equal(jwksRequests(), 3);
  });

  test('fetches once more after a fetch in flight that ended in an unexpected error', async () => {
    const { create, issuer: at, keys, cluster, keepFresh, clock } = await cacheSite();
    const server = at('issuer.example');
    server.publish(issuer, { a: 0 });
    await create('app1', { issuer });
    await keepFresh(minuteMs);
    let fail: () => void = () => undefined;
    server.answers.set(jwksPath, async () => {
      await new Promise<void>((resolve) => (fail = resolve));
      throw new TypeError('a bug');
    });
    const first = keys.refresh(cluster());
    await clock.advance(0);
    const second = keys.refresh(cluster());
    server.keys({ a: 0, b: 1 });
    fail();
    await assert.rejects(answered(first, clock), /a bug/);
    assert.equal((await answered(second, clock)).for('b').length, 1);
  });
});

describe('the last good keys', () => {
  for (const [what, break_] of Object.entries({
    'an outage': { down: true },
    'an empty document': { body: '{"keys":[]}' },
    'a document of garbage': { body: '<html>' },
    'a document with private keys only': { body: '{"keys":[{"kty":"oct","k":"AA"}]}' },
    'a huge document': { body: ' '.repeat(1_000_000) },
    'a silent server': { silence: true },
    'a redirect': { status: 302 },
    'a server error': { status: 500 },
  } as Record<string, { down?: true; body?: string; silence?: true; status?: number }>)) {
    test(`survive ${what}, for a bounded time`, async () => {
      const { create, issuer: at, keepFresh, ids, keys, cluster, clock } = await cacheSite();
      const server = at('issuer.example');
      server.publish(issuer, { a: 0 });
      await create('app1', { issuer });
      await keepFresh(minuteMs);
      const { down, silence, status = 200, body = '' } = break_;
      server.down = down === true;
      server.answers.set(jwksPath, () => (silence ? 'silence' : { status, body }));
      await keepFresh(keyTiming.survivalMs - 10 * minuteMs);
      assert.deepEqual(ids(), ['a']);
      assert.equal(keys.stateOf(cluster())?.isStale, true);
      assert.notEqual(keys.stateOf(cluster())?.failure, undefined);
      // A token of another key is not denied: its key may be new.
      await assert.rejects(
        answered(keys.refresh(cluster()), clock, 30_000),
        (error) => hasCode(error, 'HANSA_UNAVAILABLE') && /newest keys/.test(String(error)),
      );
      assert.deepEqual(ids(), ['a']);
      await keepFresh(20 * minuteMs);
      assert.equal(ids(), undefined);
      await assert.rejects(
        answered(keys.refresh(cluster()), clock, 30_000),
        (error) => hasCode(error, 'HANSA_UNAVAILABLE') && /cluster app1/.test(String(error)),
      );
      server.down = false;
      server.keys({ b: 1 });
      await keepFresh(10 * minuteMs);
      assert.deepEqual(ids(), ['b']);
      assert.equal(keys.stateOf(cluster())?.failure, undefined);
    });
  }

  test('do not last longer where the wall clock is set back', async () => {
    const { create, issuer: at, keepFresh, ids, clock } = await cacheSite();
    at('issuer.example').publish(issuer, { a: 0 });
    await create('app1', { issuer });
    await keepFresh(minuteMs);
    at('issuer.example').down = true;
    clock.jumpWall(-48 * 3_600_000);
    await keepFresh(keyTiming.survivalMs + minuteMs);
    assert.equal(ids(), undefined);
  });

  test('do not end where the wall clock is set forward', async () => {
    const { create, issuer: at, keepFresh, ids, clock } = await cacheSite();
    at('issuer.example').publish(issuer, { a: 0 });
    await create('app1', { issuer });
    await keepFresh(minuteMs);
    clock.jumpWall(48 * 3_600_000);
    assert.deepEqual(ids(), ['a']);
  });

  test('are fetched at once with a new credential, if the last fetch failed', async () => {
    const {
      create,
      issuer: at,
      keepFresh,
      keys,
      cluster,
      clock,
      ids,
      jwksRequests,
    } = await cacheSite();
    const server = at('issuer.example');
    server.publish(issuer, { a: 0 });
    server.down = true;
    await create('app1', { issuer });
    await keepFresh(10 * minuteMs);
    server.down = false;
    await answered(keys.keepFresh(cluster()), clock);
    assert.equal(ids(), undefined);
    await answered(keys.keepFresh(cluster(), 7), clock);
    assert.deepEqual(ids(), ['a']);
    await answered(keys.keepFresh(cluster(), 8), clock);
    assert.equal(jwksRequests(), 1);
  });

  test('are kept by a change of the Cluster that is not about its keys', async () => {
    const { create, change, issuer: at, keys, cluster, clock, ids } = await cacheSite();
    at('issuer.example').publish(issuer, { a: 0 });
    await create('app1', { issuer });
    await answered(keys.refresh(cluster()), clock);
    at('issuer.example').down = true;
    await change('app1', (spec) => ({ ...spec, apiAudiences: ['x'] }));
    assert.deepEqual(ids(), ['a']);
  });

  test('are dropped where the Cluster gets another issuer', async () => {
    const { create, change, issuer: at, keys, cluster, clock, ids } = await cacheSite();
    at('issuer.example').publish(issuer, { a: 0 });
    await create('app1', { issuer });
    const before = cluster();
    await answered(keys.refresh(before), clock);
    await change('app1', (spec) => ({ ...spec, issuer: 'https://other.example' }));
    assert.equal(ids(), undefined);
    assert.equal(keys.current(before), undefined);
    await assert.rejects(answered(keys.refresh(before), clock), /changed or deleted/);
  });

  test('are dropped with the Cluster, also for its successor of the same name', async () => {
    const { create, remove, issuer: at, keys, cluster, clock, ids } = await cacheSite();
    at('issuer.example').publish(issuer, { a: 0 });
    await create('app1', { issuer });
    const before = cluster();
    await answered(keys.refresh(before), clock);
    await remove('app1');
    keys.prune();
    assert.equal(keys.current(before), undefined);
    await create('app1', { issuer });
    assert.equal(ids(), undefined);
    await assert.rejects(answered(keys.refresh(before), clock), /changed or deleted/);
  });

  test('of a fetch that ends after the deletion are dropped', async () => {
    const { create, remove, issuer: at, keys, cluster, clock } = await cacheSite();
    at('issuer.example').publish(issuer, { a: 0 });
    at('issuer.example').answers.set(jwksPath, () => 'silence');
    await create('app1', { issuer });
    const before = cluster();
    const fetch = keys.refresh(before);
    await clock.advance(0);
    await remove('app1');
    keys.prune();
    await assert.rejects(answered(fetch, clock, 30_000), /changed or deleted/);
    assert.equal(keys.current(before), undefined);
  });
});

describe('clusters that share an issuer', () => {
  test('have keys of their own', async () => {
    const { create, apiServer, keys, cluster, clock, ids } = await cacheSite();
    const shared = 'https://kubernetes.default.svc.cluster.local';
    for (const [name, number] of [
      ['app1', 1],
      ['app2', 2],
    ] as const) {
      apiServer(`${name}.example`).publish(shared, { [name]: number });
      await create(name, { issuer: shared, apiServer: `https://${name}.example` });
      await answered(keys.refresh(cluster(name)), clock);
    }
    assert.deepEqual(ids('app1'), ['app1']);
    assert.deepEqual(ids('app2'), ['app2']);
    assert.equal(keys.current(cluster('app1'))?.from, 'apiServer');
    assert.deepEqual(keys.sharedWith(cluster('app1')), []);
  });

  test('are reported where one publishes a key of the other, and answers do not change', async () => {
    const { create, remove, apiServer, keys, cluster, clock, ids } = await cacheSite();
    const shared = 'https://kubernetes.default.svc.cluster.local';
    for (const [name, published] of [
      ['app1', { a: 1 }],
      ['evil', { e: 2, a: 1 }],
      ['app3', { c: 3 }],
    ] as const) {
      apiServer(`${name}.example`).publish(shared, published);
      await create(name, { issuer: shared, apiServer: `https://${name}.example` });
      await answered(keys.refresh(cluster(name)), clock);
    }
    assert.deepEqual(keys.sharedWith(cluster('app1')), ['evil']);
    assert.deepEqual(keys.sharedWith(cluster('evil')), ['app1']);
    assert.deepEqual(keys.sharedWith(cluster('app3')), []);
    assert.deepEqual(ids('app1'), ['a']);
    await remove('evil');
    keys.prune();
    assert.deepEqual(keys.sharedWith(cluster('app1')), []);
  });
});

describe('a dead cluster', () => {
  test('does not delay the others', async () => {
    const { create, issuer: at, keys, cluster, clock, ids } = await cacheSite();
    at('dead.example').publish('https://dead.example', { x: 0 });
    at('dead.example').answers.set('/.well-known/openid-configuration', () => 'silence');
    at('issuer.example').publish(issuer, { a: 0 });
    const dead = Array.from({ length: 100 }, (_, number) => `dead${number}`);
    for (const name of dead) await create(name, { issuer: 'https://dead.example' });
    await create('app1', { issuer });
    const waiting = dead.map((name) =>
      keys.keepFresh(cluster(name)).then(
        () => undefined,
        () => undefined,
      ),
    );
    const fetch = keys.keepFresh(cluster('app1'));
    // Of a hundred silent ones, 32 begin at once, and others follow each half second.
    await clock.advance(2_000);
    assert.deepEqual(ids('app1'), ['a']);
    await fetch;
    await clock.advance(60_000);
    await Promise.all(waiting);
  });

  test('is asked less and less often', async () => {
    const { create, issuer: at, keepFresh } = await cacheSite();
    at('issuer.example').down = true;
    await create('app1', { issuer });
    await keepFresh(3_600_000);
    const asked = at('issuer.example').asked.length;
    assert.ok(asked >= 10 && asked <= 30, `${asked}`);
  });
});
