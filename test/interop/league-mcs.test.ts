// The Multi-Cluster Services API (KEP-1645) on three real clusters with two supervisors: ServiceExports become
// ServiceImports, CoreDNS answers for clusterset.local, and TCP passes through ClusterSet IPs.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, suite, test } from 'node:test';
import { importServiceName } from '../../src/kubernetes/mcs/import-marks.ts';
import type { ServiceExport, ServiceImport } from '../../src/kubernetes/mcs/mcs-objects.ts';
import { importNameLabel, sourceClusterLabel } from '../../src/kubernetes/names.ts';
import { whyNoHosts } from '../e2e/separate-host.ts';
import { until } from '../e2e/until.ts';
import { type ClusterDns, startClusterDns } from './coredns.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { HostBackend, HostClient } from './host-programs.ts';
import type { KubeCluster } from './kube-cluster.ts';
import { League, leagueTools } from './league.ts';
import { clusterNames, shop } from './league-members.ts';
import {
  createService,
  findService,
  publish,
  servicePath,
  setEndpoints,
  type SliceObject,
  slicesPath,
} from './league-services.ts';
import { moduleCrds, whyNoCrds } from './module-crds.ts';
import { missingTools } from './tool.ts';

const skip =
  whyNoCrds('mcs') ||
  whyNoHosts() ||
  (spawnSync('nft', ['--version']).error !== undefined && 'SKIPPED: no nft here') ||
  (await missingTools(...leagueTools, 'kube-proxy', 'coredns'));

const group = 'multicluster.x-k8s.io';
const exportsIn = (version = 'v1alpha1'): string =>
  `/apis/${group}/${version}/namespaces/${shop}/serviceexports`;
const importsPath = `/apis/${group}/v1alpha1/namespaces/${shop}/serviceimports`;
const good = ['Valid=True Valid', 'Ready=True Exported', 'Conflict=False NoConflicts'];

