import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { paths, type TestCluster } from './test-cluster.ts';
import { testLeague } from './test-league.ts';

const limits = { maxObjects: 1000, maxBytes: 100_000, maxValues: 5000 };

function setUp() {
  const league = testLeague(['app1', 'app2'], { limits });
  const cluster = league.clusters.get('https://app1.example') as TestCluster;
  league.list('app1', 'app2');
  const start = async (): Promise<void> => {
    league.members.start();
    await league.clock.advance(0);
  };
  return { ...league, cluster, start };
}

const service = (name: string, annotations: object) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, namespace: 'shop', annotations },
  spec: { ports: [{ port: 80 }] },
});
/** About 200 fields and items remain of it. */
const slice = (name: string) => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: { name, namespace: 'shop' },
  addressType: 'IPv4',
  endpoints: [{ addresses: Array.from({ length: 100 }, () => '10.1.0.1') }],
});
const node = (name: string) => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name },
  status: {
    addresses: Array.from({ length: 50 }, () => ({ type: 'InternalIP', address: '10.0.0.1' })),
  },
});

describe('what a site holds of one member', () => {
  test('does not count annotations that nobody uses, however large they are', async () => {
    const { cluster, stateOf, members, start } = setUp();
    for (let at = 0; at < 20; at++) {
      cluster.put(paths.services, service(`s-${at}`, { 'example.com/x': 'x'.repeat(250 * 1024) }));
    }
    await start();
    assert.equal(stateOf('app1'), 'Ready');
    assert.equal([...(members.get('app1')?.services.objects() ?? [])].length, 20);
  });

  test('is limited over all collections, and a member with more delays no other', async () => {
    const { cluster, clock, stateOf, members, start } = setUp();
    for (let at = 0; at < 18; at++) {
      cluster.put(paths.slices, slice(`slice-${at}`));
      cluster.put(paths.nodes, node(`node-${at}`));
    }
    await start();
    await clock.advance(20_000);
    assert.deepEqual([stateOf('app1'), stateOf('app2')], ['Unreachable TooLarge', 'Ready']);
    assert.match(members.get('app1')?.state.message ?? '', /all collections of the cluster/);
    for (let at = 0; at < 18; at++) cluster.remove(paths.nodes, `node-${at}`);
    await clock.advance(600_000);
    assert.equal(stateOf('app1'), 'Ready');
  });
});
