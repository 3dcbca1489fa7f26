import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { anonymous } from '../../core/access/identity.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { hasCode } from '../../core/errors/error.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import type { KeySet } from '../keys/cluster-keys.ts';
import { clusterSite } from '../clusters/test-clusters.ts';
import { examineRoute, type ExamineRouteParts } from './examine-route.ts';

async function routeOf(refresh: () => Promise<KeySet>) {
  const { store, directory, create } = await clusterSite();
  await create('app1', { issuer: 'https://issuer.example' });
  const parts: ExamineRouteParts = {
    store,
    clusters: directory,
    clock: new VirtualClock(),
    lookUp: async () => [],
    keys: { current: () => undefined, refresh },
    reviewer: {
      review: () => ({ authenticated: false }),
    },
    credentialsOf: () => ({ renew: undefined, current: () => ({ type: 'none' }) }),
  };
  const route = examineRoute(parts);
  return (name: string) => callRoute(route, { caller: anonymous, params: { name } });
}

const keys = { keys: [], from: 'issuer', fetchedAtMs: 0 } as unknown as KeySet;

suite('the route that examines a cluster', () => {
  test('answers with findings', async () => {
    const examine = await routeOf(async () => keys);
    const { findings } = JSON.parse(String((await examine('app1')).body)) as {
      readonly findings: readonly { readonly check: string }[];
    };
    assert.deepEqual(
      findings.map(({ check }) => check),
      ['API server', 'keys', 'review'],
    );
  });

  test('refuses an unknown cluster', async () => {
    const examine = await routeOf(async () => keys);
    await assert.rejects(examine('app9'), (error) => hasCode(error, 'HANSA_UNKNOWN_CLUSTER'));
  });

  test('examines four at a time, and more after one has ended', async () => {
    let release = (_keys: KeySet): void => undefined;
    const waiting = new Promise<KeySet>((resolve) => {
      release = resolve;
    });
    const examine = await routeOf(() => waiting);
    const four = [1, 2, 3, 4].map(() => examine('app1'));
    await assert.rejects(examine('app1'), (error) => hasCode(error, 'HANSA_TOO_MANY_REQUESTS'));
    release(keys);
    await Promise.all(four);
    assert.equal((await examine('app1')).status, 200);
  });
});
