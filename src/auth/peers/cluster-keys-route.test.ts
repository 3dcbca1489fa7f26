import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { LivePeer, PeerDirectory } from '../../core/plane/route.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { TestDirectory, testCluster } from '../clusters/test-reviewed-clusters.ts';
import { testJwks } from '../clusters/test-clusters.ts';
import type { KeySet } from '../keys/cluster-keys.ts';
import { keySetOf, readJwks } from '../keys/jwks.ts';
import { clusterKeysRoute, keysLimit, refreshAfterMs } from './cluster-keys-route.ts';

const peer: LivePeer = {
  name: 'lubeck.example',
  uid: 'u1',
  trustDomain: TrustDomain.parse('lubeck.example'),
};

function scene() {
  const clock = new VirtualClock();
  const needs: unknown[] = [];
  const of = { trustDomain: 'novgorod.example', cluster: 'x', prefix: 'x.novgorod.example:' };
  const clusters = new TestDirectory(testCluster('app1'), testCluster('far', { peer: of }));
  const held = { keys: undefined as KeySet | undefined, refreshed: 0, hangs: false };
  const fetched = (ids: Record<string, number>): KeySet =>
    keySetOf(readJwks(Buffer.from(testJwks(ids))).keys, {
      fetchedAtMs: clock.now(),
      from: 'apiServer',
    });
  const route = clusterKeysRoute({
    clusters,
    clock,
    keys: {
      current: () => held.keys,
      refresh: async () => {
        held.refreshed++;
        if (held.hangs) await new Promise(() => undefined);
        return held.keys ?? assert.fail('no keys');
      },
    },
  });
  const peers: PeerDirectory = {
    find: () => peer,
    lacks: (_peer, need) => {
      needs.push(need);
      return undefined;
    },
    refuse: () => assert.fail(),
    deny: () => assert.fail(),
    onChange: () => () => undefined,
  };
  const ask = async (cluster = 'app1') => {
    const response = await callRoute(route, { params: { cluster } }, { peers });
    return JSON.parse(String(response.body)) as {
      readonly cluster: string;
      readonly issuer: string;
      readonly ageSeconds: number;
      readonly keys: readonly { readonly kid: string }[];
    };
  };
  return { clock, held, fetched, ask, needs };
}

suite('a peer that asks for the keys of a cluster', () => {
  test('gets public keys with their names and age, under a grant for that cluster', async () => {
    const { held, fetched, ask, needs, clock } = scene();
    held.keys = fetched({ a: 0 });
    await clock.advance(1500);
    const { cluster, issuer, ageSeconds, keys } = await ask();
    assert.deepEqual([cluster, issuer, ageSeconds], ['app1', testCluster('app1').issuer, 2]);
    assert.deepEqual(Object.keys(keys[0] ?? {}).toSorted(), ['crv', 'kid', 'kty', 'x', 'y']);
    assert.deepEqual(needs[0], { scope: 'read', target: { type: 'cluster', name: 'app1' } });
  });

  test('gets nothing about a cluster of another peer, or one that is not registered', async () => {
    const { ask, held, fetched } = scene();
    held.keys = fetched({ a: 0 });
    for (const name of ['far', 'none']) {
      await assert.rejects(ask(name), (error) => hasCode(error, 'HANSA_NOT_FOUND'));
    }
  });

  test('gets newer keys where those of this site are old, once in a while for all peers', async () => {
    const { clock, held, fetched, ask } = scene();
    held.keys = fetched({ a: 0 });
    await ask();
    assert.equal(held.refreshed, 0);
    await clock.advance(refreshAfterMs + 1);
    await ask();
    await ask();
    assert.equal(held.refreshed, 1);
    await clock.advance(refreshAfterMs);
    await ask();
    assert.equal(held.refreshed, 2);
  });

  test('gets the keys of before while a fetch hangs, and 503 where there are none', async () => {
    const { clock, held, fetched, ask } = scene();
    held.keys = fetched({ a: 0 });
    held.hangs = true;
    await clock.advance(refreshAfterMs + 1);
    const waiting = ask();
    await clock.advance(5_000);
    assert.equal((await waiting).keys[0]?.kid, 'a');
    held.keys = undefined;
    await assert.rejects(ask(), (error) => hasCode(error, 'HANSA_UNAVAILABLE'));
  });

  test('is limited', async () => {
    const { clock, held, fetched, ask } = scene();
    held.keys = fetched({ a: 0 });
    for (let asked = 0; asked < keysLimit.burst; asked++) await ask();
    await assert.rejects(ask(), (error) => hasCode(error, 'HANSA_TOO_MANY_REQUESTS'));
    await clock.advance(1000);
    await ask();
  });
});
