// The SPIRE operator beside spire-controller-manager: the site writes ClusterFederatedTrustDomains, and only
// spire-controller-manager talks to the API of SPIRE. Real kube-apiserver, StatefulSet controller and spire-server, and
// KWOK for the Pods of users.

import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import type { AddressInfo, Server } from 'node:net';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { spireServer } from '../../src/kubernetes/spire/test-spire-servers.ts';
import { temporaryFolder } from '../e2e/daemon.ts';
import { whyNoHosts } from '../e2e/separate-host.ts';
import { until } from '../e2e/until.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { openDoor } from './kube-cluster.ts';
import { moduleCrds, whyNoCrds } from './module-crds.ts';
import { endProgram, startProgram } from './program.ts';
import { podName } from './spire-cluster.ts';
import { type SpireServer, startSpire } from './spire.ts';
import { SpireSite } from './spire-site.ts';
import { missingTools } from './tool.ts';

const skip =
  whyNoHosts() ||
  whyNoCrds('spire') ||
  (await missingTools(
    'etcd',
    'kube-apiserver',
    'kube-controller-manager',
    'kubectl',
    'spire-server',
    'spire-controller-manager',
    'kwok',
  ));

const className = 'hansa';
/** It compares SPIRE with the cluster so often, also where nothing happens. */
const roundNanoseconds = 500_000_000;
const domains = 'clusterfederatedtrustdomains';

