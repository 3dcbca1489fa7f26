// The clusters that other tests build on: EndpointSlices, namespaces, garbage collection, ClusterIPs and DNS
// work as in any cluster, and two clusters on one etcd are separate.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createServer, type Server } from 'node:net';
import { after, before, suite, test } from 'node:test';
import { whyNoHosts } from '../e2e/separate-host.ts';
import { until } from '../e2e/until.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { type KubeCluster, startKubeCluster } from './kube-cluster.ts';
import { missingTools } from './tool.ts';

const skip =
  whyNoHosts() ||
  (spawnSync('nft', ['--version']).error !== undefined && 'SKIPPED: no nft here') ||
  (await missingTools(
    'etcd',
    'kube-apiserver',
    'kube-controller-manager',
    'kwok',
    'kube-proxy',
    'coredns',
  ));

interface List<T> {
  readonly items: readonly T[];
}
interface EndpointSlice {
  readonly ports: readonly { readonly port: number }[];
  readonly endpoints: readonly {
    readonly addresses: readonly string[];
    readonly conditions: { readonly ready: boolean };
    readonly nodeName: string;
  }[];
}

suite('clusters of tests', { skip }, () => {
  let etcd: Etcd;
  let north: KubeCluster;
  let south: KubeCluster;
  let backend: Server | undefined;

  before(async () => {
    etcd = await startEtcd();
    [north, south] = await Promise.all([
      startKubeCluster('north', { etcd, nodes: 2, hasProxy: true, hasDns: true }),
      startKubeCluster('south', { etcd, nodes: 1 }),
    ]);
  });
  after(async () => {
    backend?.close();
    await Promise.all([north?.stop(), south?.stop()]);
    await etcd?.stop();
  });

  const untilGone = (cluster: KubeCluster, path: string): Promise<void> =>
    until(
      async () => (await cluster.client.send({ method: 'GET', path })).status === 404,
      `${path} is gone`,
    );
  const newNamespace = (cluster: KubeCluster, name: string): Promise<unknown> =>
    cluster.create('/api/v1/namespaces', {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name },
    });
  /** Selects the pods with the label app=NAME. Returns its ClusterIP. */
  const newService = async (
    cluster: KubeCluster,
    namespace: string,
    name: string,
    targetPort: number,
  ): Promise<string> => {
    const { spec } = await cluster.create<{ spec: { clusterIP: string } }>(
      `/api/v1/namespaces/${namespace}/services`,
      {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name },
        spec: { selector: { app: name }, ports: [{ port: 80, targetPort }] },
      },
    );
    return spec.clusterIP;
  };
  const slicesOf = async (
    cluster: KubeCluster,
    namespace: string,
    service: string,
  ): Promise<readonly EndpointSlice[]> => {
    const path = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;
    const query = `labelSelector=kubernetes.io/service-name%3D${service}`;
    return (await cluster.get<List<EndpointSlice>>(`${path}?${query}`)).items;
  };
  /** ADDRESS:PORT at NODE of all ready endpoints. */
  const endpointsOf = async (...service: Parameters<typeof slicesOf>): Promise<readonly string[]> =>
    (await slicesOf(...service))
      .flatMap(({ endpoints, ports }) =>
        (endpoints ?? [])
          .filter(({ conditions }) => conditions.ready)
          .map((each) => `${each.addresses[0]}:${ports[0]?.port} at ${each.nodeName}`),
      )
      .toSorted();

  test('a Service with a selector gets an EndpointSlice with its running pods', async () => {
    await newNamespace(north, 'shop');
    await newService(north, 'shop', 'web', 8080);
    for (const [at, node] of ['north-0', 'north-1'].entries()) {
      const address = `192.0.2.${at + 1}`;
      await north.addPod({
        namespace: 'shop',
        name: `web-${at}`,
        labels: { app: 'web' },
        node,
        address,
      });
    }
    const expected = ['192.0.2.1:8080 at north-0', '192.0.2.2:8080 at north-1'];
    let found: readonly string[] = [];
    await until(
      async () => {
        found = await endpointsOf(north, 'shop', 'web');
        return found.length === 2;
      },
      () => `two endpoints, not ${found.join()}`,
    );
    assert.deepEqual(found, expected);
    const pod = '/api/v1/namespaces/shop/pods/web-0';
    await north.client.send({ method: 'DELETE', path: pod });
    await until(async () => (await endpointsOf(north, 'shop', 'web')).length === 1);
    assert.deepEqual(await endpointsOf(north, 'shop', 'web'), expected.slice(1));
    await untilGone(north, pod);
  });

  test('a pod without an address gets one', async () => {
    await newNamespace(south, 'shop');
    await newService(south, 'shop', 'web', 8080);
    await south.addPod({ namespace: 'shop', name: 'web-0', labels: { app: 'web' } });
    await until(async () => (await endpointsOf(south, 'shop', 'web')).length === 1);
    assert.match(
      String(await endpointsOf(south, 'shop', 'web')),
      /^10\.0\.0\.\d+:8080 at south-0$/,
    );
  });

  test('TCP passes a ClusterIP on the host of the cluster, and CoreDNS resolves its name', async () => {
    const { host, resolver } = north;
    assert.ok(host !== undefined && resolver !== undefined);
    const server = createServer((socket) =>
      socket.on('error', () => undefined).end('hello from a pod'),
    );
    backend = server;
    await new Promise<void>((resolve) => server.listen(0, host.gateway, resolve));
    const { port } = server.address() as { port: number };
    await newNamespace(north, 'tcp');
    const address = await newService(north, 'tcp', 'echo', port);
    const ask = `require('node:net').connect({ port: 80, host: '${address}', timeout: 1000 }).on('timeout', () => process.exit(1)).on('error', () => process.exit(1)).pipe(process.stdout)`;
    await north.addPod({
      namespace: 'tcp',
      name: 'echo-0',
      labels: { app: 'echo' },
      address: host.gateway,
    });
    let stdout = '';
    await until(async () => {
      ({ stdout } = await host.run(process.execPath, ['-e', ask]));
      return stdout !== '';
    }, 'an answer through the ClusterIP');
    assert.equal(stdout, 'hello from a pod');
    assert.deepEqual(await resolver.resolve4('echo.tcp.svc.cluster.local'), [address]);
  });

  test('a deleted namespace takes its objects with it, and a deleted owner what it owns', async () => {
    await newNamespace(south, 'gone');
    const configMap = (name: string, metadata: object = {}): object => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name, ...metadata },
    });
    await south.create('/api/v1/namespaces/gone/configmaps', configMap('inside'));
    const path = '/api/v1/namespaces/default/configmaps';
    const owner = await south.create<{ metadata: { uid: string } }>(path, configMap('owner'));
    const { uid } = owner.metadata;
    const reference = { apiVersion: 'v1', kind: 'ConfigMap', name: 'owner', uid };
    await south.create(path, configMap('owned', { ownerReferences: [reference] }));
    await south.client.send({ method: 'DELETE', path: '/api/v1/namespaces/gone' });
    await south.client.send({ method: 'DELETE', path: `${path}/owner` });
    for (const gone of ['/api/v1/namespaces/gone', `${path}/owned`]) {
      await untilGone(south, gone);
    }
  });

  test('clusters on one etcd see nothing of each other', async () => {
    await newNamespace(north, 'only-north');
    const { status } = await south.client.send({
      method: 'GET',
      path: '/api/v1/namespaces/only-north',
    });
    assert.equal(status, 404);
    const names = async (cluster: KubeCluster): Promise<readonly string[]> =>
      (await cluster.get<List<{ metadata: { name: string } }>>('/api/v1/nodes')).items
        .map(({ metadata }) => metadata.name)
        .toSorted();
    assert.deepEqual(await names(north), ['north-0', 'north-1']);
    assert.deepEqual(await names(south), ['south-0']);
  });
});
