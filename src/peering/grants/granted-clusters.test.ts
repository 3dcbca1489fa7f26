import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { FederationGrant } from '../../api/kinds/federation-grant.ts';
import { clustersFor, mostClustersTold } from './granted-clusters.ts';

const nowMs = Date.parse('2026-06-01T00:00:00Z');
const site = 'spiffe://bruges.example/hansa/site';

function grant(spec: Partial<FederationGrant['spec']> = {}, deletionTimestamp?: string) {
  const metadata = { name: 'g', uid: 'u', resourceVersion: '1', generation: 1 };
  return {
    metadata: {
      ...metadata,
      creationTimestamp: '',
      ...(deletionTimestamp && { deletionTimestamp }),
    },
    spec: {
      peer: 'bruges.example',
      scopes: ['read'] as const,
      clusters: ['app1'],
      nodeInstances: { ids: [site], unrestricted: false },
      networks: { unrestricted: true },
      sourceCIDRs: { unrestricted: true },
      ...spec,
    },
  };
}

const told = (...grants: readonly ReturnType<typeof grant>[]) =>
  clustersFor('bruges.example', grants, (name) => name !== 'not-ours', nowMs);

suite('the clusters that a heartbeat names', () => {
  test('are those that all grants together let the site of the peer read', () => {
    const others = { ids: [], unrestricted: true };
    assert.deepEqual(told(grant(), grant({ clusters: ['app0', 'app1'], nodeInstances: others })), [
      'app0',
      'app1',
    ]);
  });

  const nothing: Record<string, ReturnType<typeof grant>> = {
    'of another peer': grant({ peer: 'novgorod.example' }),
    'to a workload': grant({
      nodeInstances: { ids: ['spiffe://bruges.example/web'], unrestricted: false },
    }),
    'to the site of another peer': grant({
      nodeInstances: { ids: ['spiffe://novgorod.example/hansa/site'], unrestricted: false },
    }),
    'without the scope read': grant({ scopes: ['write'] }),
    'that has expired': grant({ expiresAt: '2026-05-01T00:00:00Z' }),
    'of no network': grant({ networks: { unrestricted: false } }),
    'from no address': grant({ sourceCIDRs: { unrestricted: false } }),
    'that is being deleted': grant({}, '2026-06-01T00:00:00Z'),
    'of a cluster that this site does not have': grant({ clusters: ['not-ours'] }),
    'of offers': grant({ clusters: [], offers: ['app1'] }),
  };
  for (const [what, one] of Object.entries(nothing)) {
    test(`do not come from a grant ${what}`, () => assert.deepEqual(told(one), []));
  }

  test('are not named where they are too many', () => {
    const clusters = Array.from({ length: mostClustersTold + 1 }, (_, at) => `app${at}`);
    assert.equal(told(grant({ clusters })), undefined);
    assert.equal(told(grant({ clusters: clusters.slice(1) }))?.length, mostClustersTold);
  });
});
