// SPIRE servers of several clusters federate: the operator compiles their configuration and objects, the sidecar
// hands relationships to SPIRE, and workloads with go-spiffe call each other across trust domains. Real
// kube-apiserver, StatefulSet controller, spire-server and spire-agent. The agents attest workloads by their path.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { Relationship } from '../../src/kubernetes/spire/relationships.ts';
import { hansa, temporaryFolder } from '../e2e/daemon.ts';
import { whyNoHosts } from '../e2e/separate-host.ts';
import { until } from '../e2e/until.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { kubeconfigFor } from './kube-apiserver.ts';
import { podName, SpireCluster } from './spire-cluster.ts';
import { missingTools } from './tool.ts';

const skip =
  whyNoHosts() ||
  (await missingTools(
    'etcd',
    'kube-apiserver',
    'kube-controller-manager',
    'spire-server',
    'spire-agent',
    'go-spiffe',
  ));

suite('SPIRE servers of clusters', { skip }, () => {
  let etcd: Etcd;
  const started: SpireCluster[] = [];
  let a: SpireCluster;
  let b: SpireCluster;
  let c: SpireCluster;
  /** Of the Pods of a and b before anything changed. */
  let pods: readonly (string | undefined)[];
  /** Workloads `web` of a that answer `web` of the others. */
  const urls = new Map<string, string>();

  const start = async (name: string): Promise<SpireCluster> => {
    const spire = await SpireCluster.start(name, etcd);
    started.push(spire);
    await spire.apply([]);
    await spire.ready();
    return spire;
  };
  const idOf = (spire: SpireCluster, workload = 'web'): string =>
    `spiffe://${spire.trustDomain}/${workload}`;
  const isFresh = (spire: SpireCluster, other: SpireCluster): Promise<void> =>
    spire.reports(
      other.trustDomain,
      (status) => status?.lastRefresh !== undefined && status.lastError === undefined,
    );
  /** `web` of one calls `web` of the other. */
  const call = async (from: SpireCluster, to: SpireCluster, workload = 'web') => {
    const key = `${to.trustDomain} for ${from.trustDomain}`;
    const url = urls.get(key) ?? (await to.serve('web', idOf(from)));
    urls.set(key, url);
    return from.call(workload, url, idOf(to));
  };
  /** Agents fetch changes every second. */
  const succeeds = async (from: SpireCluster, to: SpireCluster): Promise<void> => {
    let last = '';
    await until(
      async () => {
        const { code, stderr, stdout } = await call(from, to);
        last = stderr;
        if (code === 0) assert.match(stdout, new RegExp(`hello ${idOf(from)}`));
        return code === 0;
      },
      () => `${idOf(from)} calls ${idOf(to)}: ${last}`,
    );
  };
  const isRefused = (from: SpireCluster, to: SpireCluster): Promise<void> =>
    until(async () => (await call(from, to)).code !== 0, `${idOf(from)} is refused`);
  const podsOf = (...spires: readonly SpireCluster[]) =>
    spires.flatMap(({ kubelet }) => [
      kubelet.uid(podName),
      String(kubelet.restarts(podName, 'spire-server')),
      String(kubelet.pid(podName, 'spire-server')),
    ]);
  let known: Readonly<Record<'a' | 'b' | 'c', Relationship>>;

  before(async () => {
    etcd = await startEtcd();
    a = await start('a');
    b = await start('b');
    a.kubelet.host.connect(b.kubelet.host, '203.0.113');
    pods = podsOf(a, b);
    const [ofA, ofB] = [await a.relationship(), await b.relationship()];
    known = { a: ofA, b: ofB, c: ofB };
    await a.apply([ofB]);
    await b.apply([ofA]);
    await isFresh(a, b);
    await isFresh(b, a);
    await a.startAgent({ web: [b.trustDomain] });
    await b.startAgent({ web: [a.trustDomain], lonely: [] });
  });
  after(async () => {
    await Promise.all(started.map((spire) => spire.stop()));
    await etcd?.stop();
  });

  test('federate without a restart, and their workloads call each other', async () => {
    await succeeds(a, b);
    await succeeds(b, a);
    assert.deepEqual(podsOf(a, b), pods);
  });

  test('refuse a workload that does not federate', async () => {
    const { code } = await call(b, a, 'lonely');
    assert.notEqual(code, 0);
  });

  test('take a third cluster without a restart', async () => {
    c = await start('c');
    b.kubelet.host.connect(c.kubelet.host, '198.51.100');
    c.kubelet.host.connect(a.kubelet.host, '192.0.2');
    known = { ...known, c: await c.relationship() };
    await c.apply([known.a]);
    await a.apply([known.b, known.c]);
    await isFresh(a, c);
    await isFresh(c, a);
    await c.startAgent({ web: [a.trustDomain] });
    // The entry of a does not name c yet.
    assert.notEqual((await call(c, a)).code, 0);
    const shown = await a.run('entry', 'show', `-spiffeID=${idOf(a)}`, '-output', 'json');
    const { entries } = JSON.parse(shown) as {
      entries: readonly { id: string; selectors: readonly { type: string; value: string }[] }[];
    };
    const [entry] = entries;
    const [selector] = entry?.selectors ?? [];
    await a.run(
      'entry',
      'update',
      `-entryID=${entry?.id}`,
      `-parentID=spiffe://${a.trustDomain}/agent`,
      `-spiffeID=${idOf(a)}`,
      `-selector=${selector?.type}:${selector?.value}`,
      `-federatesWith=spiffe://${b.trustDomain}`,
      `-federatesWith=spiffe://${c.trustDomain}`,
    );
    await succeeds(c, a);
    await succeeds(b, a);
    assert.deepEqual(podsOf(a, b), pods);
  });

  test('take another endpoint of a trust domain without a restart', async () => {
    const moved = { ...known.b, bundleEndpointURL: `${known.b.bundleEndpointURL}?moved` };
    await a.apply([moved, known.c]);
    await until(async () => (await a.run('federation', 'list')).includes('?moved'));
    await a.run('federation', 'refresh', '-id', b.trustDomain);
    await isFresh(a, b);
    await succeeds(b, a);
    assert.deepEqual(podsOf(a, b), pods);
  });

  test('leave a relationship that somebody made by hand alone', async () => {
    await a.run(
      'federation',
      'create',
      '-trustDomain=hand.example',
      '-bundleEndpointURL=https://127.0.0.1:1/',
      '-bundleEndpointProfile=https_web',
    );
    await a.apply([known.b]);
    await a.reports(c.trustDomain, (status) => status?.kept === true && !status.hasBundle);
    assert.match(await a.run('federation', 'list'), /hand\.example/);
    await a.apply([
      known.b,
      { ...known.c, trustDomain: 'hand.example', bundleEndpointURL: 'https://127.0.0.1:2/' },
    ]);
    await a.reports('hand.example', (status) => status?.foreign === true);
    assert.match(await a.run('federation', 'list'), /127\.0\.0\.1:1\//);
    // With a dead endpoint beside it, others go on.
    await a.apply([
      known.b,
      { ...known.c, trustDomain: 'dead.example', bundleEndpointURL: 'https://127.0.0.1:1/' },
    ]);
    await a.reports('dead.example', (status) => status?.lastError !== undefined);
    await succeeds(b, a);
  });

  test('end trust at once when a relationship is removed', async () => {
    await succeeds(b, a);
    await a.apply([]);
    await a.reports(b.trustDomain, (status) => status?.kept === true && !status.hasBundle);
    assert.doesNotMatch(await a.run('federation', 'list'), /b\.example/);
    assert.doesNotMatch(await a.run('bundle', 'list'), /b\.example/);
    const entry = await a.run('entry', 'show', `-spiffeID=${idOf(a)}`);
    assert.doesNotMatch(entry, /b\.example/);
    await isRefused(b, a);
    assert.deepEqual(podsOf(a, b), pods);
  });

  test('trust each other again when it is added again, without a bootstrap bundle', async () => {
    const { bundle: _, ...bare } = known.b;
    await a.apply([bare]);
    await isFresh(a, b);
    await succeeds(b, a);
    await succeeds(a, b);
    assert.deepEqual(podsOf(a, b), pods);
  });

  test('keep relationships over one restart for another configuration', async () => {
    const first = a.kubelet.uid(podName);
    const { bundle: _, ...bare } = known.b;
    await a.apply([bare], { endpoint: { refreshHint: 120 } });
    await until(() => ![undefined, first].includes(a.kubelet.uid(podName)), 'another Pod runs');
    const second = a.kubelet.uid(podName);
    await a.ready();
    assert.match(await a.run('federation', 'list'), /b\.example/);
    await a.run('federation', 'refresh', '-id', b.trustDomain);
    await isFresh(a, b);
    await succeeds(b, a);
    assert.equal(a.kubelet.uid(podName), second);
    assert.equal(a.kubelet.restarts(podName, 'spire-server'), 0);
  });

  test('adopt a federation made by hand, without losing trust', async () => {
    const path = '/api/v1/namespaces/spire/configmaps/spire-server-federation-kept-bundles';
    const { data } = await b.cluster.get<{ data: Record<string, string> }>(path);
    // The sidecar forgets that it made the relationship.
    const nothing = Object.fromEntries(Object.keys(data).map((key) => [key, null]));
    await b.cluster.send('PATCH', path, { data: nothing });
    process.kill(b.kubelet.pid(podName, 'hansa'), 'SIGKILL');
    await b.reports(a.trustDomain, (status) => status?.foreign === true);
    await succeeds(a, b);
    await b.apply([known.a], { document: { adoptExisting: true } });
    await b.reports(a.trustDomain, (status) => status?.foreign === undefined);
    await isFresh(b, a);
    await succeeds(a, b);
    await b.apply([], { document: { adoptExisting: true } });
    await b.reports(a.trustDomain, (status) => status?.kept === true && !status.hasBundle);
    await isRefused(a, b);
  });

  test('federate by the bundles that hansa spire bootstrap exchanges', async () => {
    const file = join(temporaryFolder(), 'kubeconfig');
    const parts = [b, c].map(({ cluster }) => ({
      name: cluster.name,
      config: JSON.parse(kubeconfigFor(cluster)) as {
        clusters: readonly { cluster: object }[];
        users: readonly { user: object }[];
      },
    }));
    const merged = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: parts.map(({ name, config }) => ({ name, cluster: config.clusters[0]?.cluster })),
      users: parts.map(({ name, config }) => ({ name, user: config.users[0]?.user })),
      contexts: parts.map(({ name }) => ({ name, context: { cluster: name, user: name } })),
    };
    await writeFile(file, JSON.stringify(merged), { mode: 0o600 });
    for (const spire of [b, c]) await spire.declareFederation();
    const command = ['spire', 'bootstrap', '--kubeconfig', file, '--from', 'b', '--to', 'c'];
    const endpoints = ['--from-url', b.endpoint, '--to-url', c.endpoint];
    const ran = await hansa([...command, ...endpoints, '--yes']);
    assert.equal(ran.code, 0, ran.stderr);
    assert.match(ran.stderr, /fingerprint/);
    for (const [spire, other] of [
      [b, c],
      [c, b],
    ] as const) {
      const declared = await spire.declared();
      assert.deepEqual(
        declared.map(({ trustDomain }) => trustDomain),
        [other.trustDomain],
      );
      await spire.apply(declared);
      await isFresh(spire, other);
    }
    assert.match(await c.run('bundle', 'list'), /b\.example/);
  });
});
