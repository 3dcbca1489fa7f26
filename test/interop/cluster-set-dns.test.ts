// CoreDNS as the DNS of a cluster set: it answers for clusterset.local from ServiceImports and their
// EndpointSlices, which other tests rely on. dig asks it.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { until } from '../e2e/until.ts';
import { type ClusterDns, startClusterDns } from './coredns.ts';
import { type Dig, digAt, whyNoDig } from './dig.ts';
import { type KubeApiserver, startKubeApiserver } from './kube-apiserver.ts';
import { moduleCrds, whyNoCrds } from './module-crds.ts';
import { missingTools } from './tool.ts';

const skip =
  whyNoCrds('mcs') || whyNoDig() || (await missingTools('etcd', 'kube-apiserver', 'coredns'));

suite('CoreDNS for clusterset.local', { skip }, () => {
  let kube: KubeApiserver;
  let dns: ClusterDns;
  let asks: Dig;

  before(async () => {
    kube = await startKubeApiserver(moduleCrds('mcs'));
    dns = await startClusterDns(kube.kubeconfig, { hasClusterSet: true });
    asks = digAt(dns.port);
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
  const answers = (type: string, name: string, ...expected: readonly string[]): Promise<void> =>
    until(
      async () => (await asks.dig(name, type)).join() === expected.join(),
      `${name} is ${expected.join()}`,
    );

  test('a ServiceImport with an IP resolves to it', async () => {
    await createImport('shop', { type: 'ClusterSetIP', ips: ['10.0.0.77'] });
    await answers('A', 'shop.default.svc.clusterset.local', '10.0.0.77');
    assert.equal(await asks.statusOf('other.default.svc.clusterset.local'), 'NXDOMAIN');
    assert.equal(await asks.statusOf('shop.other.svc.clusterset.local'), 'NXDOMAIN');
  });

  test('a named port of a ServiceImport has an SRV record', async () => {
    await createImport('till', {
      type: 'ClusterSetIP',
      ips: ['10.0.0.78'],
      ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    });
    const name = 'till.default.svc.clusterset.local';
    await answers('SRV', `_http._tcp.${name}`, `0 100 8080 ${name}.`);
    assert.deepEqual(await asks.dig(`_other._tcp.${name}`, 'SRV'), []);
    assert.deepEqual(await asks.dig(`_http._udp.${name}`, 'SRV'), []);
  });

  test('a headless ServiceImport resolves to the endpoints of its slices', async () => {
    await createImport('nodes', { type: 'Headless', ports: [{ name: 'http', port: 80 }] });
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
      endpoints: [
        { addresses: ['192.0.2.10'], hostname: 'nodes-0' },
        { addresses: ['192.0.2.11'], hostname: 'nodes-1' },
      ],
      ports: [{ name: 'http', port: 80 }],
    });
    const name = 'nodes.default.svc.clusterset.local';
    await answers('A', name, '192.0.2.10', '192.0.2.11');
    // KEP-1645: HOSTNAME.CLUSTER.SERVICE.NAMESPACE.svc.clusterset.local.
    await answers('A', `nodes-0.west.${name}`, '192.0.2.10');
    assert.equal(await asks.statusOf(`nodes-0.east.${name}`), 'NXDOMAIN');
    assert.equal(await asks.statusOf(`nodes-2.west.${name}`), 'NXDOMAIN');
    await answers(
      'SRV',
      `_http._tcp.${name}`,
      `0 50 80 nodes-0.west.${name}.`,
      `0 50 80 nodes-1.west.${name}.`,
    );
  });
});
