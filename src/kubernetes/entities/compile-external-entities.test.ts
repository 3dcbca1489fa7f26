import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import {
  copyAnnotation,
  deletingAnnotation,
  epochAnnotation,
  managedByLabel,
  manager,
  originKey,
} from '../names.ts';
import type { EndpointSlice } from '../objects.ts';
import {
  compileExternalEntities,
  copyOfEntity,
  type ExternalEntity,
  isOwnEntity,
  isSameEntity,
  mostEntities,
  pathOfEntities,
} from './compile-external-entities.ts';

const copy = { metadata: { name: 'web', namespace: 'shop', uid: 'u1' } };

const slice = (name: string, over: Partial<EndpointSlice> = {}): EndpointSlice => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: { name, namespace: 'shop', labels: { [originKey]: 'north' } },
  addressType: 'IPv4',
  endpoints: [{ addresses: ['10.1.0.5'] }],
  ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
  ...over,
});

suite('the ExternalEntities of a copy', () => {
  test('have the addresses, the named ports and the cluster of a slice', () => {
    assert.deepEqual(compileExternalEntities(copy, [slice('web-1')]), [
      {
        apiVersion: 'crd.antrea.io/v1alpha2',
        kind: 'ExternalEntity',
        metadata: {
          name: 'web-1',
          namespace: 'shop',
          labels: { [copyAnnotation]: 'web', [managedByLabel]: manager, [originKey]: 'north' },
          annotations: { [originKey]: 'north' },
          ownerReferences: [{ apiVersion: 'v1', kind: 'Service', name: 'web', uid: 'u1' }],
        },
        spec: {
          endpoints: [{ ip: '10.1.0.5' }],
          ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
        },
      },
    ]);
  });

  test('have endpoints that are not ready, and the names of machines', () => {
    const endpoints = [
      { addresses: ['10.1.0.5'], conditions: { ready: false } },
      { addresses: ['10.1.0.6'], hostname: 'press-1' },
    ];
    const [entity] = compileExternalEntities(copy, [slice('web-1', { endpoints })]);
    assert.deepEqual(entity?.spec.endpoints, [
      { ip: '10.1.0.5' },
      { ip: '10.1.0.6', name: 'press-1' },
    ]);
  });

  test('leave out ports without a name or a number', () => {
    const ports = [
      { name: '', port: 80 },
      { port: 81 },
      { name: 'any' },
      { name: 'dns', port: 53 },
    ];
    const [entity] = compileExternalEntities(copy, [slice('web-1', { ports })]);
    assert.deepEqual(entity?.spec.ports, [{ name: 'dns', port: 53, protocol: 'TCP' }]);
  });

  test('are none for slices without addresses', () => {
    const empty = [
      slice('a', { endpoints: [] }),
      slice('b', { endpoints: null }),
      slice('c', { addressType: 'FQDN' }),
    ];
    assert.deepEqual(compileExternalEntities(copy, empty), []);
  });

  test('do not depend on the order of slices, and are bounded', () => {
    const many = Array.from({ length: mostEntities + 5 }, (_, at) => slice(`web-${at}`));
    const found = compileExternalEntities(copy, many);
    assert.equal(found.length, mostEntities);
    assert.deepEqual(compileExternalEntities(copy, many.toReversed()), found);
  });

  test('are in the namespace of the copy', () => {
    assert.equal(
      pathOfEntities('shop'),
      '/apis/crd.antrea.io/v1alpha2/namespaces/shop/externalentities',
    );
  });
});

suite('an ExternalEntity in a cluster', () => {
  const [wanted] = compileExternalEntities(copy, [slice('web-1')]) as readonly [ExternalEntity];
  const live = (over: Partial<ExternalEntity['metadata']>): ExternalEntity => ({
    ...wanted,
    metadata: {
      ...wanted.metadata,
      resourceVersion: '7',
      annotations: { [epochAnnotation]: '3', mine: 'yes' },
      ...over,
    },
  });

  test('is as it should be with the additions of others', () => {
    const { labels } = wanted.metadata;
    assert.equal(isSameEntity(wanted, live({ labels: { ...labels, mine: 'yes' } })), true);
  });

  for (const [what, other] of [
    ['without a label', live({ labels: {} })],
    ['of another copy', live({ ownerReferences: [] })],
    ['that is about to be deleted', live({ annotations: { [deletingAnnotation]: '3' } })],
    ['with other addresses', { ...live({}), spec: { ...wanted.spec, endpoints: [] } }],
    ['with other ports', { ...live({}), spec: { ...wanted.spec, ports: [] } }],
  ] as const) {
    test(`is not as it should be ${what}`, () => {
      assert.equal(isSameEntity(wanted, other), false);
    });
  }

  test('belongs to a site if it has an epoch', () => {
    assert.equal(isOwnEntity(live({})), true);
    assert.equal(isOwnEntity(live({ annotations: { mine: 'yes' } })), false);
    assert.equal(isOwnEntity(wanted), false);
  });
});

test('the name of an ExternalEntity tells its copy', () => {
  const hash = '0123456789abcdef0123';
  assert.equal(copyOfEntity(`web-${hash}`), 'web');
  assert.equal(copyOfEntity(`web-${hash}-${hash}`), `web-${hash}`);
  for (const other of ['web', '', `-${hash}`, `web-${hash}0`, `web-${hash.toUpperCase()}`]) {
    assert.equal(copyOfEntity(other), undefined, other);
  }
});

test('each address of the slices is in one ExternalEntity', () => {
  const addresses = fc.uniqueArray(fc.ipV4(), { maxLength: 20 });
  fc.assert(
    fc.property(fc.array(addresses, { maxLength: 8 }), (lists) => {
      const slices = lists.map((list, at) =>
        slice(`web-${at}`, { endpoints: list.map((address) => ({ addresses: [address] })) }),
      );
      const found = compileExternalEntities(copy, slices);
      const ips = found.flatMap(({ spec }) => (spec.endpoints ?? []).map(({ ip }) => ip));
      assert.deepEqual(ips.toSorted(), lists.flat().toSorted());
      for (const entity of found) assert.ok(isSameEntity(entity, entity));
    }),
  );
});
