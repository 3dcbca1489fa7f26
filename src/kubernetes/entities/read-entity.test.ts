import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { copyAnnotation, epochAnnotation, originKey } from '../names.ts';
import type { ExternalEntity } from './compile-external-entities.ts';
import { entityCollection, readEntity } from './read-entity.ts';

const hash = '0123456789abcdef0123';
const read = (over: object): ExternalEntity =>
  readEntity({ apiVersion: '', kind: '', ...over } as unknown as ExternalEntity);

suite('an ExternalEntity in the cache', () => {
  const metadata = {
    name: `web-${hash}`,
    namespace: 'shop',
    uid: 'u',
    resourceVersion: '7',
    creationTimestamp: '2026-01-01T00:00:00Z',
    labels: { [copyAnnotation]: 'web', [originKey]: 'north', mine: 'yes' },
    annotations: { [epochAnnotation]: '3', mine: 'yes' },
  };
  const endpoints = [{ ip: '10.1.0.1' }, { ip: '10.1.0.2', name: 'press' }];
  const ports = [{ name: 'http', port: 80, protocol: 'TCP' }];

  test('has the fields that are used', () => {
    assert.deepEqual(read({ metadata, spec: { endpoints, ports, externalNode: 'x' } }), {
      apiVersion: 'crd.antrea.io/v1alpha2',
      kind: 'ExternalEntity',
      metadata: {
        ...metadata,
        labels: { [copyAnnotation]: 'web', [originKey]: 'north' },
        annotations: { [epochAnnotation]: '3' },
      },
      spec: { endpoints, ports },
    });
  });

  test('has no content if it is of a user', () => {
    const found = read({ metadata: { ...metadata, annotations: {} }, spec: { endpoints, ports } });
    assert.deepEqual(found.spec, {});
    assert.deepEqual(entityCollection.indexes.copy(found), []);
  });

  test('is found by its copy, whatever users did to its labels', () => {
    const found = read({ metadata: { ...metadata, labels: {} }, spec: {} });
    assert.deepEqual(entityCollection.indexes.copy(found), ['shop/web']);
    const other = read({ metadata: { ...metadata, name: 'other' } });
    assert.deepEqual(entityCollection.indexes.copy(other), []);
  });

  test('leaves out items that are no endpoints or ports', () => {
    const spec = {
      endpoints: [null, 7, {}, { ip: 7 }, { ip: 'x'.repeat(65) }, { ip: '10.1.0.1', name: 7 }],
      ports: [null, {}, { name: 'a' }, { port: 1 }, { name: 'b', port: 70_000 }, ports[0]],
    };
    assert.deepEqual(read({ metadata, spec }).spec, { endpoints: [{ ip: '10.1.0.1' }], ports });
  });

  test('can be made of anything', () => {
    fc.assert(
      fc.property(fc.anything(), fc.anything(), (value, spec) => {
        for (const each of [value, metadata]) {
          entityCollection.indexes.copy(read({ metadata: each, spec }));
        }
      }),
    );
  });
});
