// Federated Services on three real clusters with two supervisors: every spelling and every type is found in
// all members, by the rules of the requirement. Copies are repaired, and users' objects stay theirs.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, suite, test } from 'node:test';
import { memberAnnotations } from '../../src/kubernetes/names.ts';
import { whyNoHosts } from '../e2e/separate-host.ts';
import { until } from '../e2e/until.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import type { KubeCluster } from './kube-cluster.ts';
import { League, leagueTools } from './league.ts';
import { awayTests } from './league-away.ts';
import { hostileTests } from './league-hostile.ts';
import { machineTests } from './league-machines.ts';
import { meshTests } from './league-meshes.ts';
import { reachTests } from './league-reach.ts';
import { clusterNames, shop, systemNamespace } from './league-members.ts';
import {
  copyIn,
  createService,
  findService,
  globalAnnotation,
  namespacedAnnotation,
  publish,
  reasonOf,
  servicePath,
  type ServiceObject,
  setEndpoints,
  slicesOf,
  slicesPath,
  untilCopies,
  untilReason,
} from './league-services.ts';
import { ReachScene } from './reach-scene.ts';
import { missingTools } from './tool.ts';

const skip =
  whyNoHosts() ||
  (spawnSync('nft', ['--version']).error !== undefined && 'SKIPPED: no nft here') ||
  (await missingTools(...leagueTools, 'kwok', 'kube-proxy', 'coredns'));

