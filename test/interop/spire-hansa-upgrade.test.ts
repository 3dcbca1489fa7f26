// A site of the previous build of Hansa and one of this build operate a SPIRE server each, and these federate. Then the
// older site updates in place, with the sidecar. The previous build comes from the git history. Real kube-apiserver,
// StatefulSet controller, spire-server and spire-agent.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { launcher } from '../e2e/daemon.ts';
import {
  previousOperator,
  unpackPreviousBuild,
  whyNoPreviousBuild,
} from '../e2e/previous-build.ts';
import { whyNoHosts } from '../e2e/separate-host.ts';
import { until } from '../e2e/until.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { type OperatedSpire, OperatorSite } from './operated-spire.ts';
import { podName } from './spire-cluster.ts';
import { missingTools } from './tool.ts';
import { WorkloadCalls } from './workload-calls.ts';

const skip =
  whyNoHosts() ||
  whyNoPreviousBuild() ||
  (await missingTools(
    'etcd',
    'kube-apiserver',
    'kube-controller-manager',
    'kubectl',
    'spire-server',
    'spire-agent',
    'go-spiffe',
  ));

/** Containers have a /tmp of their own. */
const outsideOfTmp = '/var/tmp';

suite('SPIRE servers of two versions of Hansa', { skip }, () => {
  let etcd: Etcd;
  let sites: readonly OperatorSite[] = [];
  /** Of the site that updates. */
  let a: OperatedSpire;
  let b: OperatedSpire;
  const calls = new WorkloadCalls();

  before(async () => {
    etcd = await startEtcd();
    const previous = unpackPreviousBuild(outsideOfTmp, previousOperator);
    const images = { 'hansa:0': [previous] };
    const [older, newer] = await Promise.all([
      OperatorSite.start({ launched: previous, sidecarImage: 'hansa:0' }),
      OperatorSite.start(),
    ]);
    sites = [older, newer];
    [a, b] = await Promise.all([older.add('a', etcd, { images }), newer.add('b', etcd)]);
    a.spire.kubelet.host.connect(b.spire.kubelet.host, '203.0.113');
    for (const one of [a, b]) {
      await one.federate([]);
      await until(() => one.has('pod/spire-server-0'), `the Pod of ${one.name} is made`);
      await one.spire.ready();
    }
  });
  after(async () => {
    for (const site of sites) await site.stop();
    await etcd?.stop();
  });

  const processOf = ({ pod, spire: { kubelet } }: OperatedSpire): string =>
    `${pod} ${kubelet.pid(podName, 'spire-server')}`;

  test('federate, and their workloads call each other', async () => {
    await a.federate([await b.spire.relationship()]);
    await b.federate([await a.spire.relationship()]);
    await a.untilFresh(b);
    await b.untilFresh(a);
    await a.spire.startAgent({ web: [b.trustDomain] });
    await b.spire.startAgent({ web: [a.trustDomain] });
    await calls.succeeds(a, b);
    await calls.succeeds(b, a);
  });

  test('go on through the update of one site and its sidecar, with one restart', async () => {
    const [authority, templates, pod] = [
      await a.spire.run('bundle', 'show'),
      await a.templates(),
      a.pod,
    ];
    const behind = processOf(b);
    await sites[0]?.restart({ launched: launcher, sidecarImage: 'hansa:1' });
    const isReplaced = async (): Promise<boolean> => ![undefined, pod].includes(a.pod);
    const failed = await calls.during(a, b, isReplaced, 'another Pod of a runs');
    await a.replaced(pod);
    await a.untilCondition('FederationObjectsInSync', 'True', 'AsWanted');
    await a.untilFresh(b);
    assert.deepEqual(failed, []);
    assert.equal(await a.spire.run('bundle', 'show'), authority);
    assert.equal(await a.templates(), templates + 1);
    assert.match(await a.spire.run('federation', 'list'), /b\.example/);
    assert.equal(processOf(b), behind, 'the other cluster restarts nothing');
    await calls.succeeds(a, b);
    await calls.succeeds(b, a);
  });

  test('take the new CRD and rights without a restart, and new relationships work', async () => {
    const updated = processOf(a);
    await a.install();
    await a.untilCondition('FederationObjectsInSync', 'True', 'AsWanted');
    await a.federate([]);
    await calls.refused(b, a);
    await a.federate([await b.spire.relationship()]);
    await a.untilFresh(b);
    await calls.succeeds(b, a);
    assert.equal(processOf(a), updated);
  });
});
