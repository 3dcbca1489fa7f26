// CoreDNS on a real kube-apiserver resolves the host names of TokenReview endpoints to the addresses of
// the site, after kubectl has applied the output of `hansa cluster services`.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { hansa } from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import { type ClusterDns, startClusterDns } from './coredns.ts';
import { type KubeApiserver, serviceAccountIssuer, startKubeApiserver } from './kube-apiserver.ts';
import { Kubectl } from './kubectl.ts';
import { clustersPath, hostOf } from './review-cluster.ts';
import { type Site, startSite } from './site.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('etcd', 'kube-apiserver', 'kubectl', 'coredns');

const addresses = ['192.0.2.7', '2001:db8::7'];
const port = '8443';

suite('the DNS of a cluster with the printed Services', { skip }, () => {
  let site: Site;
  let kube: KubeApiserver;
  let kubectl: Kubectl;
  let dns: ClusterDns;
  let resolver: ClusterDns['resolver'];

  before(async () => {
    kube = await startKubeApiserver();
    kubectl = await Kubectl.with(kube.kubeconfig);
    site = await startSite();
    for (const name of ['app1', 'app2']) await register(name);
    await applyServices();
    dns = await startClusterDns(kube.kubeconfig);
    ({ resolver } = dns);
  });
  after(async () => {
    await dns?.stop();
    await site?.stop();
    await kubectl?.close();
    await kube?.stop();
  });

  /** Its API server need not answer. */
  const register = async (name: string): Promise<void> => {
    const spec = { issuer: serviceAccountIssuer, apiServer: 'https://127.0.0.1:1' };
    const body = { apiVersion: 'hansa.dev/v1alpha1', kind: 'Cluster', metadata: { name }, spec };
    const answer = await site.client.send({
      method: 'POST',
      path: clustersPath,
      body: JSON.stringify(body),
    });
    assert.equal(answer.status, 201, answer.text);
  };
  /** As the help says. */
  const applyServices = async (): Promise<void> => {
    const args = ['--address', ...addresses, '--port', port, '--data-dir', site.dataDir];
    const { code, stdout, stderr } = await hansa(['cluster', 'services', ...args]);
    assert.equal(code, 0, stderr);
    await kubectl.ok(['apply', '--server-side', '-f', '-'], { input: stdout });
  };

  for (const host of [hostOf('app1'), hostOf('app2'), 'api.kube-fed.svc.cluster.local']) {
    test(`resolves ${host} to the site`, async () => {
      assert.deepEqual(await resolver.resolve4(host), [addresses[0]]);
      assert.deepEqual(await resolver.resolve6(host), [addresses[1]]);
    });
  }

  test('tells the port of the site', async () => {
    const found = await resolver.resolveSrv('_https._tcp.app1.kube-fed.svc.cluster.local');
    assert.deepEqual(
      found.map(({ name, port: at }) => `${name}:${at}`),
      [`${hostOf('app1')}:${port}`],
    );
  });

  for (const host of [hostOf('stranger'), 'app1.api.kube-fed.svc.cluster.local']) {
    test(`does not resolve ${host}`, async () => {
      await assert.rejects(resolver.resolve4(host), { code: 'ENOTFOUND' });
    });
  }

  test('resolves a cluster that is registered later, and none that is removed', async () => {
    await register('app3');
    await applyServices();
    const find = (): Promise<string[]> => resolver.resolve4(hostOf('app3')).catch(() => []);
    await until(async () => (await find()).length > 0, 'app3 resolves');
    const path = '/api/v1/namespaces/kube-fed/services/app3';
    await kube.client.send({ method: 'DELETE', path });
    await until(async () => (await find()).length === 0, 'app3 is gone');
  });
});
