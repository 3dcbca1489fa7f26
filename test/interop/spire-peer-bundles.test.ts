// Two sites that are peers operate a SPIRE server each, and publish its bundle to the other under a grant. So their
// SPIRE servers federate, and nobody copies a bundle. Real sites, kube-apiserver, StatefulSet controller, spire-server
// and spire-agent. Workloads with go-spiffe call each other.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { Relationship } from '../../src/kubernetes/spire-relationships/parse-relationship.ts';
import {
  relationshipsKey,
  relationshipsMapName,
} from '../../src/kubernetes/spire-relationships/sidecar-contract.ts';
import { namespace } from '../../src/kubernetes/spire/test-spire-servers.ts';
import { hansa } from '../e2e/daemon.ts';
import { freePort } from '../e2e/free-ports.ts';
import { whyNoHosts } from '../e2e/separate-host.ts';
import { until } from '../e2e/until.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { type OperatedSpire, OperatorSite } from './operated-spire.ts';
import { podName } from './spire-cluster.ts';
import { missingTools } from './tool.ts';
import { WorkloadCalls } from './workload-calls.ts';

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

async function startPeer(trustDomain: string): Promise<OperatorSite> {
  const address = `127.0.0.1:${await freePort()}`;
  const listener = ['--federation', address, '--advertise', `https://${address}`];
  return OperatorSite.start({ flags: ['--trust-domain', trustDomain, ...listener] });
}

