// What a site does when others own or change objects of the SPIRE server that it operates. Real kube-apiserver,
// StatefulSet controller and spire-server.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { namespace } from '../../src/kubernetes/spire/test-spire-servers.ts';
import { whyNoHosts } from '../e2e/separate-host.ts';
import { until } from '../e2e/until.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { type OperatedSpire, OperatorSite } from './operated-spire.ts';
import { podName } from './spire-cluster.ts';
import { missingTools } from './tool.ts';

const skip =
  whyNoHosts() ||
  (await missingTools(
    'etcd',
    'kube-apiserver',
    'kube-controller-manager',
    'kubectl',
    'spire-server',
  ));

suite('the SPIRE server of a site beside changes by others', { skip }, () => {
  let etcd: Etcd;
  let site: OperatorSite;
  let a: OperatedSpire;

  const pod = () => [
    a.spire.kubelet.uid(podName),
    a.spire.kubelet.restarts(podName, 'spire-server'),
  ];

  before(async () => {
    etcd = await startEtcd();
    site = await OperatorSite.start();
    a = await site.add('a', etcd);
  });
  after(async () => {
    await site?.stop();
    await etcd?.stop();
  });

  test('leaves a StatefulSet of somebody else alone, and says so', async () => {
    const labels = { app: 'theirs' };
    const theirs = {
      apiVersion: 'apps/v1',
      kind: 'StatefulSet',
      metadata: { name: 'spire-server', namespace },
      spec: {
        replicas: 0,
        serviceName: 'theirs',
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: { containers: [{ name: 'theirs', image: 'theirs:1' }] },
        },
      },
    };
    await a.kubectl.ok(['create', '-f', '-'], { input: JSON.stringify(theirs) });
    await a.federate([]);
    const { message } = await a.untilCondition('FederationObjectsInSync', 'False', 'OwnedByOthers');
    assert.match(message, /StatefulSet spire\/spire-server.*spire\.hansa\.dev\/adopt=true/);
    const image = 'jsonpath={.spec.template.spec.containers[*].image}';
    const get = ['get', 'statefulset/spire-server', '-n', namespace, '-o', image];
    assert.equal(await a.kubectl.ok(get), 'theirs:1');
    await a.kubectl.ok(['delete', 'statefulset/spire-server', '-n', namespace]);
    // The site looks again when the SpireServer changes, or after a minute.
    await a.kubectl.ok(['annotate', 'spireserver/cluster', 'example.com/look=again']);
    await a.untilCondition('FederationServiceReady', 'True', 'Ready');
    assert.match(await a.kubectl.ok(get), /spire-server:1/);
  });

  test('goes on with its configuration when somebody edits server.conf', async () => {
    const first = pod();
    const map = ['configmap/spire-server', '-n', namespace];
    const conf = () => a.kubectl.ok(['get', ...map, '-o', 'jsonpath={.data.server\\.conf}']);
    const wanted = await conf();
    await a.kubectl.ok(['patch', ...map, '--type=merge', '-p', '{"data":{"server.conf":"x"}}']);
    await until(async () => (await conf()) === wanted, 'server.conf is as before');
    assert.deepEqual(pod(), first);
  });
});
