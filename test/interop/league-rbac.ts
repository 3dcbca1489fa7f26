// The rights of a site in a member, on a real kube-apiserver: kubectl lists all of them, and requests of the site
// show that it reads no Secret, apart from those that Federation of its home cluster names.

import assert from 'node:assert/strict';
import { before, suite, test } from 'node:test';
import {
  type MemberCluster,
  namedSecret,
  secondSite,
  siteAccount,
  systemNamespace,
} from './member-cluster.ts';

const reads = 'get list watch';
const writes = 'get list watch create update delete';

/** RESOURCE [NAMES]: VERBS, in all namespaces. */
const everywhere = [
  `adminnetworkpolicies.policy.networking.k8s.io []: ${writes}`,
  `clusterclaims.clusters.hansa.dev []: ${reads}`,
  `clusternetworkpolicies.crd.antrea.io []: ${writes}`,
  // Only the UIDs of those of policies.
  ...[
    'adminnetworkpolicies.policy.networking.k8s.io',
    'clusternetworkpolicies.crd.antrea.io',
    'networkpolicies.crd.antrea.io',
    'networkpolicies.networking.k8s.io',
  ].map((name) => `customresourcedefinitions.apiextensions.k8s.io [${name}]: get`),
  `endpointslices.discovery.k8s.io []: ${writes}`,
  // Needed to write slices of Services whose endpoints the API server restricts.
  'endpointslices.discovery.k8s.io/restricted []: create',
  `externalentities.crd.antrea.io []: ${writes}`,
  `federations.clusters.hansa.dev []: ${reads}`,
  `namespaces []: ${reads}`,
  `nativeservices.clusters.hansa.dev []: ${reads}`,
  `networkpolicies.crd.antrea.io []: ${writes}`,
  `networkpolicies.networking.k8s.io []: ${writes}`,
  `nodes []: ${reads}`,
  `policyrecords.clusters.hansa.dev []: ${writes}`,
  'policyrecords.clusters.hansa.dev/status []: update',
  `serviceexports.multicluster.x-k8s.io []: ${reads}`,
  'serviceexports.multicluster.x-k8s.io/status []: update',
  `serviceimports.multicluster.x-k8s.io []: ${writes}`,
  'serviceimports.multicluster.x-k8s.io/status []: update',
  `services []: ${writes}`,
  'services/status []: update',
  `virtualmachines.clusters.hansa.dev []: ${reads}`,
  'virtualmachines.clusters.hansa.dev/status []: update',
];
const inSystemNamespace = [
  'leases.coordination.k8s.io []: create',
  'leases.coordination.k8s.io [hansa-leader]: get update',
];
/** Of the home cluster. */
const atHome = ['federations.clusters.hansa.dev/status [federation]: update'];
const atHomeInSystemNamespace = [`secrets [${namedSecret}]: get`];
const ownToken = ['serviceaccounts/token [hansa]: create'];

/** For a cluster with a namespace shop. */
export function rbacTests(scene: () => MemberCluster, skip: string | false): void {
  suite('the rights of a site in a member', { skip }, () => {
    before(async () => {
      for (const name of [namedSecret, 'other']) {
        for (const namespace of [systemNamespace, 'shop']) {
          const flags = [`--namespace=${namespace}`, '--from-literal=token=secret'];
          await scene().kubectl.ok(['create', 'secret', 'generic', name, ...flags]);
        }
      }
    });

    /** All of them, as kubectl says, without those of every user. */
    const rightsOf = async (user: string, namespace: string): Promise<readonly string[]> => {
      const flags = [`--as=${user}`, `--namespace=${namespace}`, '--no-headers'];
      const table = await scene().kubectl.ok(['auth', 'can-i', '--list', ...flags]);
      return table
        .split('\n')
        .flatMap((line) => {
          const [, resource, names, verbs] = /^(\S+) +\[\] +(\[.*?\]) +\[(.*)\]$/.exec(line) ?? [];
          return resource === undefined || resource.startsWith('selfsubject')
            ? []
            : [`${resource} ${names}: ${verbs}`];
        })
        .toSorted();
    };
    const canI = async (user: string, words: string): Promise<string> => {
      const args = ['auth', 'can-i', ...words.split(' '), `--as=${user}`];
      // It may give a reason after a dash.
      return (await scene().kubectl.run(args)).stdout.trim().split(' ')[0] ?? '';
    };

    test('are these and no others, where it is a member and where it is home', async () => {
      const member = [...everywhere, ...inSystemNamespace];
      assert.deepEqual(await rightsOf(secondSite, systemNamespace), member.toSorted());
      const home = [...member, ...atHome, ...atHomeInSystemNamespace, ...ownToken];
      assert.deepEqual(await rightsOf(siteAccount, systemNamespace), home.toSorted());
    });

    test('are fewer outside the system namespace', async () => {
      for (const namespace of ['shop', 'kube-system']) {
        assert.deepEqual(await rightsOf(secondSite, namespace), everywhere.toSorted());
        const home = [...everywhere, ...atHome];
        assert.deepEqual(await rightsOf(siteAccount, namespace), home.toSorted());
      }
    });

    test('make the API server allow and deny', async () => {
      for (const [words, expected] of [
        ['watch services -A', 'yes'],
        [`update leases.coordination.k8s.io/hansa-leader -n ${systemNamespace}`, 'yes'],
        [`delete leases.coordination.k8s.io/hansa-leader -n ${systemNamespace}`, 'no'],
        ['patch services -n shop', 'no'],
        ['list secrets -A', 'no'],
        [`get secrets/other -n ${systemNamespace}`, 'no'],
        [`get secrets/${namedSecret} -n shop`, 'no'],
        ['escalate clusterroles.rbac.authorization.k8s.io', 'no'],
        ['impersonate users', 'no'],
      ] as const) {
        for (const user of [siteAccount, secondSite]) {
          assert.equal(await canI(user, words), expected, `${user}: ${words}`);
        }
      }
    });

    test('let it read the Secret that Federation names, and no other one', async () => {
      const secret = (namespace: string, name: string) =>
        `/api/v1/namespaces/${namespace}/secrets/${name}`;
      await scene().accepts('site', 'GET', secret(systemNamespace, namedSecret));
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
        const { status } = await scene().send('site', 'GET', path, undefined, query);
        assert.equal(status, 403, path);
      }
      const { status } = await scene().send(
        { user: secondSite },
        'GET',
        secret(systemNamespace, namedSecret),
      );
      assert.equal(status, 403);
    });
  });
}
