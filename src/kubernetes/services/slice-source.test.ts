import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyOfMember } from './member-service.ts';
import { isSource, parseSourceID, sourceID } from './slice-source.ts';

const service = { clusterID: 'a', kind: 'Service', namespace: 'shop', name: 'web' } as const;

test('the ID of a source names the member Service and its slice', () => {
  for (const slice of [undefined, 'web-abc']) {
    const parsed = parseSourceID(sourceID(service, slice));
    assert.deepEqual(parsed, { ...service, member: keyOfMember(service), slice });
  }
});

test('anything else is no ID of a source', () => {
  const bad = [
    '',
    'a',
    'a/Service/shop/web',
    'a/Service/shop/web/slice',
    'a/Service/shop/web/slice/',
    'a/Service/shop/web/addresses/x',
    'a/Service//web/addresses',
    'a/Service/shop/web/slice/x/y',
    'a/Service/shop/web/other/x',
  ];
  for (const text of bad) assert.equal(parseSourceID(text), undefined, text);
});

test('a slice that another program brought from another cluster is no source', () => {
  const slice = (labels: Readonly<Record<string, string>>) => ({
    metadata: { name: 'web-1', labels: { 'kubernetes.io/service-name': 'web', ...labels } },
  });
  const managedBy = 'endpointslice.kubernetes.io/managed-by';
  assert.ok(isSource(slice({})));
  assert.ok(isSource(slice({ [managedBy]: 'endpointslice-controller.k8s.io' })));
  const cilium = { [managedBy]: 'endpointslice-mesh-controller.cilium.io' };
  const from = { 'multicluster.kubernetes.io/source-cluster': 'east' };
  assert.ok(!isSource(slice({ ...cilium, ...from })));
});
