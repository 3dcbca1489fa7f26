// The five paths of service discovery on three real clusters, and that of machines to NativeServices: pods ask the DNS
// of their cluster, and machines ask BIND, into which ExternalDNS writes the names, with a prefix of annotations that
// is set. Each client then opens a TCP connection to what it found. Each path is shown for clients beside the backend
// and in both other clusters.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, suite, test } from 'node:test';
import { whyNoHosts } from '../e2e/separate-host.ts';
import { until } from '../e2e/until.ts';
import { type NameServer, startNameServer, whyNoBind } from './bind.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { type ExternalDns, startExternalDns } from './external-dns.ts';
import { backendPort } from './host-programs.ts';
import type { KubeCluster } from './kube-cluster.ts';
import { League, leagueTools } from './league.ts';
import { changeMember, shop, systemNamespace } from './league-members.ts';
import { publish } from './league-services.ts';
import { backendText, ReachScene } from './reach-scene.ts';
import { missingTools } from './tool.ts';

const skip =
  whyNoHosts() ||
  whyNoBind() ||
  (spawnSync('nft', ['--version']).error !== undefined && 'SKIPPED: no nft here') ||
  (await missingTools(...leagueTools, 'kube-proxy', 'coredns', 'external-dns'));

const zone = 'fed.example';
/** Of the annotations that this ExternalDNS reads, so that another one in the cluster would leave them alone. */
const annotationPrefix = 'names.hansa.test';
const group = 'clusters.hansa.dev/v1alpha1';
/** Federated Services, each with one kind of backend in south. */
const backends = [
  ['pods', 'a Service of pods'],
  ['machines', 'a Service of machines'],
  ['natives', 'a NativeService'],
] as const;

suite('the paths of service discovery', { skip }, () => {
  let etcd: Etcd;
  let league: League;
  let server: NameServer;
  let externalDns: ExternalDns;
  let scene: ReachScene;
  /** Of the backend in south. */
  let address: string;

  before(async () => {
    [etcd, server] = await Promise.all([startEtcd(), startNameServer(zone)]);
    const own = { hasProxy: true, hasDns: true };
    league = await League.start({
      etcd,
      sites: ['lubeck'],
      flags: [
        '--kubernetes-dns-hostname',
        `{name}.${zone}`,
        '--kubernetes-dns-annotation-prefix',
        annotationPrefix,
      ],
      clusters: { north: own, south: own, west: own },
    });
    const { north, south } = league.clusters;
    await changeMember(north, 'south', { dns: true });
    externalDns = await startExternalDns(south.kubeconfig, server, {
      annotationPrefix: `${annotationPrefix}/`,
    });
    scene = await ReachScene.start(league.clusters);
    [address = ''] = scene.addresses;
    await publish(south, 'pods', [address], { spec: { ports: [{ port: backendPort }] } });
    await addObject(south, 'VirtualMachine', 'press-1', {
      tags: { 'svc.hansa.dev': 'press', 'svc.global.federated.hansa.dev': 'machines' },
      networkInterfaces: [{ internalIP: address }],
      ports: [{ name: 'http', port: backendPort }],
    });
    const annotations = { 'svc.global.federated.hansa.dev': 'natives' };
    const native = { networkInterfaces: [{ externalIP: address }], ports: [{ port: backendPort }] };
    await addObject(south, 'NativeService', 'ledger', native, annotations);
  });
  after(async () => {
    await externalDns?.stop();
    await scene?.stop();
    await league?.stop();
    await server?.stop();
    await etcd?.stop();
  });

  const addObject = (
    cluster: KubeCluster,
    kind: string,
    name: string,
    spec: object,
    annotations: object = {},
  ): Promise<unknown> =>
    cluster.create(`/apis/${group}/namespaces/${shop}/${kind.toLowerCase()}s`, {
      apiVersion: group,
      kind,
      metadata: { name, annotations },
      spec,
    });
  const clusterOf = (at: number): string => scene.callers[at]?.cluster.name ?? '';

  for (const [name, what] of backends) {
    test(`pods find and reach ${what}, in its own cluster and in others`, async () => {
      const answers = await Promise.all(
        scene.callers.map((caller) => caller.call(name, systemNamespace, 4, backendPort)),
      );
      for (const [at, answer] of answers.entries())
        assert.equal(answer, backendText, clusterOf(at));
    });
  }

  for (const [name, what] of backends) {
    test(`machines find and reach ${what}, beside its cluster and beside others`, async () => {
      let found: readonly string[] = [];
      await until(async () => {
        externalDns.check();
        found = await server.dig(`${name}.${zone}`);
        return found.length > 0;
      }, `dig answers ${name}.${zone}`);
      assert.deepEqual(found, [address]);
      for (const [at, caller] of scene.callers.entries()) {
        assert.equal(await caller.reach(found[0] ?? '', backendPort), backendText, clusterOf(at));
      }
    });
  }

  test('pods find a Service of machines by its own name in its cluster', async () => {
    const own = scene.callers.find(({ cluster }) => cluster === league.clusters.south);
    assert.equal(await own?.call('press', shop, 4, backendPort), backendText);
  });
});
