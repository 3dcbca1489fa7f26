// Objects that break the rules of their CRDs, on a real kube-apiserver: it refuses each of them. Nothing is stored.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Json, MemberCluster } from './member-cluster.ts';
import { claimOf, claims, federationOf, federations } from './member-objects.ts';

/** For a cluster with a namespace shop. */
export function ruleTests(scene: () => MemberCluster, skip: string | false): void {
  suite('objects that break a rule of a field', { skip }, () => {
    const dryRun = { dryRun: 'All' };
    const natives = '/apis/clusters.hansa.dev/v1alpha1/namespaces/shop/nativeservices';
    const member = (fields: object): Json =>
      federationOf({ members: [{ clusterID: 'app1', ...fields }] });
    const native = (fields: object): Json => ({
      apiVersion: 'clusters.hansa.dev/v1alpha1',
      kind: 'NativeService',
      metadata: { name: 'db' },
      spec: { networkInterfaces: [{ internalIP: '10.2.0.9' }], ports: [{ port: 5432 }], ...fields },
    });
    const many = (count: number, make: (at: number) => unknown): readonly unknown[] =>
      Array.from({ length: count }, (_, at) => make(at));

    for (const [what, path, good, bad] of [
      [
        'a ClusterClaim',
        claims,
        claimOf('example.com', 'x'),
        [
          claimOf('example.com', ''),
          claimOf('example.com', 'x'.repeat(1025)),
          claimOf('-example.com', 'x', 'example.com'),
          claimOf('exam_ple.com', 'x', 'example.com'),
          { ...claimOf('example.com', 'x'), spec: { name: 'example.com' } },
          { ...claimOf('example.com', 'x'), spec: {} },
          { ...claimOf('example.com', 'x'), spec: undefined },
        ],
      ],
      [
        'a Federation',
        federations,
        member({ server: 'https://app1.example:6443', secret: 'app1', limits: { services: 0 } }),
        [
          federationOf({ clusterSet: '' }),
          federationOf({ clusterSet: 'A b' }),
          federationOf({ clusterSet: undefined }),
          federationOf({ members: [{ routable: true }] }),
          federationOf({ members: [{ clusterID: 'app1' }, { clusterID: 'app1' }] }),
          federationOf({ members: many(251, (at) => ({ clusterID: `app${at}` })) }),
          member({ clusterID: 'a'.repeat(64) }),
          member({ server: 'http://app1.example' }),
          member({ server: 'https://user@app1.example' }),
          member({ server: 'https://app1.example?x=y' }),
          member({ secret: 'Up' }),
          member({ secret: '../app1' }),
          member({ caBundle: '' }),
          member({ tlsServerName: 'app1 example' }),
          member({ routable: 'yes' }),
          member({ endpointPrefixes: many(65, (at) => `10.${at}.0.0/16`) }),
          member({ policies: 'Send' }),
          member({ globalNamespaces: ['Shop'] }),
          member({ limits: { services: -1 } }),
          member({ limits: { endpoints: 1_000_001 } }),
          member({ unreachable: { policy: 'Forget' } }),
          member({ unreachable: { graceSeconds: -1 } }),
          member({ unreachable: { graceSeconds: 604_801 } }),
        ],
      ],
      [
        'a NativeService',
        natives,
        native({}),
        [
          native({ networkInterfaces: [] }),
          native({ networkInterfaces: [{}] }),
          native({ networkInterfaces: [{ externalIP: 'db.example' }] }),
          native({ networkInterfaces: many(101, () => ({ internalIP: '10.2.0.9' })) }),
          native({ ports: [] }),
          native({ ports: [{}] }),
          native({ ports: [{ port: 0 }] }),
          native({ ports: [{ port: 65_536 }] }),
          native({ ports: [{ port: 80, protocol: 'ICMP' }] }),
          native({ ports: [{ port: 80, name: 'Web' }] }),
          native({ ports: [{ port: 80 }, { port: 80 }] }),
        ],
      ],
    ] as const) {
      test(`are refused: ${what}`, async () => {
        const made = await scene().send('admin', 'POST', path, good, dryRun);
        assert.equal(made.status, 201, made.message);
        for (const object of bad) {
          const { status, message } = await scene().send('admin', 'POST', path, object, dryRun);
          assert.ok([400, 422].includes(status), `${JSON.stringify(object)}: ${status} ${message}`);
        }
      });
    }
  });
}
