// Which namespaces' workloads may federate, as `federation.namespaceSelector` of a SpireServer says: a site reads
// labels of Namespaces, and the sidecar changes entries of a real SPIRE server.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { whyNoHosts } from '../e2e/separate-host.ts';
import { until } from '../e2e/until.ts';
import { type Etcd, startEtcd } from './etcd.ts';
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
  ));

const namespaceSelector = { matchLabels: { federate: 'yes' } };

suite('namespaces whose workloads may federate', { skip }, () => {
  let etcd: Etcd;
  let site: OperatorSite;
  let a: OperatedSpire;
  let b: OperatedSpire;

  const addEntry = (name: string, ...selectors: readonly string[]): Promise<string> =>
    a.spire.run(
      'entry',
      'create',
      '-parentID=spiffe://a.example/agent',
      `-spiffeID=spiffe://a.example/${name}`,
      ...selectors.map((selector) => `-selector=${selector}`),
      '-federatesWith=spiffe://b.example',
    );
  const federating = async (): Promise<readonly string[]> => {
    const { entries } = JSON.parse(await a.spire.run('entry', 'show', '-output', 'json')) as {
      readonly entries: readonly {
        readonly spiffe_id: { readonly path: string };
        readonly federates_with: readonly string[];
      }[];
    };
    return entries
      .filter((entry) => entry.federates_with.length > 0)
      .map((entry) => entry.spiffe_id.path.slice(1))
      .toSorted();
  };
  const untilFederating = async (...names: readonly string[]): Promise<void> => {
    let last: readonly string[] = [];
    await until(
      async () => {
        last = await federating();
        return last.join() === names.join();
      },
      () => `${names.join()} federate: ${last.join()}`,
    );
  };
  const declare = async (fields: object): Promise<void> =>
    a.federate([await b.spire.relationship()], { ...fields });

  before(async () => {
    etcd = await startEtcd();
    site = await OperatorSite.start();
    [a, b] = await Promise.all([site.add('a', etcd), site.add('b', etcd)]);
    await Promise.all([a.federate([]), b.federate([])]);
    await Promise.all([a.spire.ready(), b.spire.ready()]);
    a.spire.kubelet.host.connect(b.spire.kubelet.host, '203.0.113');
    for (const name of ['web', 'dev']) await a.kubectl.ok(['create', 'namespace', name]);
    await a.kubectl.ok(['label', 'namespace', 'web', 'federate=yes']);
    await declare({});
    await a.untilFresh(b);
    await addEntry('web', 'k8s:ns:web', 'k8s:sa:web');
    await addEntry('dev', 'k8s:ns:dev');
    await addEntry('anywhere', 'unix:uid:1000');
  });
  after(async () => {
    await site?.stop();
    await etcd?.stop();
  });

  test('are all, without a selector', async () => {
    assert.deepEqual(await federating(), ['anywhere', 'dev', 'web']);
  });

  test('are only the selected ones, with a selector', async () => {
    await declare({ namespaceSelector });
    await untilFederating('web');
    // The relationship goes on, and the status says what is left out.
    await until(async () => {
      const found = await a.condition('FederationRelationshipsReady');
      return found?.status === 'True' && /2 entries do not federate/.test(found.message);
    }, 'the condition names the entries');
    await addEntry('late', 'k8s:ns:dev', 'k8s:sa:late');
    await until(
      async () => (await federating()).join() === 'web',
      'an entry that comes later does not federate',
    );
  });

  test('follow the labels of Namespaces', async () => {
    await a.kubectl.ok(['label', 'namespace', 'dev', 'federate=yes']);
    await untilFederating('dev', 'late', 'web');
    await a.kubectl.ok(['label', 'namespace', 'web', 'federate-']);
    await untilFederating('dev', 'late');
    await a.kubectl.ok(['delete', 'namespace', 'dev', '--wait=false']);
    await a.kubectl.ok(['label', 'namespace', 'dev', 'federate-']);
    await untilFederating();
  });

  test('are all again without the selector, and entries get back what they lost', async () => {
    await declare({});
    await untilFederating('anywhere', 'dev', 'late', 'web');
    await a.untilFresh(b);
  });
});