interface Domain {
  readonly metadata: {
    readonly name: string;
    readonly resourceVersion: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly spec: { readonly className?: string; readonly trustDomain: string };
}

interface Entry {
  readonly id: string;
  readonly spiffe_id: { readonly trust_domain: string; readonly path: string };
  readonly federates_with: readonly string[];
}

suite('the SPIRE operator beside spire-controller-manager', { skip }, () => {
  const folder = temporaryFolder();
  let etcd: Etcd;
  let site: SpireSite;
  let other: SpireServer;
  let door: Server;
  let manager: ChildProcess;
  let endpoint: string;
  let bundle: string;

  before(async () => {
    etcd = await startEtcd();
    other = await startSpire('b.example');
    site = await SpireSite.start('a', {
      etcd,
      crds: moduleCrds('spire'),
      nodes: 1,
      install: ['--class-name', className],
    });
    const { gateway } = site.kubelet.host;
    door = await openDoor(gateway, Number(new URL(other.bundleEndpoint).port));
    endpoint = `https://${gateway}:${(door.address() as AddressInfo).port}/`;
    bundle = await other.bundle();
    await declare([]);
    await site.ready();
    manager = await startManager();
  });
  after(async () => {
    if (manager !== undefined) await endProgram(manager);
    door?.close();
    await site?.stop();
    await other?.stop();
    await etcd?.stop();
  });

  const startManager = async (): Promise<ChildProcess> => {
    await mkdir(folder, { recursive: true });
    const configuration = join(folder, 'manager.json');
    await writeFile(
      configuration,
      JSON.stringify({
        apiVersion: 'spire.spiffe.io/v1alpha1',
        kind: 'ControllerManagerConfig',
        metrics: { bindAddress: '0' },
        health: { healthProbeBindAddress: '0' },
        leaderElection: { leaderElect: false },
        clusterName: 'a',
        clusterDomain: 'cluster.local',
        trustDomain: 'a.example',
        className,
        gcInterval: roundNanoseconds,
        ignoreNamespaces: ['^kube-system$'],
        spireServerSocketPath: site.socket,
      }),
    );
    const env = { KUBECONFIG: site.cluster.kubeconfig, ENABLE_WEBHOOKS: 'false' };
    return startProgram(folder, 'spire-controller-manager', ['-config', configuration], { env });
  };
  const said = (): string => readFileSync(join(folder, 'spire-controller-manager.log'), 'utf8');
  /** How often it did this for a trust domain. */
  const times = (what: 'Created' | 'Updated' | 'Deleted', trustDomain: string): number =>
    said()
      .split('\n')
      .filter(
        (line) =>
          line.includes(`${what} federation relationship`) && line.includes(`"${trustDomain}"`),
      ).length;
  const peer = (trustDomain = 'b.example') => ({
    trustDomain,
    bundleEndpointUrl: endpoint,
    bundleEndpointProfile: 'https_spiffe',
    endpointSpiffeId: `spiffe://${trustDomain}/spire/server`,
    ...(trustDomain === 'b.example' && { trustDomainBundle: bundle }),
  });
  const declare = (federatesWith: readonly object[]): Promise<string> =>
    site.apply(
      spireServer(
        { bundleEndpoint: {}, exposure: { type: 'None' }, federatesWith },
        { className, nodeAttestors: ['join_token'] },
      ),
    );
  const written = async (): Promise<readonly Domain[]> => {
    const { items = [] } = (await site.find<{ items: readonly Domain[] }>(domains)) ?? {};
    return items;
  };
  const ours = async (): Promise<readonly Domain[]> =>
    (await written()).filter(({ metadata }) => 'spire.hansa.dev/from' in (metadata.labels ?? {}));
  const atServer = (): Promise<string> => site.spire('federation', 'list');
  const untilAtServer = (trustDomain: string, isThere = true): Promise<void> =>
    until(
      async () => (await atServer()).includes(trustDomain) === isThere,
      () => `${trustDomain} at the server: ${isThere}: ${said().slice(-2000)}`,
    );
  const domainOf = (name: string, trustDomain: string, of: string) => ({
    apiVersion: 'spire.spiffe.io/v1alpha1',
    kind: 'ClusterFederatedTrustDomain',
    metadata: { name },
    spec: {
      className: of,
      trustDomain,
      bundleEndpointURL: endpoint,
      bundleEndpointProfile: { type: 'https_web' },
    },
  });
  /** Ends when spire-controller-manager has compared SPIRE with the cluster from beginning to end. */
  const round = async (): Promise<void> => {
    const name = 'hand.example';
    await site.spire(
      'federation',
      'create',
      `-trustDomain=${name}`,
      '-bundleEndpointURL=https://127.0.0.1:1/',
      '-bundleEndpointProfile=https_web',
    );
    const earlier = times('Deleted', name);
    await until(() => times('Deleted', name) > earlier, 'it deletes what no object names');
  };
  /** How many X.509 authorities of b.example SPIRE has. */
  const authorities = async (): Promise<number> => {
    const id = ['-id', 'spiffe://b.example', '-format', 'pem'];
    return (await site.spire('bundle', 'list', ...id)).split('BEGIN CERTIFICATE').length - 1;
  };
  const entriesOf = async (path: string): Promise<readonly Entry[]> => {
    const shown = await site.spire('entry', 'show', '-output', 'json');
    const { entries } = JSON.parse(shown) as { entries: readonly Entry[] };
    return entries.filter(({ spiffe_id }) => spiffe_id.path === path);
  };

  test('runs no sidecar, and gives the trust domain to spire-controller-manager', async () => {
    const set = await site.find<{
      spec: { template: { spec: { containers: readonly { name: string }[] } } };
    }>('statefulset/spire-server', '-n', 'spire');
    assert.deepEqual(
      set?.spec.template.spec.containers.map(({ name }) => name),
      ['spire-server'],
    );
    await declare([peer()]);
    await untilAtServer('b.example');
    const [object, ...more] = await ours();
    assert.deepEqual(more, []);
    assert.equal(object?.spec.className, className);
    assert.equal(object?.spec.trustDomain, 'b.example');
    // SPIRE can fetch the bundle with what it was given.
    await site.spire('federation', 'refresh', '-id', 'b.example');
    await until(
      async () => (await site.spire('bundle', 'list')).includes('b.example'),
      'SPIRE has the bundle',
    );
    const { relationships } = await site.status();
    assert.deepEqual(
      relationships?.map(({ trustDomain, reason }) => [trustDomain, reason]),
      [['b.example', 'ControllerManager']],
    );
  });

  test('nobody undoes what the other does', async () => {
    const uid = site.kubelet.uid(podName);
    const earlier = await ours();
    const listed = await atServer();
    for (let each = 0; each < 5; each++) {
      await round();
      assert.equal(await atServer(), listed);
    }
    assert.deepEqual(await ours(), earlier);
    assert.equal(times('Created', 'b.example'), 1);
    assert.equal(times('Updated', 'b.example'), 0);
    assert.equal(times('Deleted', 'b.example'), 0);
    assert.equal(site.kubelet.uid(podName), uid);
  });

  test('takes another endpoint, and restores an object that somebody changed', async () => {
    await declare([{ ...peer(), bundleEndpointUrl: `${endpoint}moved` }]);
    await untilAtServer('/moved');
    const [object] = await ours();
    const edit = '{"spec":{"bundleEndpointURL":"https://127.0.0.1:9/"}}';
    await site.kubectl.ok([
      'patch',
      `${domains}/${object?.metadata.name}`,
      '--type=merge',
      '-p',
      edit,
    ]);
    await until(async () => {
      const [found] = await ours();
      return found?.metadata.resourceVersion !== object?.metadata.resourceVersion;
    }, 'the edit is there');
    await until(
      async () => JSON.stringify((await ours())[0]?.spec).includes('/moved'),
      'the site restores it',
    );
    await untilAtServer('/moved');
    await declare([peer()]);
    await untilAtServer('/moved', false);
  });

  test('a bundle that SPIRE refreshed stays, whatever bundle the object names', async () => {
    const first = bundle;
    await other.run('localauthority', 'x509', 'prepare');
    await site.spire('federation', 'refresh', '-id', 'b.example');
    await until(async () => (await authorities()) === 2, 'SPIRE has the new authority');
    const updates = times('Updated', 'b.example');
    for (const named of [await other.bundle(), first]) {
      bundle = named;
      const earlier = (await ours())[0]?.metadata.resourceVersion;
      await declare([peer()]);
      await until(
        async () => (await ours())[0]?.metadata.resourceVersion !== earlier,
        'the object names the bundle',
      );
      await round();
      await round();
      assert.equal(await authorities(), 2);
    }
    assert.equal(times('Updated', 'b.example'), updates);
  });

  test('another endpoint brings the bundle of the object back, until SPIRE has refreshed it', async () => {
    await declare([{ ...peer(), bundleEndpointUrl: 'https://127.0.0.1:1/' }]);
    await untilAtServer('https://127.0.0.1:1/');
    assert.equal(await authorities(), 1);
    await declare([peer()]);
    await untilAtServer('https://127.0.0.1:1/', false);
    await site.spire('federation', 'refresh', '-id', 'b.example');
    await until(async () => (await authorities()) === 2, 'SPIRE has refreshed it');
  });

  test('leaves objects of others and of another class as they are', async () => {
    await site.apply(domainOf('user', 'user.example', className));
    await site.apply(domainOf('elsewhere', 'elsewhere.example', 'other'));
    await untilAtServer('user.example');
    const others = async (): Promise<readonly Domain[]> =>
      (await written()).filter(({ metadata }) => ['user', 'elsewhere'].includes(metadata.name));
    const earlier = await others();
    assert.equal(earlier.length, 2);
    await declare([peer(), peer('c.example')]);
    await untilAtServer('c.example');
    await until(
      async () => (await site.status()).relationships?.length === 3,
      'the status has those of our class',
    );
    const { relationships = [] } = await site.status();
    assert.deepEqual(
      relationships.map(({ trustDomain }) => trustDomain),
      ['b.example', 'c.example', 'user.example'],
    );
    await round();
    assert.doesNotMatch(await atServer(), /elsewhere\.example/);
    assert.deepEqual(await others(), earlier);
    assert.equal((await ours()).length, 2);
  });

  test('leaves ClusterSPIFFEIDs to spire-controller-manager, with their selectors', async () => {
    await site.kubectl.ok(['create', 'namespace', 'shop']);
    await site.kubectl.ok(['create', 'namespace', 'closed']);
    await site.kubectl.ok(['label', 'namespace', 'shop', 'federation=allowed']);
    for (const namespace of ['shop', 'closed']) {
      await site.cluster.addPod({ namespace, name: 'web', labels: {} });
    }
    const identity = {
      apiVersion: 'spire.spiffe.io/v1alpha1',
      kind: 'ClusterSPIFFEID',
      metadata: { name: 'web' },
      spec: {
        className,
        spiffeIDTemplate: 'spiffe://a.example/{{ .PodMeta.Namespace }}/web',
        namespaceSelector: { matchLabels: { federation: 'allowed' } },
        federatesWith: ['b.example'],
      },
    };
    await site.apply(identity);
    await until(
      async () => (await entriesOf('/shop/web'))[0]?.federates_with.includes('b.example') === true,
      () => `the entry federates: ${said().slice(-2000)}`,
    );
    await round();
    assert.deepEqual(await entriesOf('/closed/web'), []);
    // KWOK plays its own node, and leaves that of the test kubelet alone.
    const phases = ['get', 'pods', '-A', '-o', 'jsonpath={.items[*].status.phase}'];
    assert.equal(await site.kubectl.ok(phases), 'Running Running Running');
    assert.equal(site.kubelet.restarts(podName, 'spire-server'), 0);
    await site.kubectl.ok(['delete', 'pod/web', '-n', 'shop', '--wait=false']);
    await until(
      async () => (await entriesOf('/shop/web')).length === 0,
      'the entry goes with its Pod',
    );
    const found = await site.find<{
      metadata: { generation: number; ownerReferences?: unknown };
      spec: object;
    }>('clusterspiffeid/web');
    assert.equal(found?.metadata.generation, 1);
    assert.equal(found?.metadata.ownerReferences, undefined);
  });

  test('a removal reaches SPIRE, which keeps the bundle', async () => {
    await declare([peer('c.example')]);
    await untilAtServer('b.example', false);
    assert.equal(times('Deleted', 'b.example'), 1);
    assert.deepEqual(
      (await ours()).map(({ spec }) => spec.trustDomain),
      ['c.example'],
    );
    assert.match(await atServer(), /user\.example/);
    // SPIRE keeps it until somebody deletes it, and no controller does here.
    assert.match(await site.spire('bundle', 'list'), /b\.example/);
    await site.spire('bundle', 'delete', '-id', 'spiffe://b.example', '-mode', 'dissociate');
    await declare([peer(), peer('c.example')]);
    await untilAtServer('b.example');
    assert.match(await site.spire('bundle', 'list'), /b\.example/);
  });

  test('without federation, only the objects of users are left', async () => {
    const off = ['{"spec":{"federation":{"enabled":false}}}'];
    await site.kubectl.ok(['patch', 'spireserver/cluster', '--type=merge', '-p', ...off]);
    await until(async () => (await ours()).length === 0, 'ours are gone');
    assert.deepEqual((await written()).map(({ metadata }) => metadata.name).toSorted(), [
      'elsewhere',
      'user',
    ]);
  });
});