suite('the Multi-Cluster Services API in three clusters', { skip }, () => {
  let etcd: Etcd;
  let league: League;
  let north: KubeCluster;
  let south: KubeCluster;
  let west: KubeCluster;
  let all: readonly KubeCluster[];
  const dns = new Map<KubeCluster, ClusterDns>();

  before(async () => {
    etcd = await startEtcd();
    const crds = moduleCrds('mcs');
    league = await League.start({
      etcd,
      clusters: {
        north: { crds },
        south: { crds, hasProxy: true },
        west: { crds, hasProxy: true },
      },
      flags: ['--kubernetes-lease-seconds', '5'],
    });
    ({ north, south, west } = league.clusters);
    all = clusterNames.map((name) => league.clusters[name]);
    await Promise.all(
      [north, west].map(async (cluster) => {
        dns.set(cluster, await startClusterDns(cluster.kubeconfig, { hasClusterSet: true }));
      }),
    );
  });
  after(async () => {
    for (const each of dns.values()) await each.stop();
    await league?.stop();
    await etcd?.stop();
  });

  const putExport = (cluster: KubeCluster, name: string, version = 'v1alpha1'): Promise<unknown> =>
    cluster.create(exportsIn(version), {
      apiVersion: `${group}/${version}`,
      kind: 'ServiceExport',
      metadata: { name },
    });
  const removeExport = (cluster: KubeCluster, name: string): Promise<unknown> =>
    cluster.send('DELETE', `${exportsIn()}/${name}`);
  const importIn = async (
    cluster: KubeCluster,
    name: string,
  ): Promise<ServiceImport | undefined> => {
    const path = `${importsPath}/${name}`;
    const { status, text } = await cluster.client.send({ method: 'GET', path });
    assert.ok(status === 200 || status === 404, text);
    return status === 404 ? undefined : (JSON.parse(text) as ServiceImport);
  };
  /** As `north 10.1.0.1`, as CoreDNS finds them. */
  const endpointsIn = async (cluster: KubeCluster, name: string): Promise<readonly string[]> => {
    const selector = encodeURIComponent(`${importNameLabel}=${name}`);
    const path = `${slicesPath(shop)}?labelSelector=${selector}`;
    const { items } = await cluster.get<{ readonly items: readonly SliceObject[] }>(path);
    return items
      .flatMap(({ metadata, endpoints }) =>
        (endpoints ?? []).map(
          ({ addresses }) => `${metadata.labels?.[sourceClusterLabel]} ${addresses[0]}`,
        ),
      )
      .toSorted();
  };
  const untilEndpoints = async (
    clusters: readonly KubeCluster[],
    name: string,
    wanted: readonly string[],
  ): Promise<void> => {
    for (const cluster of clusters) {
      let found = '';
      await until(
        async () => {
          found = (await endpointsIn(cluster, name)).join();
          return found === wanted.join();
        },
        () => `${name} in ${cluster.name} has ${wanted.join()}, not ${found}`,
      );
    }
  };
  const untilTold = async (
    cluster: KubeCluster,
    name: string,
    wanted: readonly string[],
  ): Promise<void> => {
    let found = '';
    await until(
      async () => {
        const { status } = await cluster.get<ServiceExport>(`${exportsIn()}/${name}`);
        const told = (status?.conditions ?? []).map(
          ({ type, status: value, reason }) => `${type}=${value} ${reason}`,
        );
        found = told.join();
        return found === wanted.join();
      },
      () => `the export ${name} in ${cluster.name} is told ${wanted.join()}, not ${found}`,
    );
  };
  const resolves = async (
    cluster: KubeCluster,
    name: string,
    expected: readonly string[],
  ): Promise<void> => {
    const host = `${name}.${shop}.svc.clusterset.local`;
    let found = '';
    await until(
      async () => {
        const { resolver } = dns.get(cluster) as ClusterDns;
        const addresses = await resolver.resolve4(host).catch((): string[] => []);
        found = addresses.toSorted().join();
        return found === expected.toSorted().join();
      },
      () => `${host} in ${cluster.name} is ${expected.join()}, not ${found}`,
    );
  };
  const plain = { annotations: {} };

  test('an export is imported in all clusters, with a ClusterSet IP that CoreDNS answers', async () => {
    await publish(north, 'web', ['10.1.9.1'], plain);
    await publish(south, 'web', ['10.2.9.1'], plain);
    await putExport(north, 'web');
    // The same kind in its newer version.
    await putExport(south, 'web', 'v1beta1');
    await untilEndpoints(all, 'web', ['north 10.1.9.1', 'south 10.2.9.1']);
    for (const cluster of all) {
      let found: ServiceImport | undefined;
      await until(async () => {
        found = await importIn(cluster, 'web');
        return (found?.spec.ips ?? []).length > 0 && found?.status?.clusters?.length === 2;
      }, `${cluster.name} has a ServiceImport with an address`);
      const service = await findService(cluster, shop, importServiceName('web'));
      assert.deepEqual(found?.spec.ips, service?.spec.clusterIPs);
      assert.equal(found?.spec.type, 'ClusterSetIP');
      assert.deepEqual(
        found.spec.ports.map(({ port }) => port),
        [80],
      );
      assert.deepEqual(found.status?.clusters, [{ cluster: 'north' }, { cluster: 'south' }]);
    }
    for (const cluster of [north, west]) {
      await resolves(cluster, 'web', (await importIn(cluster, 'web'))?.spec.ips ?? ['none']);
    }
    for (const cluster of [north, south]) await untilTold(cluster, 'web', good);
  });

  test('TCP passes through the ClusterSet IP to a backend in another cluster', async () => {
    const [from, to] = [west.host, south.host];
    assert.ok(from !== undefined && to !== undefined);
    from.connect(to, '10.2.251');
    const backend = await HostBackend.start(to, 'hello from south');
    const client = await HostClient.start(from);
    try {
      await publish(south, 'echo', [to.address], plain);
      await putExport(south, 'echo');
      await untilEndpoints([west], 'echo', [`south ${to.address}`]);
      let ip: string | undefined;
      await until(async () => {
        [ip] = (await importIn(west, 'echo'))?.spec.ips ?? [];
        return ip !== undefined;
      }, 'west has a ClusterSet IP');
      assert.equal(await client.ask(ip ?? '', 80), 'hello from south');
    } finally {
      await client.stop();
      await backend.stop();
    }
  });

  test('a headless Service resolves to all its endpoints', async () => {
    const spec = { clusterIP: 'None' };
    await publish(north, 'nodes', ['10.1.9.2', '10.1.9.3'], { ...plain, spec });
    await publish(south, 'nodes', ['10.2.9.2'], { ...plain, spec });
    await putExport(north, 'nodes');
    await putExport(south, 'nodes');
    await resolves(west, 'nodes', ['10.1.9.2', '10.1.9.3', '10.2.9.2']);
    const found = await importIn(west, 'nodes');
    assert.equal(found?.spec.type, 'Headless');
    assert.equal(found.spec.ips, undefined);
    await setEndpoints(south, 'nodes', []);
    await resolves(west, 'nodes', ['10.1.9.2', '10.1.9.3']);
  });

  test('the oldest export decides about type, ports and affinity, and both are told', async () => {
    const spec = { sessionAffinity: 'ClientIP', ports: [{ name: 'http', port: 80 }] };
    await publish(south, 'clash', ['10.2.9.4'], { ...plain, spec });
    await putExport(south, 'clash');
    await untilTold(south, 'clash', good);
    // Creation times have a resolution of one second.
    const { creationTimestamp } = (await south.get<ServiceExport>(`${exportsIn()}/clash`)).metadata;
    await until(
      () => Promise.resolve(Date.now() > Date.parse(creationTimestamp ?? '') + 1000),
      'a second has passed',
    );
    const other = { clusterIP: 'None', ports: [{ name: 'http', port: 81 }] };
    await publish(north, 'clash', ['10.1.9.4'], { ...plain, spec: other });
    await putExport(north, 'clash');
    const conflict = 'Conflict=True PortConflict,TypeConflict,SessionAffinityConflict';
    await untilTold(north, 'clash', ['Valid=True Valid', 'Ready=False Failed', conflict]);
    await untilTold(south, 'clash', ['Valid=True Valid', 'Ready=True Exported', conflict]);
    await untilEndpoints([west], 'clash', ['south 10.2.9.4']);
    const found = await importIn(west, 'clash');
    assert.equal(found?.spec.type, 'ClusterSetIP');
    assert.equal(found.spec.sessionAffinity, 'ClientIP');
    assert.equal(found.spec.sessionAffinityConfig?.clientIP?.timeoutSeconds, 10_800);
    const behind = await findService(west, shop, importServiceName('clash'));
    assert.ok(behind !== undefined);
    assert.equal((behind.spec as { sessionAffinity?: string }).sessionAffinity, 'ClientIP');
  });

  test('an export without a Service, and one of an ExternalName, are not valid', async () => {
    const invalid = (reason: string) => [
      `Valid=False ${reason}`,
      'Ready=False Failed',
      'Conflict=False NoConflicts',
    ];
    await putExport(north, 'absent');
    await untilTold(north, 'absent', invalid('NoService'));
    await createService(north, 'outside', {
      spec: { type: 'ExternalName', externalName: 'example.com', ports: [] },
    });
    await putExport(north, 'outside');
    await untilTold(north, 'outside', invalid('InvalidServiceType'));
    assert.equal(await importIn(north, 'outside'), undefined);
    await publish(north, 'absent', ['10.1.9.5'], plain);
    await untilTold(north, 'absent', good);
  });

  test('a ServiceImport of a user stays, and users cannot forge the marks of a site', async () => {
    const own = {
      apiVersion: `${group}/v1alpha1`,
      kind: 'ServiceImport',
      metadata: { name: 'mine' },
      spec: { type: 'ClusterSetIP', ips: ['192.0.2.1'], ports: [{ port: 80 }] },
    };
    const forged = {
      ...own,
      metadata: { name: 'mine', annotations: { 'clusters.hansa.dev/epoch': '1' } },
    };
    await assert.rejects(
      west.create(importsPath, forged),
      /only Hansa sites add, change or remove/,
    );
    const mine = await west.create<ServiceImport>(importsPath, own);
    await publish(north, 'mine', ['10.1.9.6'], plain);
    await putExport(north, 'mine');
    await untilEndpoints([north, south], 'mine', ['north 10.1.9.6']);
    assert.deepEqual(await importIn(west, 'mine'), mine);
    assert.equal(await findService(west, shop, importServiceName('mine')), undefined);
    await west.send('DELETE', `${importsPath}/mine`);
    await untilEndpoints([west], 'mine', ['north 10.1.9.6']);
  });

  test('the next leader changes nothing, and goes on', async () => {
    const first = await importIn(west, 'web');
    const leader = await league.leaderOf('west');
    await leader.end('SIGKILL');
    await until(
      async () => (await league.leaderOf('west')).name !== leader.name,
      'another site leads west',
    );
    await setEndpoints(south, 'web', ['10.2.9.1', '10.2.9.7']);
    await untilEndpoints([west], 'web', ['north 10.1.9.1', 'south 10.2.9.1', 'south 10.2.9.7']);
    const now = await importIn(west, 'web');
    assert.equal(now?.metadata.uid, first?.metadata.uid);
    assert.deepEqual(now?.spec, first?.spec);
    await resolves(west, 'web', first?.spec.ips ?? ['none']);
  });

  test('without its last export nothing is left of it', async () => {
    await removeExport(north, 'web');
    await untilEndpoints([west], 'web', ['south 10.2.9.1', 'south 10.2.9.7']);
    await south.send('DELETE', servicePath(shop, 'web'));
    await untilEndpoints(all, 'web', []);
    for (const cluster of all) {
      await until(async () => {
        const service = await findService(cluster, shop, importServiceName('web'));
        return service === undefined && (await importIn(cluster, 'web')) === undefined;
      }, `${cluster.name} has nothing of web`);
    }
    await resolves(west, 'web', []);
  });
});
