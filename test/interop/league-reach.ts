// Tests for the suite of federated Services in which clients call them: by name, through DNS, ClusterIP and TCP,
// with IPv4 and IPv6. North has IPv4 only, south both families, and west both with IPv6 first.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeCluster } from './kube-cluster.ts';
import type { League } from './league.ts';
import { clusterNames, shop, systemNamespace } from './league-members.ts';
import {
  createService,
  findService,
  globalAnnotation,
  publish,
  servicePath,
  slicesOf,
  untilCopies,
} from './league-services.ts';
import { backendText, type ReachScene } from './reach-scene.ts';

const global = (name: string) => ({ [globalAnnotation]: name });

export function reachTests(scene: () => League, reach: () => Promise<ReachScene>): void {
  const clusters = () => scene().clusters;
  const all = (): readonly KubeCluster[] => clusterNames.map((name) => clusters()[name]);

  test('an annotated Service is found by its name and reached by TCP in all clusters', async (t) => {
    const { north, south } = clusters();
    const clients = await reach();
    await publish(south, 'echo', clients.addresses, { annotations: {} });
    const begun = performance.now();
    await south.send('PATCH', servicePath(shop, 'echo'), {
      metadata: { annotations: global('echo') },
    });
    const answers = await clients.callAll('echo');
    const took = performance.now() - begun;
    assert.deepEqual(answers, [backendText, backendText, backendText]);
    t.diagnostic(`reached in all clusters ${took.toFixed(0)} ms after the annotation`);
    if (clients.addresses.length === 1) return t.diagnostic('the kernel has no IPv6');
    for (const caller of clients.callers.filter(({ cluster }) => cluster !== north)) {
      assert.equal(await caller.call('echo', systemNamespace, 6), backendText);
    }
  });

  test('a copy has an address of each family that its cluster has', async () => {
    const { north, south, west } = clusters();
    await publish(north, 'families', ['10.1.14.1', 'fd00:1::14']);
    await untilCopies(all(), 'families', ['10.1.14.1:8080', 'fd00:1::14:8080']);
    const familiesIn = async (cluster: KubeCluster): Promise<readonly string[]> => {
      const copy = await findService(cluster, systemNamespace, 'families');
      return (copy?.spec.clusterIPs ?? []).map((each) => (each.includes(':') ? 'IPv6' : 'IPv4'));
    };
    assert.deepEqual(await familiesIn(north), ['IPv4']);
    assert.deepEqual(await familiesIn(south), ['IPv4', 'IPv6']);
    assert.deepEqual(await familiesIn(west), ['IPv6', 'IPv4']);
    for (const cluster of all()) {
      const slices = await slicesOf(cluster, systemNamespace, 'families');
      assert.deepEqual(
        slices.map(({ addressType }) => addressType).toSorted(),
        ['IPv4', 'IPv6'],
        cluster.name,
      );
    }
  });

  test('IPv6 addresses of nodes, load balancers, external IPs and NativeServices are endpoints', async () => {
    const { north, south, west } = clusters();
    await west.create('/api/v1/nodes', {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'dual' },
    });
    await west.send('PATCH', '/api/v1/nodes/dual/status', {
      status: {
        addresses: [
          { type: 'InternalIP', address: '10.3.15.1' },
          { type: 'InternalIP', address: 'fd00:3::15' },
        ],
        conditions: [{ type: 'Ready', status: 'True' }],
      },
    });
    const portOf = async (name: string, spec: object): Promise<number> => {
      const service = await createService(west, name, {
        annotations: global(name),
        spec: { type: 'NodePort', ...spec },
      });
      return service.spec.ports[0]?.nodePort ?? 0;
    };
    const single = await portOf('single', { ipFamilies: ['IPv6'], ipFamilyPolicy: 'SingleStack' });
    const dual = await portOf('dual', { ipFamilyPolicy: 'RequireDualStack' });
    await createService(west, 'outside', {
      annotations: global('outside'),
      spec: { externalIPs: ['fd00:3::16'] },
    });
    await createService(west, 'balancer', {
      annotations: global('balancer'),
      spec: { type: 'LoadBalancer' },
    });
    await west.send('PATCH', `${servicePath(shop, 'balancer')}/status`, {
      status: { loadBalancer: { ingress: [{ ip: 'fd00:3::17' }] } },
    });
    await west.create(`/apis/clusters.hansa.dev/v1alpha1/namespaces/${shop}/nativeservices`, {
      apiVersion: 'clusters.hansa.dev/v1alpha1',
      kind: 'NativeService',
      metadata: { name: 'machine', annotations: global('machine') },
      spec: { networkInterfaces: [{ internalIP: 'fd00:3::18' }], ports: [{ port: 5432 }] },
    });
    const others = [north, south];
    // kube-proxy opens the port only in the families of the Service.
    await untilCopies(others, 'single', [`fd00:3::15:${single}`]);
    await untilCopies(others, 'dual', [`10.3.15.1:${dual}`, `fd00:3::15:${dual}`]);
    await untilCopies(others, 'outside', ['fd00:3::16:80']);
    await untilCopies(others, 'balancer', ['fd00:3::17:80']);
    await untilCopies(others, 'machine', ['fd00:3::18:5432']);
    await west.send('DELETE', '/api/v1/nodes/dual');
  });
}
