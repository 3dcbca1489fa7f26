// SPIRE servers of several clusters federate as their SpireServers say: users write those with kubectl, a site
// writes the objects, the sidecar hands relationships to SPIRE, and workloads with go-spiffe call each other across
// trust domains. Real kube-apiserver, StatefulSet controller, spire-server and spire-agent. The agents attest
// workloads by their path.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { Relationship } from '../../src/kubernetes/spire-relationships/parse-relationship.ts';
import { bundleOf } from '../../src/kubernetes/spire-sidecar/test-sidecar-scene.ts';
import { hansa, temporaryFolder } from '../e2e/daemon.ts';
import { whyNoHosts } from '../e2e/separate-host.ts';
import { until } from '../e2e/until.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { kubeconfigFor } from './kube-apiserver.ts';
import { shiftedClock } from './league-site.ts';
import { podName } from './spire-cluster.ts';
import { type OperatedSpire, OperatorSite } from './operated-spire.ts';
import { missingTools } from './tool.ts';

const skip =
  whyNoHosts() ||
  (await missingTools(
    'etcd',
    'kube-apiserver',
    'kube-controller-manager',
    'kubectl',
    'spire-server',
    'spire-agent',
    'go-spiffe',
  ));

const hourMs = 3_600_000;

suite('SPIRE servers of clusters', { skip }, () => {
  let etcd: Etcd;
  let site: OperatorSite;
  let a: OperatedSpire;
  let b: OperatedSpire;
  let c: OperatedSpire;
  /** Of the Pods of a and b before anything changed. */
  let pods: readonly (string | undefined)[];
  /** Workloads `web` of a that answer `web` of the others. */
  const urls = new Map<string, string>();
  let known: Readonly<Record<'a' | 'b' | 'c', Relationship>>;

  /** With an endpoint, but without relationships. */
  const start = async (name: string): Promise<OperatedSpire> => {
    const started = await site.add(name, etcd);
    await started.federate([]);
    await until(() => started.has('pod/spire-server-0'), `the Pod of ${name} is made`);
    await started.spire.ready();
    return started;
  };
  const idOf = (one: OperatedSpire, workload = 'web'): string =>
    `spiffe://${one.trustDomain}/${workload}`;
  /** `web` of one calls `web` of the other. */
  const call = async (from: OperatedSpire, to: OperatedSpire, workload = 'web') => {
    const key = `${to.trustDomain} for ${from.trustDomain}`;
    const url = urls.get(key) ?? (await to.spire.serve('web', idOf(from)));
    urls.set(key, url);
    return from.spire.call(workload, url, idOf(to));
  };
  /** Agents fetch changes every second. */
  const succeeds = async (from: OperatedSpire, to: OperatedSpire): Promise<void> => {
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
  const isRefused = (from: OperatedSpire, to: OperatedSpire): Promise<void> =>
    until(async () => (await call(from, to)).code !== 0, `${idOf(from)} is refused`);
  const podsOf = (...some: readonly OperatedSpire[]) =>
    some.flatMap(({ spire: { kubelet } }) => [
      kubelet.uid(podName),
      String(kubelet.restarts(podName, 'spire-server')),
      String(kubelet.pid(podName, 'spire-server')),
    ]);
  const isGone = (one: OperatedSpire, other: OperatedSpire): Promise<void> =>
    one.spire.reports(other.trustDomain, (status) => status?.kept === true && !status.hasBundle);
  /** Packets of one to the other are refused, or pass again. */
  const cut = (one: OperatedSpire, other: OperatedSpire): Promise<void> =>
    route(one, ['unreachable', `${other.spire.kubelet.host.address}/32`]);
  const mend = (one: OperatedSpire, other: OperatedSpire, via: string): Promise<void> =>
    route(one, [`${other.spire.kubelet.host.address}/32`, 'via', via]);

  before(async () => {
    etcd = await startEtcd();
    site = await OperatorSite.start();
    [a, b] = await Promise.all([start('a'), start('b')]);
    a.spire.kubelet.host.connect(b.spire.kubelet.host, '203.0.113');
    pods = podsOf(a, b);
    const [ofA, ofB] = [await a.spire.relationship(), await b.spire.relationship()];
    known = { a: ofA, b: ofB, c: ofB };
  });
  after(async () => {
    await site?.stop();
    await etcd?.stop();
  });

  test('are ready when their SpireServers say so', async () => {
    for (const one of [a, b]) {
      await one.untilCondition('FederationConfigurationValid', 'True', 'Valid');
      await one.untilCondition('FederationObjectsInSync', 'True', 'AsWanted');
      await one.untilCondition('FederationServiceReady', 'True', 'Ready');
      await one.untilCondition('FederationRouteReady', 'Unknown', 'ExposedByOthers');
      await one.untilCondition('FederationRelationshipsReady', 'True', 'None');
    }
    assert.match(await site.run('spire', 'list'), /^a +a\.example +True +True +Unknown +0\/0/m);
  });

  test('name a relationship that only one of them has', async () => {
    await a.federate([known.b]);
    const warning = await a.untilCondition('FederationWarnings', 'True', 'NoCounterpart');
    assert.match(warning.message, /b\.example \(cluster b\) does not federate with a\.example/);
    await b.federate([known.a]);
    await a.untilCondition('FederationWarnings', 'False', 'None');
  });

  test('federate without a restart, and their workloads call each other', async () => {
    await a.untilFresh(b);
    await b.untilFresh(a);
    await a.spire.startAgent({ web: [b.trustDomain] });
    await b.spire.startAgent({ web: [a.trustDomain], lonely: [] });
    await succeeds(a, b);
    await succeeds(b, a);
    assert.deepEqual(podsOf(a, b), pods);
  });

  test('are shown to users with each relationship and its last refresh', async () => {
    await a.untilCondition('FederationRelationshipsReady', 'True', 'Fresh');
    const entry = await a.untilFresh(b);
    const last = entry?.lastRefresh ?? '';
    assert.ok(Date.now() - Date.parse(last) < hourMs, last);
    assert.match(await site.run('spire', 'list'), /^a +a\.example +True +True +Unknown +1\/1/m);
    const shown = await site.run('spire', 'show', 'a');
    assert.match(shown, new RegExp(`^b\\.example +Fresh +${last}`, 'm'));
    assert.match(shown, /^relationships by +Sidecar/m);
    const labels = 'server="a",trust_domain="b.example"';
    assert.match(
      await site.metrics(),
      new RegExp(`^spire_server_federation_bundle_refresh_count\\{${labels}\\} [1-9]`, 'm'),
    );
  });

  test('refuse a workload that does not federate', async () => {
    const { code } = await call(b, a, 'lonely');
    assert.notEqual(code, 0);
  });

  test('take a third cluster without a restart', async () => {
    c = await start('c');
    b.spire.kubelet.host.connect(c.spire.kubelet.host, '198.51.100');
    c.spire.kubelet.host.connect(a.spire.kubelet.host, '192.0.2');
    known = { ...known, c: await c.spire.relationship() };
    await c.federate([known.a]);
    await a.federate([known.b, known.c]);
    await a.untilFresh(c);
    await c.untilFresh(a);
    await c.spire.startAgent({ web: [a.trustDomain] });
    // The entry of a does not name c yet.
    assert.notEqual((await call(c, a)).code, 0);
    const shown = await a.spire.run('entry', 'show', `-spiffeID=${idOf(a)}`, '-output', 'json');
    const { entries } = JSON.parse(shown) as {
      entries: readonly { id: string; selectors: readonly { type: string; value: string }[] }[];
    };
    const [entry] = entries;
    const [selector] = entry?.selectors ?? [];
    await a.spire.run(
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
    const moved = { ...known.b, bundleEndpointURL: known.b.bundleEndpointURL.slice(0, -1) };
    const urlOf = async () =>
      /URL +: (\S+:8443)$/m.exec(await a.spire.run('federation', 'show', '-trustDomain=b.example'));
    await a.federate([moved, known.c]);
    await until(async () => (await urlOf()) !== null, 'the server has the URL without a slash');
    await a.spire.run('federation', 'refresh', '-id', b.trustDomain);
    await a.untilFresh(b);
    await succeeds(b, a);
    assert.deepEqual(podsOf(a, b), pods);
  });

  test('go on beside an endpoint that is dead, and say so', async () => {
    const dead = {
      ...known.c,
      trustDomain: 'dead.example',
      bundleEndpointURL: 'https://127.0.0.1:1/',
      bundle: bundleOf('dead.example'),
    };
    await a.federate([
      known.b,
      { ...dead, endpointSpiffeID: 'spiffe://dead.example/spire/server' },
    ]);
    const entry = await a.untilEntry('dead.example', (found) => found?.reason === 'NeverFetched');
    assert.match(entry?.message ?? '', /connection refused/);
    assert.match(await site.run('spire', 'show', 'a'), /^dead\.example .*connection refused/m);
    assert.match(
      await site.metrics(),
      /refresh_errors\{server="a",trust_domain="dead\.example",class="connect"\} [1-9]/,
    );
    await a.spire.run('federation', 'refresh', '-id', b.trustDomain);
    await succeeds(b, a);
    await isGone(a, c);
    assert.deepEqual(podsOf(a, b), pods);
  });

  test('end trust at once when a relationship is removed', async () => {
    await succeeds(b, a);
    // Nobody declared this one, so it stays.
    await a.spire.run(
      'federation',
      'create',
      '-trustDomain=hand.example',
      '-bundleEndpointURL=https://127.0.0.1:1/',
      '-bundleEndpointProfile=https_web',
    );
    await a.federate([]);
    await isGone(a, b);
    const list = await a.spire.run('federation', 'list');
    assert.doesNotMatch(list, /b\.example/);
    assert.match(list, /hand\.example/);
    assert.doesNotMatch(await a.spire.run('bundle', 'list'), /b\.example/);
    const entry = await a.spire.run('entry', 'show', `-spiffeID=${idOf(a)}`);
    assert.doesNotMatch(entry, /b\.example/);
    await isRefused(b, a);
    assert.deepEqual(podsOf(a, b), pods);
  });

  test('trust each other again when it is added again, without a bootstrap bundle', async () => {
    await a.federate([bare(known.b)]);
    await a.untilFresh(b);
    await succeeds(b, a);
    await succeeds(a, b);
    assert.deepEqual(podsOf(a, b), pods);
  });

  test('withhold a bundle that is stale, where their SpireServer says so', async () => {
    await a.federate([bare(known.b)], { withholdStaleBundles: true });
    await cut(a, b);
    // For the sidecar, two hours have passed since.
    a.spire.kubelet.setEnv('hansa', shiftedClock(2 * hourMs));
    process.kill(a.spire.kubelet.pid(podName, 'hansa'), 'SIGKILL');
    await a.spire.reports(b.trustDomain, (status) => status?.withheld === true);
    // SPIRE goes on with the bundle, and no workload gets it.
    assert.match(await a.spire.run('bundle', 'list'), /b\.example/);
    await isRefused(b, a);
    await mend(a, b, '203.0.113.2');
    // A sidecar that starts does not wait as long as one whose attempts failed.
    process.kill(a.spire.kubelet.pid(podName, 'hansa'), 'SIGKILL');
    await a.spire.reports(b.trustDomain, (status) => status?.withheld === undefined);
    await succeeds(b, a);
    a.spire.kubelet.setEnv('hansa', {});
    process.kill(a.spire.kubelet.pid(podName, 'hansa'), 'SIGKILL');
    assert.deepEqual(podsOf(a, b), pods);
  });

  test('keep relationships over one restart for another configuration', async () => {
    const first = a.spire.kubelet.uid(podName);
    await a.federate([bare(known.b)], { endpoint: { refreshHint: 120 } });
    await until(
      () => ![undefined, first].includes(a.spire.kubelet.uid(podName)),
      'another Pod runs',
    );
    const second = a.spire.kubelet.uid(podName);
    await a.spire.ready();
    assert.match(await a.spire.run('federation', 'list'), /b\.example/);
    await a.spire.run('federation', 'refresh', '-id', b.trustDomain);
    await a.untilFresh(b);
    await succeeds(b, a);
    assert.equal(a.spire.kubelet.uid(podName), second);
    assert.equal(a.spire.kubelet.restarts(podName, 'spire-server'), 0);
  });

  test('stop to federate without `federation`, go on to issue, and federate again', async () => {
    await a.declare(undefined);
    await a.untilCondition('FederationServiceReady', 'False', 'NotFederated');
    assert.equal(await a.has('service/spire-server-federation'), false);
    await isGone(a, b);
    await isRefused(b, a);
    await a.spire.ready();
    assert.doesNotMatch(await a.spire.run('bundle', 'list'), /b\.example/);
    await a.spire.run('x509', 'mint', `-spiffeID=${idOf(a, 'minted')}`);
    await a.federate([bare(known.b)]);
    await a.untilCondition('FederationServiceReady', 'True', 'Ready');
    await a.untilFresh(b);
    await succeeds(b, a);
  });

  test('adopt a federation made by hand, without losing trust', async () => {
    const path = '/api/v1/namespaces/spire/configmaps/spire-server-federation-kept-bundles';
    const { cluster, kubelet } = b.spire;
    const records = async () =>
      (await cluster.get<{ data?: Record<string, string> }>(path)).data ?? {};
    // The sidecar forgets that it made the relationship.
    const found = await records();
    const nothing = Object.fromEntries(Object.keys(found).map((key) => [key, null]));
    await cluster.send('PATCH', path, { data: nothing });
    process.kill(kubelet.pid(podName, 'hansa'), 'SIGKILL');
    await until(async () => JSON.stringify(await records()).includes('a.example'), 'it is adopted');
    await b.untilFresh(a);
    await succeeds(a, b);
    await b.federate([]);
    await isGone(b, a);
    await isRefused(a, b);
  });

  test('federate by the bundles that hansa spire bootstrap exchanges', async () => {
    const file = join(temporaryFolder(), 'kubeconfig');
    const parts = [b, c].map(({ spire: { cluster } }) => ({
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
    const command = ['spire', 'bootstrap', '--kubeconfig', file, '--from', 'b', '--to', 'c'];
    const endpoints = ['--from-url', b.spire.endpoint, '--to-url', c.spire.endpoint];
    const ran = await hansa([...command, ...endpoints, '--yes']);
    assert.equal(ran.code, 0, ran.stderr);
    assert.match(ran.stderr, /fingerprint/);
    await b.untilFresh(c);
    await c.untilFresh(b);
    assert.match(await c.spire.run('bundle', 'list'), /b\.example/);
  });
});

function bare(relationship: Relationship): Relationship {
  const { bundle: _, ...others } = relationship;
  return others;
}

async function route(from: OperatedSpire, to: readonly string[]): Promise<void> {
  const { code, stderr } = await from.spire.kubelet.host.run('ip', ['route', 'replace', ...to]);
  assert.equal(code, 0, stderr);
}
