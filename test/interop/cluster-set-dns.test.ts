// CoreDNS as the DNS of a cluster set: it answers for clusterset.local from ServiceImports and their
// EndpointSlices, which other tests rely on.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { until } from '../e2e/until.ts';
import { type ClusterDns, startClusterDns } from './coredns.ts';
import { type KubeApiserver, startKubeApiserver } from './kube-apiserver.ts';
import { moduleCrds, whyNoCrds } from './module-crds.ts';
import { missingTools } from './tool.ts';

const skip = whyNoCrds('mcs') || (await missingTools('etcd', 'kube-apiserver', 'coredns'));

suite('CoreDNS for clusterset.local', { skip }, () => {
  let kube: KubeApiserver;
  let dns: ClusterDns;

  before(async () => {
    kube = await startKubeApiserver(moduleCrds('mcs'));
    dns = await startClusterDns(kube.kubeconfig, { hasClusterSet: true });
  });
  after(async () => {
    await dns?.stop();
    await kube?.stop();
  });

  const create = async (group: string, plural: string, object: object): Promise<void> => {
    const path = `/apis/${group}/namespaces/default/${plural}`;
    const body = JSON.stringify({ apiVersion: group, ...object });
    const { status, text } = await kube.client.send({ method: 'POST', path, body });
    assert.equal(status, 201, text);
  };
  const createImport = (name: string, spec: object): Promise<void> =>
    create('multicluster.x-k8s.io/v1alpha1', 'serviceimports', {
      kind: 'ServiceImport',
      metadata: { name },
      spec: { ports: [{ port: 80 }], ...spec },
    });
  const resolves = (name: string, ...expected: readonly string[]): Promise<void> =>
    until(async () => {
      const addresses = await dns.resolver.resolve4(name).catch((): string[] => []);
      return addresses.toSorted().join() === expected.join();
    }, `${name} is ${expected.join()}`);

  test('a ServiceImport with an IP resolves to it', async () => {
    await createImport('shop', { type: 'ClusterSetIP', ips: ['10.0.0.77'] });
    await resolves('shop.default.svc.clusterset.local', '10.0.0.77');
    await assert.rejects(dns.resolver.resolve4('other.default.svc.clusterset.local'), {
      code: 'ENOTFOUND',
    });
  });

  test('a headless ServiceImport resolves to the endpoints of its slices', async () => {
    await createImport('nodes', { type: 'Headless' });
    await create('discovery.k8s.io/v1', 'endpointslices', {
      kind: 'EndpointSlice',
      metadata: {
        name: 'nodes-west',
        labels: {
          'multicluster.kubernetes.io/service-name': 'nodes',
          'multicluster.kubernetes.io/source-cluster': 'west',
        },
      },
      addressType: 'IPv4',
      endpoints: [{ addresses: ['192.0.2.10'] }, { addresses: ['192.0.2.11'] }],
      ports: [{ port: 80 }],
    });
    await resolves('nodes.default.svc.clusterset.local', '192.0.2.10', '192.0.2.11');
  });
});
