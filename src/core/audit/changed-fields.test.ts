import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { changedFields } from './changed-fields.ts';

const before = {
  apiVersion: 'v1',
  metadata: { name: 'a', resourceVersion: '1', labels: { app: 'x' }, managedFields: [1] },
  spec: { rules: [{ verbs: ['get'] }], ttlSeconds: 60, nested: { deep: { er: 1 } } },
};

describe('changed fields', () => {
  test('are named by path, without what every write changes', () => {
    const after = {
      ...before,
      metadata: {
        ...before.metadata,
        resourceVersion: '2',
        labels: { app: 'y' },
        managedFields: [],
      },
      spec: { ...before.spec, rules: [{ verbs: ['get', 'list'] }], nested: { deep: { er: 2 } } },
    };
    assert.deepEqual(changedFields(before, after), [
      'metadata.labels.app',
      'spec.rules',
      'spec.nested.deep.er',
    ]);
  });

  test('are none where nothing changed', () => {
    assert.deepEqual(changedFields(before, structuredClone(before)), []);
    assert.deepEqual(changedFields(undefined, undefined), []);
  });

  test('tell what came and what went', () => {
    const { ttlSeconds: _, ...spec } = before.spec;
    assert.deepEqual(changedFields(before, { ...before, spec }), ['spec.ttlSeconds']);
    assert.deepEqual(changedFields({ spec: {} }, { spec: { nested: { a: 1 } } }), ['spec.nested']);
  });

  test('of a new or a deleted object are its fields', () => {
    const fields = [
      'apiVersion',
      'metadata.name',
      'metadata.labels',
      'spec.rules',
      'spec.ttlSeconds',
      'spec.nested',
    ];
    assert.deepEqual(changedFields(undefined, before), fields);
    assert.deepEqual(changedFields(before, undefined), fields);
  });

  test('never hold a value, and are bounded', () => {
    fc.assert(
      fc.property(fc.object({ key: fc.stringMatching(/^[a-z]{1,3}$/) }), (object) => {
        const planted = JSON.parse(
          JSON.stringify({ object, secret: 'hunter2', list: ['hunter2'] }),
        ) as unknown;
        const paths = changedFields({ object: {}, secret: '', list: [] }, planted);
        assert.ok(!JSON.stringify(paths).includes('hunter2'));
        assert.ok(paths.length <= 64);
      }),
    );
    const wide = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`k${i}`, i]));
    assert.equal(changedFields({}, wide).length, 64);
  });
});
