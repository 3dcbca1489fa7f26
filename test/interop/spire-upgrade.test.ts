// A site upgrades the SPIRE server of its cluster, by another image, while the cluster of another site stays a version
// behind. Where the PATH has a SPIRE of another version than the one that the tests build, the upgrade is from the
// built one to that. Otherwise, both images are of one version. Real kube-apiserver, StatefulSet controller,
// spire-server and spire-agent.

import assert from 'node:assert/strict';
import { existsSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { namespace } from '../../src/kubernetes/spire/test-spire-servers.ts';
import { repository } from '../e2e/daemon.ts';
import { whyNoHosts } from '../e2e/separate-host.ts';
import { until } from '../e2e/until.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { type OperatedSpire, OperatorSite } from './operated-spire.ts';
import { podName, spireServerEntryPoint } from './spire-cluster.ts';
import { missingTools, requireTool } from './tool.ts';
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

/** The one that the tests built is the older one. */
async function twoServers(): Promise<readonly [older: string, newer: string]> {
  const newer = await requireTool('spire-server');
  const built = join(repository, '.tools', 'bin', 'spire-server');
  return [existsSync(built) ? built : newer, newer];
}

suite('The upgrade of a SPIRE server', { skip }, () => {
  let etcd: Etcd;
  let sites: readonly OperatorSite[] = [];
  let a: OperatedSpire;
  let b: OperatedSpire;
  let servers: readonly [older: string, newer: string];
  const calls = new WorkloadCalls();

  before(async () => {
    etcd = await startEtcd();
    servers = await twoServers();
    const [older, newer] = servers;
    const images = {
      'spire-server:1': spireServerEntryPoint(older),
      'spire-server:2': spireServerEntryPoint(newer),
    };
    const [siteA, siteB] = [await OperatorSite.start(), await OperatorSite.start()];
    sites = [siteA, siteB];
    [a, b] = await Promise.all([
      siteA.add('a', etcd, { images }),
      siteB.add('b', etcd, { images }),
    ]);
    a.spire.kubelet.host.connect(b.spire.kubelet.host, '203.0.113');
    for (const one of [a, b]) {
      await one.federate([]);
      await until(() => one.has('pod/spire-server-0'), `the Pod of ${one.name} is made`);
      await one.spire.ready();
    }
    await a.federate([await b.spire.relationship()]);
    await b.federate([await a.spire.relationship()]);
    await a.untilFresh(b);
    await b.untilFresh(a);
    await a.spire.startAgent({ web: [b.trustDomain] });
    await b.spire.startAgent({ web: [a.trustDomain] });
    await calls.succeeds(a, b);
    await calls.succeeds(b, a);
  });
  after(async () => {
    for (const site of sites) await site.stop();
    await etcd?.stop();
  });

  const imageOf = ({ kubectl }: OperatedSpire): Promise<string> =>
    kubectl.ok([
      'get',
      `pod/${podName}`,
      '-n',
      namespace,
      '-o',
      'jsonpath={.spec.containers[?(@.name=="spire-server")].image}',
    ]);
  const programOf = ({ spire: { kubelet } }: OperatedSpire): string =>
    readlinkSync(`/proc/${kubelet.pid(podName, 'spire-server')}/exe`);
  const processOf = (one: OperatedSpire): string =>
    `${one.pod} ${one.spire.kubelet.pid(podName, 'spire-server')}`;

  test('is one restart, keeps the authority, and fails no call', async () => {
    const [authority, templates, pod] = [
      await a.spire.run('bundle', 'show'),
      await a.templates(),
      a.pod,
    ];
    const behind = processOf(b);
    assert.equal(programOf(a), servers[0]);
    await sites[0]?.restart({ serverImage: 'spire-server:2' });
    const isReplaced = async (): Promise<boolean> => ![undefined, pod].includes(a.pod);
    const failed = await calls.during(a, b, isReplaced, 'another Pod of a runs');
    await a.replaced(pod);
    await a.untilCondition('FederationServiceReady', 'True', 'Ready');
    assert.deepEqual(failed, []);
    assert.equal(await imageOf(a), 'spire-server:2');
    assert.equal(programOf(a), servers[1]);
    assert.equal(await a.spire.run('bundle', 'show'), authority);
    assert.equal(await a.templates(), templates + 1);
    assert.equal(processOf(b), behind, 'the other cluster restarts nothing');
  });

  test('leaves relationships as they are, with a cluster that is a version behind', async () => {
    assert.equal(await imageOf(b), 'spire-server:1');
    assert.equal(programOf(b), servers[0]);
    const upgraded = processOf(a);
    for (const [one, other] of [
      [a, b],
      [b, a],
    ] as const) {
      assert.match(await one.spire.run('federation', 'list'), new RegExp(other.trustDomain));
      await one.spire.run('federation', 'refresh', '-id', other.trustDomain);
      await one.untilFresh(other);
      await calls.succeeds(one, other);
    }
    assert.equal(processOf(a), upgraded);
  });

  test('takes new relationships and entries, and issues SVIDs', async () => {
    await a.spire.run('x509', 'mint', `-spiffeID=spiffe://${a.trustDomain}/minted`);
    await a.federate([]);
    await calls.refused(b, a);
    await a.federate([await b.spire.relationship()]);
    await a.untilFresh(b);
    await calls.succeeds(b, a);
  });
});