suite('federated Services of three clusters', { skip }, () => {
  let etcd: Etcd;
  let league: League;
  let north: KubeCluster;
  let south: KubeCluster;
  let west: KubeCluster;
  let all: readonly KubeCluster[];
  let reaching: Promise<ReachScene> | undefined;
  const reach = (): Promise<ReachScene> => (reaching ??= ReachScene.start(league.clusters));

  before(async () => {
    etcd = await startEtcd();
    league = await League.start({
      etcd,
      clusters: {
        north: { nodes: 1, hasProxy: true, hasDns: true },
        south: { hasProxy: true, hasDns: true, serviceRange: '10.0.0.0/24,fd00:10::/112' },
        west: {
          hasProxy: true,
          hasDns: true,
          serviceRange: 'fd00:10::/112,10.0.0.0/24',
          // Of the first family of ClusterIPs.
          flags: ['--advertise-address=fd00::1'],
        },
      },
    });
    ({ north, south, west } = league.clusters);
    all = clusterNames.map((name) => league.clusters[name]);
  });
  after(async () => {
    await (await reaching)?.stop();
    await league?.stop();
    await etcd?.stop();
  });

  const global = (name: string) => ({ [globalAnnotation]: name });
  const remove = (cluster: KubeCluster, path: string): Promise<unknown> =>
    cluster.send('DELETE', path);
  /** Resolves when the leader of this cluster has done all that it had to do before. */
  let barriers = 0;
  const settled = async (cluster: KubeCluster): Promise<void> => {
    const name = `barrier-${++barriers}`;
    await publish(north, name, ['10.1.250.1']);
    await untilCopies([cluster], name, ['10.1.250.1:8080']);
  };

  test('every member has a leader, and both supervisors say which', async () => {
    for (const site of league.sites.values()) {
      const members = await site.members();
      assert.deepEqual([...members.keys()].toSorted(), [...clusterNames]);
      for (const name of clusterNames) {
        const lease = await league.lease(name);
        const { leader, epoch } = members.get(name) ?? {};
        assert.deepEqual({ holder: leader, epoch }, lease);
        assert.ok((epoch ?? 0) > 0);
      }
    }
  });

  test('every spelling of the global annotation makes a Service that all members have', async () => {
    for (const [at, key] of memberAnnotations.global.entries()) {
      const annotations = { [key]: `global-${at}` };
      await publish(north, `of-north-${at}`, [`10.1.1.${at + 1}`], { annotations });
    }
    for (const at of memberAnnotations.global.keys()) {
      await untilCopies(all, `global-${at}`, [`10.1.1.${at + 1}:8080`]);
    }
  });

  test('every spelling of the namespaced annotation makes one in the same namespace', async () => {
    for (const [at, key] of memberAnnotations.namespaced.entries()) {
      const annotations = { [key]: `spelled-${at}` };
      await publish(south, `of-south-${at}`, [`10.2.1.${at + 1}`], { annotations });
    }
    for (const at of memberAnnotations.namespaced.keys()) {
      await untilCopies(all, `spelled-${at}`, [`10.2.1.${at + 1}:8080`], shop);
    }
    assert.equal(await copyIn(west, 'spelled-0'), undefined);
  });

  test('a copy is of type ClusterIP, and its slices name their origin and no node', async () => {
    const service = await findService(west, systemNamespace, 'global-0');
    assert.match(String(service?.spec.clusterIPs), /^fd00:10::\w+,10\.0\.0\./);
    assert.equal(service?.spec.selector, undefined);
    const [slice, ...others] = await slicesOf(west, systemNamespace, 'global-0');
    assert.equal(others.length, 0);
    const key = 'cluster.federated.antreaplus.vmware-tanzu.com';
    assert.deepEqual(
      [slice?.metadata.labels?.[key], slice?.metadata.annotations?.[key]],
      ['north', 'north'],
    );
    const [endpoint] = slice?.endpoints ?? [];
    assert.deepEqual(Object.keys(endpoint ?? {}).toSorted(), ['addresses', 'conditions']);
  });

  test('pods of a ClusterIP or headless Service are endpoints where their cluster is routable', async () => {
    for (const [name, spec] of [
      ['pods', {}],
      ['headless', { clusterIP: 'None' }],
    ] as const) {
      await createService(north, name, {
        annotations: global(name),
        spec: { ...spec, selector: { app: name }, ports: [{ port: 80, targetPort: 7070 }] },
      });
      const address = name === 'pods' ? '10.1.2.1' : '10.1.2.2';
      await north.addPod({ namespace: shop, name, labels: { app: name }, address });
      await untilCopies(all, name, [`${address}:7070`]);
      await untilReason(north, name, 'True Federated');
    }
    await remove(north, `/api/v1/namespaces/${shop}/pods/pods`);
    await untilCopies(all, 'pods', []);
  });

  test('pods of a cluster that is not routable stay in it, with a condition', async () => {
    await publish(west, 'unroutable', ['10.3.1.1']);
    await untilReason(west, 'unroutable', 'False NotRoutable');
    await untilCopies([west], 'unroutable', ['10.3.1.1:8080']);
    await untilCopies([north, south], 'unroutable', []);
  });

  test('external IPs and addresses of nodes with node ports are endpoints', async () => {
    await createService(west, 'external', {
      annotations: global('external'),
      spec: { externalIPs: ['10.3.2.1', '10.3.2.2'] },
    });
    await untilCopies([north, south], 'external', ['10.3.2.1:80', '10.3.2.2:80']);
    for (const [at, type] of ['InternalIP', 'ExternalIP'].entries()) {
      const node = `node-${at}`;
      await west.create('/api/v1/nodes', {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name: node },
      });
      await west.send('PATCH', `/api/v1/nodes/${node}/status`, {
        status: {
          addresses: [
            { type: 'InternalIP', address: `10.3.3.${at + 1}` },
            ...(type === 'ExternalIP' ? [{ type, address: '10.3.3.200' }] : []),
          ],
          conditions: [{ type: 'Ready', status: 'True' }],
        },
      });
    }
    const { spec } = await createService(west, 'ports', {
      annotations: global('ports'),
      // By default it has the first family of west, and kube-proxy opens its port only in that one.
      spec: { type: 'NodePort', ipFamilies: ['IPv4'] },
    });
    const nodePort = spec.ports[0]?.nodePort ?? 0;
    const nodes = [`10.3.3.1:${nodePort}`, `10.3.3.200:${nodePort}`];
    await untilCopies([north, south], 'ports', nodes);
    await remove(west, '/api/v1/nodes/node-0');
    await untilCopies([north, south], 'ports', nodes.slice(1));
    await remove(west, '/api/v1/nodes/node-1');
  });

  test('a load balancer is an endpoint by its IP or the addresses of its name', async () => {
    const balance = async (name: string, ingress: object): Promise<void> => {
      await west.send('PATCH', `${servicePath(shop, name)}/status`, {
        status: { loadBalancer: { ingress: [ingress] } },
      });
    };
    for (const name of ['balanced', 'named']) {
      await createService(west, name, {
        annotations: global(name),
        spec: { type: 'LoadBalancer' },
      });
      await untilReason(west, name, 'False NoLoadBalancer');
    }
    await balance('balanced', { ip: '10.3.4.1' });
    await untilCopies([north, south], 'balanced', ['10.3.4.1:80']);
    // A name that every resolver of the C library knows, without a name server: 10.3.4.2.
    await balance('named', { hostname: '0x0a030402' });
    await untilCopies([north, south], 'named', ['10.3.4.2:80']);
  });

  test('a NativeService gives its external address, else its internal one', async () => {
    await west.create(`/apis/clusters.hansa.dev/v1alpha1/namespaces/${shop}/nativeservices`, {
      apiVersion: 'clusters.hansa.dev/v1alpha1',
      kind: 'NativeService',
      metadata: { name: 'cloud', annotations: global('cloud') },
      spec: {
        networkInterfaces: [
          { externalIP: '10.3.5.1', internalIP: '10.3.5.9' },
          { internalIP: '10.3.5.2' },
        ],
        ports: [{ name: 'db', port: 5432 }],
      },
    });
    await untilCopies([north, south], 'cloud', ['10.3.5.1:5432', '10.3.5.2:5432']);
    assert.deepEqual((await copyIn(north, 'cloud'))?.ports, ['db:5432/TCP']);
  });

  test('an ExternalName is left out, with a reason', async () => {
    await createService(north, 'elsewhere', {
      annotations: global('elsewhere'),
      spec: { type: 'ExternalName', externalName: 'example.org' },
    });
    await untilReason(north, 'elsewhere', 'False ExternalName');
    for (const cluster of all) await settled(cluster);
    for (const cluster of all) assert.equal(await copyIn(cluster, 'elsewhere'), undefined);
  });

  test('members may have different target ports', async () => {
    await publish(north, 'targets', ['10.1.6.1'], { targetPort: 1111 });
    await publish(south, 'targets', ['10.2.6.1'], { targetPort: 2222 });
    await untilCopies([west], 'targets', ['10.1.6.1:1111', '10.2.6.1:2222']);
  });

  test('in a conflict of ports the older member wins in all clusters, with a condition', async () => {
    const spec = (port: number) => ({ ports: [{ name: 'http', port }] });
    const older = await publish(south, 'clash', ['10.2.7.1'], { spec: spec(80) });
    const second = Date.parse(older.metadata.creationTimestamp);
    // Without this, both are of one second, and north wins by its name.
    await until(() => Date.now() >= second + 1000);
    await publish(north, 'clash', ['10.1.7.1'], { spec: spec(81) });
    await untilReason(north, 'clash', 'False PortConflict');
    await untilCopies(all, 'clash', ['10.2.7.1:8080']);
    for (const cluster of all) {
      assert.deepEqual((await copyIn(cluster, 'clash'))?.ports, ['http:80/TCP'], cluster.name);
    }
    assert.equal(await reasonOf(south, 'clash'), 'True Federated');
  });

  test('a cluster with a ready member of its own uses only that one', async () => {
    await publish(north, 'near', ['10.1.8.1']);
    await publish(south, 'near', ['10.2.8.1']);
    await untilCopies([north], 'near', ['10.1.8.1:8080']);
    await untilCopies([south], 'near', ['10.2.8.1:8080']);
    await untilCopies([west], 'near', ['10.1.8.1:8080', '10.2.8.1:8080']);
    await setEndpoints(south, 'near', []);
    await untilCopies([south, west], 'near', ['10.1.8.1:8080']);
    await setEndpoints(south, 'near', ['10.2.8.2']);
    await untilCopies([south], 'near', ['10.2.8.2:8080']);
  });

  test('addresses outside the prefixes of a member are left out, with a condition', async () => {
    await publish(north, 'strange', ['10.1.9.1', '10.2.9.1']);
    await untilReason(north, 'strange', 'True AddressesLeftOut');
    await untilCopies([south, west], 'strange', ['10.1.9.1:8080']);
  });

  test('a copy that a user edits or deletes is repaired', async () => {
    await publish(north, 'repaired', ['10.1.10.1', '10.1.10.2']);
    const endpoints = ['10.1.10.1:8080', '10.1.10.2:8080'];
    await untilCopies(all, 'repaired', endpoints);
    const path = servicePath(systemNamespace, 'repaired');
    const portsOf = async () => (await copyIn(west, 'repaired'))?.ports;
    const ports = await portsOf();
    await west.send('PATCH', path, { spec: { ports: [{ port: 99 }] } });
    await until(async () => JSON.stringify(await portsOf()) === JSON.stringify(ports));
    const slice = async (): Promise<string> => {
      const [found] = await slicesOf(west, systemNamespace, 'repaired');
      return `${slicesPath(systemNamespace)}/${found?.metadata.name}`;
    };
    await west.send('PATCH', await slice(), { endpoints: [{ addresses: ['192.0.2.1'] }] });
    await untilCopies([west], 'repaired', endpoints);
    const deleted = await slice();
    await remove(west, deleted);
    await untilCopies([west], 'repaired', endpoints);
    const { uid } = (await findService(west, systemNamespace, 'repaired'))?.metadata ?? {};
    await remove(west, path);
    await until(async () => {
      const found = await findService(west, systemNamespace, 'repaired');
      return found !== undefined && found.metadata.uid !== uid;
    });
    await untilCopies(all, 'repaired', endpoints);
  });

  test('each field of a copy that a user changes is set back, and a right copy is not written', async () => {
    await publish(north, 'fields', ['10.1.15.1']);
    await untilCopies([west], 'fields', ['10.1.15.1:8080']);
    const path = servicePath(systemNamespace, 'fields');
    const found = async () => (await findService(west, systemNamespace, 'fields')) as ServiceObject;
    const { spec, metadata } = await found();
    // An address of the second family is a new one after it was away.
    const textOf = ({ clusterIPs = [], ...rest }: ServiceObject['spec']): string =>
      JSON.stringify({ ...rest, families: clusterIPs.length });
    const text = textOf(spec);
    await setEndpoints(north, 'fields', ['10.1.15.2']);
    await untilCopies([west], 'fields', ['10.1.15.2:8080']);
    assert.equal((await found()).metadata.resourceVersion, metadata.resourceVersion);
    const port = { port: 80, protocol: 'TCP' };
    for (const change of [
      { sessionAffinity: 'ClientIP' },
      { internalTrafficPolicy: 'Local' },
      { publishNotReadyAddresses: true },
      { trafficDistribution: 'PreferClose' },
      { ipFamilyPolicy: 'SingleStack' },
      { externalIPs: ['192.0.2.1'], externalTrafficPolicy: 'Local' },
      { ports: [{ ...port, targetPort: 99 }] },
      { ports: [{ ...port, appProtocol: 'http' }] },
      { type: 'NodePort' },
      { type: 'LoadBalancer', loadBalancerClass: 'hansa.test/none' },
    ]) {
      await west.send('PATCH', path, { spec: change });
      let seen = '';
      await until(
        async () => (seen = textOf((await found()).spec)) === text,
        () => `${JSON.stringify(change)} is set back in ${seen}`,
      );
    }
    const none = {
      type: 'ExternalName',
      externalName: 'x.example',
      clusterIP: '',
      clusterIPs: null,
    };
    await west.send('PATCH', path, { spec: none });
    await until(async () => ((await found()).spec.clusterIP ?? '') !== '');
    const others = (fields: object) => ({ ...fields, clusterIP: '', clusterIPs: [] });
    assert.deepEqual(others((await found()).spec), others(spec));
  });

  test("a user's Service with the name of a copy is never adopted", async () => {
    const users = await createService(west, 'taken', { spec: { selector: { app: 'users' } } });
    await publish(north, 'taker', ['10.1.11.1'], {
      annotations: { [namespacedAnnotation]: 'taken' },
    });
    await untilCopies([north, south], 'taken', ['10.1.11.1:8080'], shop);
    await settled(west);
    const found = await findService(west, shop, 'taken');
    assert.deepEqual(found?.metadata, users.metadata);
    assert.deepEqual(found?.spec, users.spec);
    assert.deepEqual(await slicesOf(west, shop, 'taken'), []);
    await remove(west, servicePath(shop, 'taken'));
    await untilCopies([west], 'taken', ['10.1.11.1:8080'], shop);
  });

  test('copies go with the last member, and nothing else does', async () => {
    await publish(north, 'leaving', ['10.1.12.1']);
    await publish(south, 'leaving', ['10.2.12.1']);
    await untilCopies([west], 'leaving', ['10.1.12.1:8080', '10.2.12.1:8080']);
    await remove(north, servicePath(shop, 'leaving'));
    await untilCopies(all, 'leaving', ['10.2.12.1:8080']);
    await remove(south, servicePath(shop, 'leaving'));
    await untilCopies(all, 'leaving', undefined);
    for (const cluster of all) {
      await until(
        async () => (await slicesOf(cluster, systemNamespace, 'leaving')).length === 0,
        `no slice is left in ${cluster.name}`,
      );
      assert.notEqual(await findService(cluster, systemNamespace, 'near'), undefined);
    }
  });

  reachTests(() => league, reach);
  awayTests(() => league, reach);
  machineTests(() => league, reach);
  meshTests(() => league);
  hostileTests(() => league);
});
