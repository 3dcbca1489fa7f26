// The rights of a site in a member, on a real kube-apiserver: what it needs works, and all else does not. No
// Secret can be read, apart from those that Federation of its home cluster names.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import {
  MemberCluster,
  namedSecret,
  secondSite,
  siteAccount,
  systemNamespace,
} from './member-cluster.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('etcd', 'kube-apiserver', 'kubectl');

suite('the rights of a site in a member', { skip }, () => {
  let cluster: MemberCluster;

  before(async () => {
    cluster = await MemberCluster.start();
    await cluster.kubectl.ok(['create', 'namespace', 'shop']);
    for (const name of [namedSecret, 'other']) {
      for (const namespace of [systemNamespace, 'shop']) {
        const flags = [`--namespace=${namespace}`, '--from-literal=token=secret'];
        await cluster.kubectl.ok(['create', 'secret', 'generic', name, ...flags]);
      }
    }
  });
  after(() => cluster?.stop());

  const canI = async (user: string, words: string): Promise<string> => {
    const flags = [`--as=${user}`];
    const { stdout } = await cluster.kubectl.run(['auth', 'can-i', ...words.split(' '), ...flags]);
    // It may give a reason after a dash.
    return stdout.trim().split(' ')[0] ?? '';
  };
  const check = async (user: string, expected: 'yes' | 'no', all: readonly string[]) => {
    for (const words of all) assert.equal(await canI(user, words), expected, `${user}: ${words}`);
  };

  const needed = [
    'list services -A',
    'watch services -A',
    'create services -n shop',
    'update services -n shop',
    'delete services -n shop',
    'update services --subresource=status -n shop',
    'watch endpointslices.discovery.k8s.io -A',
    'create endpointslices.discovery.k8s.io -n shop',
    'update endpointslices.discovery.k8s.io -n shop',
    'delete endpointslices.discovery.k8s.io -n shop',
    'watch nodes',
    'watch namespaces',
    'watch nativeservices.clusters.hansa.dev -A',
    'watch virtualmachines.clusters.hansa.dev -A',
    'update virtualmachines.clusters.hansa.dev --subresource=status -n shop',
    'watch clusterclaims.clusters.hansa.dev',
    'watch federations.clusters.hansa.dev',
    `create leases.coordination.k8s.io -n ${systemNamespace}`,
    `get leases.coordination.k8s.io/hansa-leader -n ${systemNamespace}`,
    `update leases.coordination.k8s.io/hansa-leader -n ${systemNamespace}`,
  ];
  const never = [
    'get secrets -A',
    'list secrets -A',
    'watch secrets -A',
    `list secrets -n ${systemNamespace}`,
    `watch secrets -n ${systemNamespace}`,
    `get secrets/other -n ${systemNamespace}`,
    `get secrets/${namedSecret} -n shop`,
    'create secrets -n shop',
    `update secrets/${namedSecret} -n ${systemNamespace}`,
    'patch services -n shop',
    'deletecollection services -n shop',
    'deletecollection endpointslices.discovery.k8s.io -n shop',
    'update nodes',
    'delete namespaces',
    'create namespaces',
    'get pods -A',
    'create pods -n shop',
    'get configmaps -A',
    'update clusterclaims.clusters.hansa.dev',
    'update virtualmachines.clusters.hansa.dev -n shop',
    'delete virtualmachines.clusters.hansa.dev -n shop',
    'update federations.clusters.hansa.dev',
    'delete federations.clusters.hansa.dev',
    `get leases.coordination.k8s.io/other -n ${systemNamespace}`,
    `delete leases.coordination.k8s.io/hansa-leader -n ${systemNamespace}`,
    'update leases.coordination.k8s.io/hansa-leader -n kube-system',
    'update clusterroles.rbac.authorization.k8s.io',
    'bind clusterroles.rbac.authorization.k8s.io',
    'escalate clusterroles.rbac.authorization.k8s.io',
    'impersonate users',
    'update validatingadmissionpolicies.admissionregistration.k8s.io',
    'update customresourcedefinitions.apiextensions.k8s.io',
  ];

  test('are what it needs, for its ServiceAccount and for its JWT-SVID', async () => {
    await check(siteAccount, 'yes', needed);
    await check(secondSite, 'yes', needed);
  });

  test('are nothing else', async () => {
    await check(siteAccount, 'no', never);
    await check(secondSite, 'no', never);
  });

  test('include the status of Federation and the named Secret only in its home cluster', async () => {
    const home = [
      `get secrets/${namedSecret} -n ${systemNamespace}`,
      'update federations.clusters.hansa.dev/federation --subresource=status',
    ];
    await check(siteAccount, 'yes', home);
    // This cluster is a member of the second site, and home of the first.
    await check(secondSite, 'no', home);
  });

  test('include its own token and no other one', async () => {
    const token = (name: string) =>
      `create serviceaccounts/${name} --subresource=token -n ${systemNamespace}`;
    assert.equal(await canI(siteAccount, token('hansa')), 'yes');
    assert.equal(await canI(siteAccount, token('default')), 'no');
  });

  test('let it read the Secret that Federation names, and no other one', async () => {
    const secret = (namespace: string, name: string) =>
      `/api/v1/namespaces/${namespace}/secrets/${name}`;
    await cluster.accepts('site', 'GET', secret(systemNamespace, namedSecret));
    const collection = `/api/v1/namespaces/${systemNamespace}/secrets`;
    for (const [path, query] of [
      [secret(systemNamespace, 'other'), {}],
      [secret('shop', namedSecret), {}],
      [collection, {}],
      [collection, { fieldSelector: 'metadata.name=other' }],
      [collection, { fieldSelector: `metadata.name=${namedSecret}` }],
      [collection, { watch: 'true' }],
      ['/api/v1/secrets', {}],
    ] as const) {
      const { status } = await cluster.send('site', 'GET', path, undefined, query);
      assert.equal(status, 403, path);
    }
    const { status } = await cluster.send(
      { user: secondSite },
      'GET',
      secret(systemNamespace, namedSecret),
    );
    assert.equal(status, 403);
  });
});