suite('SPIRE servers of two peered sites', { skip }, () => {
  let etcd: Etcd;
  let sites: readonly OperatorSite[] = [];
  let lubeck: OperatorSite;
  let bruges: OperatorSite;
  /** Of lubeck. */
  let a: OperatedSpire;
  /** Of bruges. */
  let b: OperatedSpire;
  /** How others federate with them, without a bundle. */
  let known: Readonly<Record<'a' | 'b', Relationship>>;
  let pods: readonly (string | number | undefined)[];
  const calls = new WorkloadCalls();

  const stateOf = async (site: OperatorSite, peer: string): Promise<string | undefined> => {
    const { peers } = JSON.parse(await site.run('peer', 'list', '-o', 'json')) as {
      readonly peers: readonly { readonly name: string; readonly state: string }[];
    };
    return peers.find(({ name }) => name === peer)?.state;
  };
  const grant = async (site: OperatorSite, peer: string, cluster: string): Promise<void> => {
    const to = ['--peer', peer, '--cluster', cluster];
    const axes = ['--identity', `spiffe://${peer}/hansa/site`, '--any-network', '--any-address'];
    await site.run('grant', 'create', `spire-${cluster}`, ...to, ...axes, '--yes');
  };
  const hasBundle = async (one: OperatedSpire, other: OperatedSpire): Promise<boolean> =>
    (await one.spire.run('bundle', 'list')).includes(other.trustDomain);
  /** Whether the site hands the sidecar a bundle for its relationship. */
  const handsOver = async ({ spire: { cluster } }: OperatedSpire): Promise<boolean> => {
    const path = `/api/v1/namespaces/${namespace}/configmaps/${relationshipsMapName}`;
    const { data } = await cluster.get<{ readonly data: Readonly<Record<string, string>> }>(path);
    const { relationships } = JSON.parse(data[relationshipsKey] ?? '') as {
      readonly relationships: readonly { readonly bundle?: string }[];
    };
    assert.equal(relationships.length, 1);
    return relationships[0]?.bundle !== undefined;
  };
  /** How many X.509 authorities of a trust domain SPIRE has. */
  const authoritiesAt = async (one: OperatedSpire, other: OperatedSpire): Promise<number> => {
    const id = `spiffe://${other.trustDomain}`;
    const shown = await one.spire.run('bundle', 'list', '-id', id, '-format', 'pem');
    return shown.split('BEGIN CERTIFICATE').length - 1;
  };
  const podsOf = (...some: readonly OperatedSpire[]) =>
    some.flatMap(({ pod, spire: { kubelet } }) => [pod, kubelet.pid(podName, 'spire-server')]);

  before(async () => {
    etcd = await startEtcd();
    [lubeck, bruges] = await Promise.all([
      startPeer('lubeck.example'),
      startPeer('bruges.example'),
    ]);
    sites = [lubeck, bruges];
    [a, b] = await Promise.all([lubeck.add('a', etcd), bruges.add('b', etcd)]);
    a.spire.kubelet.host.connect(b.spire.kubelet.host, '203.0.113');
    for (const one of [a, b]) {
      await one.federate([]);
      await until(() => one.has('pod/spire-server-0'), `the Pod of ${one.name} is made`);
      await one.spire.ready();
    }
    pods = podsOf(a, b);
    const [{ bundle: _a, ...ofA }, { bundle: _b, ...ofB }] = await Promise.all([
      a.spire.relationship(),
      b.spire.relationship(),
    ]);
    known = { a: ofA, b: ofB };
    const stdin = await lubeck.run('peer', 'invite', '--for', 'bruges.example', '--yes');
    const accept = ['peer', 'accept', '--yes', '--data-dir', bruges.daemon.dataDir];
    const { code, stderr } = await hansa(accept, { stdin: stdin.trim() });
    assert.equal(code, 0, stderr);
    for (const [site, peer] of [
      [lubeck, 'bruges.example'],
      [bruges, 'lubeck.example'],
    ] as const) {
      await until(async () => (await stateOf(site, peer)) === 'active', `${peer} is active`);
    }
  });
  after(async () => {
    for (const site of sites) await site.stop();
    await etcd?.stop();
  });

  test('get no bundle of each other without a grant, and say what is missing', async () => {
    await a.install('--bundle-peer', 'bruges.example');
    await b.install('--bundle-peer', 'lubeck.example');
    await a.federate([known.b]);
    await b.federate([known.a]);
    const warning = await a.untilCondition('FederationWarnings', 'True', 'NotBootstrapped');
    assert.match(warning.message, /b\.example/);
    await b.untilCondition('FederationWarnings', 'True', 'NotBootstrapped');
    assert.equal(await hasBundle(a, b), false);
    assert.equal(await hasBundle(b, a), false);
  });

  test('a grant of one site bootstraps one direction', async () => {
    await grant(lubeck, 'bruges.example', 'a');
    await b.untilFresh(a);
    const catalog = await bruges.run('peer', 'catalog', 'lubeck.example');
    assert.match(catalog, /^cluster +a +read .*SPIRE server of a\.example/m);
    await b.untilCondition('FederationWarnings', 'False', 'None');
    assert.equal(await hasBundle(a, b), false);
    assert.equal((await a.condition('FederationWarnings'))?.reason, 'NotBootstrapped');
  });

  test('with a grant of each, they federate without a restart, and workloads call each other', async () => {
    await grant(bruges, 'lubeck.example', 'b');
    await a.untilFresh(b);
    await a.untilCondition('FederationRelationshipsReady', 'True', 'Fresh');
    await a.spire.startAgent({ web: [b.trustDomain] });
    await b.spire.startAgent({ web: [a.trustDomain] });
    await calls.succeeds(a, b);
    await calls.succeeds(b, a);
    assert.deepEqual(podsOf(a, b), pods);
  });

  test('get no more bundles of the peer once SPIRE has refreshed its own, also after a restart of the site', async () => {
    await until(async () => !(await handsOver(a)), 'the site hands over no bundle');
    await b.spire.run('localauthority', 'x509', 'prepare');
    await a.spire.run('federation', 'refresh', '-id', b.trustDomain);
    await until(async () => (await authoritiesAt(a, b)) === 2, 'a has the new authority of b');
    await lubeck.restart();
    // The site writes into the status of the SpireServer when it has compared everything.
    await a.federate([known.b], { withholdStaleBundles: true });
    const { metadata } = (await a.server()) as unknown as { metadata: { generation: number } };
    await until(async () => {
      const found = await a.condition('FederationRelationshipsReady');
      const { observedGeneration } = (found ?? {}) as { readonly observedGeneration?: number };
      return found?.reason === 'Fresh' && observedGeneration === metadata.generation;
    }, 'the site has compared the SpireServer again');
    assert.equal(await handsOver(a), false);
    assert.equal(await authoritiesAt(a, b), 2);
    await calls.succeeds(b, a);
  });

  test('go on when the grants end and the peer is suspended, as SPIRE has its own bundles', async () => {
    await bruges.run('grant', 'delete', 'spire-b', '--yes');
    await lubeck.run('grant', 'delete', 'spire-a', '--yes');
    await lubeck.run('peer', 'suspend', 'bruges.example', '--yes');
    await a.spire.run('federation', 'refresh', '-id', b.trustDomain);
    await calls.succeeds(a, b);
    await calls.succeeds(b, a);
    assert.deepEqual(podsOf(a, b), pods);
  });

  test('stop when federatesWith drops the trust domain, whatever a peer publishes', async () => {
    await lubeck.run('peer', 'resume', 'bruges.example', '--yes');
    await grant(bruges, 'lubeck.example', 'b');
    await a.federate([]);
    await a.spire.reports(b.trustDomain, (status) => status?.kept === true && !status.hasBundle);
    await calls.refused(b, a);
    assert.equal(await hasBundle(a, b), false);
  });
});
