// The life of a cluster set on an older Kubernetes, for `make compat`: two clusters join, an annotated Service is found
// in the other one, and both leave without a trace. No controllers of Kubernetes run.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { type Daemon, hansa, startDaemon, temporaryFolder } from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import { olderVersionVariable } from '../tools/build.ts';
import { inventory } from './cluster-inventory.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { type KubeApiserver, startKubeApiserver } from './kube-apiserver.ts';
import { apiserverOptions, withoutPolicies } from './member-cluster.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('etcd', 'kube-apiserver');

interface Slices {
  readonly items: readonly { readonly endpoints?: readonly { readonly addresses: unknown }[] }[];
}

interface List {
  readonly items: readonly {
    readonly metadata: { readonly name: string; readonly namespace?: string };
  }[];
}

suite('a cluster set on this version of Kubernetes', { skip }, () => {
  const folder = temporaryFolder();
  let etcd: Etcd;
  let app1: KubeApiserver;
  let app2: KubeApiserver;
  let site: Daemon;
  /** What was in app2 before it joined. */
  let untouched: readonly string[] = [];

  before(async () => {
    etcd = await startEtcd();
    [app1, app2] = (await Promise.all(
      ['/app1', '/app2'].map((etcdPrefix) =>
        startKubeApiserver([], { etcd, etcdPrefix, ...apiserverOptions }),
      ),
    )) as [KubeApiserver, KubeApiserver];
    site = await startDaemon(join(folder, 'site'), ['--kubernetes-lease-seconds=5']);
    for (const kube of [app1, app2]) {
      await send(kube, 'POST', '/api/v1/namespaces', {
        apiVersion: 'v1',
        kind: 'Namespace',
        metadata: { name: 'shop' },
      });
    }
    untouched = await installed(app2);
  });
  after(async () => {
    await site?.signal('SIGTERM');
    await Promise.all([app1?.stop(), app2?.stop()]);
    await etcd?.stop();
  });

  async function send<T>(
    kube: KubeApiserver,
    method: string,
    path: string,
    object?: object,
  ): Promise<T> {
    const { status, text } = await kube.client.send({
      method,
      path,
      ...(object !== undefined && { body: JSON.stringify(object) }),
      ...(method === 'PATCH' && { headers: { 'content-type': 'application/merge-patch+json' } }),
    });
    assert.ok(status < 300, `${method} ${path}: ${status} ${text}`);
    return JSON.parse(text) as T;
  }
  const run = async (...args: readonly string[]) => {
    const { code, stdout, stderr } = await hansa([...args, '--data-dir', site.dataDir]);
    assert.equal(code, 0, `hansa ${args.join(' ')}: ${stdout}${stderr}`);
    return { stdout, stderr };
  };
  const cluster = (verb: string, name: string, kube: KubeApiserver, ...args: readonly string[]) =>
    run('cluster', verb, name, '--kubeconfig', kube.kubeconfig, '--yes', ...args);
  const home = () => ['--home-kubeconfig', app1.kubeconfig];
  /** No controller ends the namespace of ours here. */
  const installed = (kube: KubeApiserver) => inventory(kube, 'hansa-system');
  const untilEndpoints = async (addresses: readonly string[]): Promise<void> => {
    let last: unknown;
    await until(
      async () => {
        const path = '/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices';
        const { items } = await send<Slices>(app2, 'GET', path);
        last = items.flatMap(({ endpoints = [] }) => endpoints.flatMap((each) => each.addresses));
        return JSON.stringify(last) === JSON.stringify(addresses);
      },
      () => `app2 has the endpoints ${JSON.stringify(last)}, not ${addresses.join()}`,
    );
  };

  test('the API server is of the version that make compat names', async () => {
    const { gitVersion } = await send<{ readonly gitVersion: string }>(app1, 'GET', '/version');
    assert.ok(gitVersion.startsWith(`v${process.env[olderVersionVariable] ?? '1'}.`), gitVersion);
  });

  test('two clusters join, with a warning where there are no policies', async () => {
    const prefix = ['--endpoint-prefix', '192.0.2.0/24'];
    const { stderr } = await cluster('join', 'app1', app1, '--supervisor', ...prefix);
    assert.equal(/no admission policies/.test(stderr), withoutPolicies !== false, stderr);
    await cluster('join', 'app2', app2, ...home());
    assert.match((await run('status')).stdout, /members +2, 2 ready/);
  });

  test('an annotated Service is found in the other cluster, and followed', async () => {
    const services = '/api/v1/namespaces/shop/services';
    await send(app1, 'POST', services, {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'frontend', annotations: { 'svc.federated.hansa.dev': 'web' } },
      spec: { externalIPs: ['192.0.2.10'], ports: [{ name: 'http', port: 80 }] },
    });
    await untilEndpoints(['192.0.2.10']);
    await send(app1, 'PATCH', `${services}/frontend`, { spec: { externalIPs: ['192.0.2.11'] } });
    await untilEndpoints(['192.0.2.11']);
    // A copy that was deleted by hand comes back.
    await send(app2, 'DELETE', `${services}/web`);
    await until(async () => {
      const { items } = await send<List>(app2, 'GET', services);
      return items.some(({ metadata }) => metadata.name === 'web');
    }, 'the copy is back');
  });

  test('kubectl alone takes a cluster out and adds it again', async () => {
    const path = '/apis/clusters.hansa.dev/v1alpha1/federations/federation';
    const listed = (...ids: readonly string[]) => ({
      spec: {
        members: ids.map((clusterID) => ({ clusterID, endpointPrefixes: ['192.0.2.0/24'] })),
      },
    });
    await send(app1, 'PATCH', path, listed('app1'));
    await untilEndpoints([]);
    await send(app1, 'PATCH', path, listed('app1', 'app2'));
    await untilEndpoints(['192.0.2.11']);
  });

  test('both clusters leave without a trace', async () => {
    await cluster('leave', 'app2', app2, ...home());
    await until(
      async () => (await installed(app2)).join('\n') === untouched.join('\n'),
      'app2 is as before',
    );
    await cluster('leave', 'app1', app1);
    const { items } = await send<List>(app1, 'GET', '/api/v1/namespaces/shop/services');
    assert.deepEqual(
      items.map(({ metadata }) => metadata.name),
      ['frontend'],
    );
  });
});
