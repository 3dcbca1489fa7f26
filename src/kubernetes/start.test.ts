import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { settle, VirtualClock } from '../core/clock/virtual.ts';
import { SeededRandom } from '../core/clock/seeded-random.ts';
import { silentLog } from '../core/log/test-log.ts';
import { MetricsRegistry } from '../core/metrics/registry.ts';
import type { PlaneContext } from '../core/plane/plane.ts';
import { testRuntime } from '../core/reconcile/test-runtime.ts';
import { openStore } from '../core/store/open.ts';
import { TrustDomain } from '../api/values/trust-domain.ts';
import { TestCluster } from './members/test-cluster.ts';
import { startKubernetes } from './start.ts';
import { noNames } from './dns/test-names.ts';
import { noPolicies } from './policies/test-policy-settings.ts';

async function setUp() {
  const clock = new VirtualClock();
  const random = new SeededRandom('start');
  const metrics = new MetricsRegistry();
  const store = await openStore({ driver: 'memory' }, { clock });
  const connected: { readonly generation: number; readonly client: TestCluster }[] = [];
  const context = {
    clock,
    random,
    metrics,
    store,
    log: silentLog,
    trustDomain: TrustDomain.parse('lubeck.example'),
    connectCluster: ({ metadata }: { readonly metadata: { readonly generation: number } }) => {
      const client = new TestCluster('home');
      connected.push({ generation: metadata.generation, client });
      return client;
    },
  } as unknown as PlaneContext;
  const plane = await startKubernetes(context, {
    namespace: 'hansa-system',
    leaseSeconds: 15,
    unreachableSeconds: 10,
    multiClusterServices: true,
    dns: noNames,
    policies: noPolicies,
    spire: { isEnabled: false, serverImage: 'spire:1', sidecarImage: undefined },
  });
  plane.hostControllers?.(testRuntime({ clock, random, metrics, store }));
  const put = async (spec: object, generation = 1, status: object = {}): Promise<void> => {
    const object = {
      metadata: { name: 'app1', uid: 'u', generation },
      spec: { issuer: 'x', ...spec },
      status,
    };
    await store.commit({
      put: [
        {
          collection: 'clusters',
          name: 'app1',
          encode: () => Buffer.from(JSON.stringify(object)),
        },
      ],
    });
    await loaded();
  };
  /** The code of the league is loaded from the disk. */
  const loaded = async (): Promise<void> => {
    await import('./league/league.ts');
    await settle();
    await clock.advance(0);
  };
  return { clock, store, plane, connected, put, loaded };
}

const home = { local: true, apiServer: 'https://home.example' };

describe('the kubernetes plane', () => {
  test('connects nothing without a local Cluster that has an API server', async () => {
    const { put, connected, plane } = await setUp();
    await put({ apiServer: 'https://other.example' }, 1);
    await put({ local: true }, 2);
    assert.deepEqual(connected, []);
    await plane.stop();
  });

  test('follows the local Cluster from its creation on, and each version of its spec', async () => {
    const { clock, put, connected, plane } = await setUp();
    await put(home);
    await put(home, 1, { mode: 'jwks' });
    assert.deepEqual(
      connected.map(({ generation }) => generation),
      [1],
    );
    await put({ ...home, tlsServerName: 'x' }, 2);
    await clock.advance(1000);
    assert.deepEqual(
      connected.map(({ generation, client }) => [generation, client.isClosed]),
      [
        [1, true],
        [2, false],
      ],
    );
    await plane.stop();
    assert.ok(connected.every(({ client }) => client.isClosed));
  });

  test('ends with the local Cluster', async () => {
    const { clock, store, put, loaded, connected } = await setUp();
    await put(home);
    await store.commit({ delete: [{ collection: 'clusters', name: 'app1' }] });
    await loaded();
    await clock.advance(60_000);
    assert.equal(connected[0]?.client.isClosed, true);
    const requests = connected[0]?.client.requests.length;
    await clock.advance(600_000);
    assert.equal(connected[0]?.client.requests.length, requests);
  });
});
