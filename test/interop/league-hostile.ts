// Tests of bad input for the suite of federated Services: objects that break rules, Services that claim names of
// others, members that lie, and endpoints that flap. None of it harms another member.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../e2e/until.ts';
import type { KubeCluster } from './kube-cluster.ts';
import type { League } from './league.ts';
import {
  type ClusterName,
  clusterNames,
  federate,
  shop,
  systemNamespace,
} from './league-members.ts';
import {
  copyIn,
  createService,
  findService,
  globalAnnotation,
  namespacedAnnotation,
  publish,
  servicePath,
  setEndpoints,
  untilCopies,
  untilReason,
} from './league-services.ts';

const group = '/apis/clusters.hansa.dev/v1alpha1';

export function hostileTests(scene: () => League): void {
  const clusters = () => scene().clusters;
  const all = (): readonly KubeCluster[] => clusterNames.map((name) => clusters()[name]);
  const untilState = async (name: ClusterName, state: string, reason: string): Promise<void> => {
    let seen: unknown;
    for (const site of scene().sites.values()) {
      await until(
        async () => {
          const member = (await site.members()).get(name);
          seen = member;
          return member?.state === state && member.reason === reason;
        },
        () => `${site.name} sees ${name} as ${state} ${reason}, not ${JSON.stringify(seen)}`,
      );
    }
  };
  const refuses = async (method: string, path: string, body: object): Promise<string> => {
    const { status, text } = await clusters().west.client.send({
      method,
      path,
      body: JSON.stringify(body),
      ...(method === 'PATCH' && { headers: { 'content-type': 'application/merge-patch+json' } }),
    });
    assert.equal(status, 422, text);
    return text;
  };

  test('a Service whose annotations are wrong says so, and has no copy', async () => {
    const { north } = clusters();
    for (const [name, annotations, reason] of [
      ['illegal', { [globalAnnotation]: '../Up' }, 'IllegalName'],
      ['long', { [globalAnnotation]: 'x'.repeat(64) }, 'IllegalName'],
      [
        'torn',
        { [globalAnnotation]: 'torn-a', [namespacedAnnotation]: 'torn-b' },
        'ConflictingAnnotations',
      ],
    ] as const) {
      await publish(north, name, ['10.1.100.1'], { annotations });
      await untilReason(north, name, `False ${reason}`);
    }
    for (const cluster of all()) {
      assert.equal(await copyIn(cluster, 'torn-a'), undefined);
      assert.equal(await copyIn(cluster, 'torn-b', shop), undefined);
    }
  });

  test('Services that claim the names of each other get copies only where the names are free', async () => {
    const { north, south, west } = clusters();
    await publish(north, 'castor', ['10.1.101.1'], { annotations: {} });
    const own = await publish(north, 'pollux', ['10.1.101.2'], { annotations: {} });
    for (const [name, claimed] of [
      ['castor', 'pollux'],
      ['pollux', 'castor'],
    ] as const) {
      await north.send('PATCH', servicePath(shop, name), {
        metadata: { annotations: { [namespacedAnnotation]: claimed } },
      });
    }
    await untilCopies([south, west], 'pollux', ['10.1.101.1:8080'], shop);
    await untilCopies([south, west], 'castor', ['10.1.101.2:8080'], shop);
    assert.equal((await findService(north, shop, 'pollux'))?.metadata.uid, own.metadata.uid);
    assert.equal(await copyIn(north, 'pollux', shop), undefined);
  });

  test('claims, Federation and NativeServices that break rules are refused', async () => {
    const claim = (name: string, value: string, key = name.toLowerCase()) => ({
      apiVersion: 'clusters.hansa.dev/v1alpha1',
      kind: 'ClusterClaim',
      metadata: { name: key },
      spec: { name, value },
    });
    await refuses('POST', `${group}/clusterclaims`, claim('zone', 'a', 'other'));
    await refuses('PATCH', `${group}/clusterclaims/id.k8s.io`, { spec: { value: 'West!' } });
    await refuses('PATCH', `${group}/clusterclaims/id.k8s.io`, { spec: { name: 'id2.k8s.io' } });
    const federation = { apiVersion: 'clusters.hansa.dev/v1alpha1', kind: 'Federation' };
    await refuses('POST', `${group}/federations`, {
      ...federation,
      metadata: { name: 'second' },
      spec: { clusterSet: 'hanse' },
    });
    for (const member of [
      { clusterID: 'Upper' },
      { clusterID: 'a', server: 'http://plain.example' },
      { clusterID: 'a', endpointPrefixes: ['10.1.0.0'] },
      { clusterID: 'a', endpointPrefixes: ['10.1.0.0/33'] },
    ]) {
      await refuses('PATCH', `${group}/federations/federation`, { spec: { members: [member] } });
    }
    await refuses('POST', `${group}/namespaces/${shop}/nativeservices`, {
      apiVersion: 'clusters.hansa.dev/v1alpha1',
      kind: 'NativeService',
      metadata: { name: 'nowhere' },
      spec: { networkInterfaces: [{}], ports: [{ port: 80 }] },
    });
  });

  test('a member that says it is another cluster is refused, and its endpoints go', async () => {
    const { north, south, west } = clusters();
    await createService(west, 'liar', {
      annotations: { [globalAnnotation]: 'liar' },
      spec: { externalIPs: ['10.3.102.1'] },
    });
    await untilCopies([north, south], 'liar', ['10.3.102.1:80']);
    const path = `${group}/clusterclaims/id.k8s.io`;
    // The admission policy keeps the ID while there is a Federation.
    await refuses('PATCH', path, { spec: { value: 'north' } });
    await west.send('DELETE', `${group}/federations/federation`);
    await until(
      () =>
        west.send('PATCH', path, { spec: { value: 'north' } }).then(
          () => true,
          () => false,
        ),
      'the ID changes',
    );
    await untilState('west', 'Refused', 'ClusterIDMismatch');
    await untilCopies([north, south], 'liar', undefined);
    // The others go on.
    await publish(north, 'honest', ['10.1.102.1']);
    await untilCopies([north, south], 'honest', ['10.1.102.1:8080']);
    await west.send('PATCH', path, { spec: { value: 'west' } });
    await federate(west, []);
    await scene().ready();
    await untilCopies([north, south], 'liar', ['10.3.102.1:80']);
    await untilCopies([west], 'honest', ['10.1.102.1:8080']);
  });

  test('of two members with one server, the one with the ID of the cluster stays', async () => {
    const { south } = clusters();
    const bruges = scene().site('bruges');
    const server = bruges.serverOf('west');
    await federate(
      south,
      clusterNames,
      new Map([
        ['west', { server }],
        ['north', { server, secret: 'missing' }],
      ]),
    );
    await until(
      async () => (await bruges.members()).get('north')?.reason === 'DuplicateServer',
      'bruges refuses north',
    );
    assert.equal((await bruges.members()).get('west')?.state, 'Ready');
    await federate(south, clusterNames);
    await scene().ready();
  });

  test('a thousand endpoints that flap end as they are at last, and delay no other Service', async () => {
    const { north, south, west } = clusters();
    const addresses = Array.from(
      { length: 1000 },
      (_, at) => `10.1.${110 + (at >> 8)}.${at & 255}`,
    );
    await publish(north, 'flapping', addresses.slice(0, 500));
    for (let round = 0; round < 20; round++) {
      await setEndpoints(north, 'flapping', addresses.slice(round % 2 === 0 ? 500 : 0, 1000));
    }
    await publish(north, 'calm', ['10.1.120.1']);
    await untilCopies(all(), 'calm', ['10.1.120.1:8080']);
    const last = addresses.slice(100, 350);
    await setEndpoints(north, 'flapping', last);
    await untilCopies(
      [south, west],
      'flapping',
      last.map((address) => `${address}:8080`),
    );
    const slices = await west.get<{
      readonly items: readonly { readonly endpoints?: unknown[] }[];
    }>(
      `/apis/discovery.k8s.io/v1/namespaces/${systemNamespace}/endpointslices?labelSelector=${encodeURIComponent('kubernetes.io/service-name=flapping')}`,
    );
    for (const { endpoints = [] } of slices.items) assert.ok(endpoints.length <= 100);
  });
}
