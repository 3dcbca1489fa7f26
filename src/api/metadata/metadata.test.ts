import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { coerceMetadata, withoutUnreadable } from './metadata.ts';
import { timestamp } from '../object.ts';

suite('metadata', () => {
  test('without anything to change comes back as the same value', () => {
    const metadata = {
      name: 'a',
      labels: { a: 'b' },
      finalizers: ['x/y'],
      ownerReferences: [{ apiVersion: 'v1', kind: 'A', name: 'b', uid: 'c', controller: false }],
      creationTimestamp: '2026-01-02T03:04:05Z',
    };
    assert.equal(coerceMetadata(metadata).metadata, metadata);
  });

  test('loses what has no value', () => {
    const coerced = coerceMetadata({
      name: 'a',
      generateName: '',
      generation: 0,
      labels: {},
      annotations: null,
      finalizers: [],
      creationTimestamp: null,
    });
    assert.deepEqual(coerced, { metadata: { name: 'a' }, unknown: [] });
    assert.deepEqual(coerceMetadata(null).metadata, {});
  });

  test('keeps a zero that says something', () => {
    const metadata = { deletionGracePeriodSeconds: 0 };
    assert.deepEqual(coerceMetadata(metadata).metadata, metadata);
  });

  test('has timestamps in UTC and whole seconds', () => {
    const { metadata } = coerceMetadata({ creationTimestamp: '2026-01-02T03:04:05.9+02:00' });
    assert.equal(metadata['creationTimestamp'], '2026-01-02T01:04:05Z');
    assert.equal(timestamp(999), '1970-01-01T00:00:00Z');
  });

  test('has an empty string where a null stands in a map or list of strings', () => {
    const coerced = coerceMetadata({ annotations: { a: null }, finalizers: [null] });
    assert.deepEqual(coerced.metadata, { annotations: { a: '' }, finalizers: [''] });
  });

  test('names its unknown fields and drops them', () => {
    const coerced = coerceMetadata({
      zone: 1,
      Name: 'x',
      ownerReferences: [{ apiVersion: 'v1', kind: 'A', name: 'b', uid: 'c', odd: 1 }],
    });
    assert.deepEqual(coerced.unknown, [
      'metadata.Name',
      'metadata.ownerReferences[0].odd',
      'metadata.zone',
    ]);
    assert.deepEqual(Object.keys(coerced.metadata), ['ownerReferences']);
  });

  const wrong: readonly (readonly [unknown, string])[] = [
    ['x', 'json: cannot unmarshal string into Go value of type v1.ObjectMeta'],
    [
      { name: 5 },
      'json: cannot unmarshal number into Go struct field ObjectMeta.name of type string',
    ],
    [
      { uid: true },
      'json: cannot unmarshal bool into Go struct field ObjectMeta.uid of type types.UID',
    ],
    [
      { labels: [] },
      'json: cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string',
    ],
    [
      { labels: { a: 1 } },
      'json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string',
    ],
    [
      { ownerReferences: [{ name: {} }] },
      'json: cannot unmarshal object into Go struct field OwnerReference.ownerReferences.name of type string',
    ],
    [
      { generation: 1.5 },
      'json: cannot unmarshal number 1.5 into Go struct field ObjectMeta.generation of type int64',
    ],
    [
      { creationTimestamp: 'x' },
      'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
    ],
    [
      { uid: 7, labels: 5, generation: 'x' },
      'json: cannot unmarshal string into Go struct field ObjectMeta.generation of type int64',
    ],
    [
      { annotations: 5, creationTimestamp: 'x' },
      'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
    ],
    [
      { labels: { z: true, a: 1 } },
      'json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string',
    ],
  ];
  for (const [metadata, message] of wrong) {
    test(`is refused where it is ${JSON.stringify(metadata)}`, () => {
      assert.throws(
        () => coerceMetadata(metadata),
        (error: unknown) => hasCode(error, 'HANSA_BAD_REQUEST') && error.message === message,
      );
    });
  }

  test('that is applied loses times that do not say when, and counts that are fractions', () => {
    const readable = { creationTimestamp: '2026-01-02T03:04:05Z', generation: 3, name: 'a' };
    assert.deepEqual(withoutUnreadable(readable), readable);
    const unreadable = { creationTimestamp: 'x', deletionTimestamp: 7, generation: 1.5, name: 'a' };
    assert.deepEqual(withoutUnreadable(unreadable), { name: 'a' });
  });

  test('is never changed in place, and read twice stays the same', () => {
    const field = fc.constantFrom(
      'name',
      'labels',
      'finalizers',
      'ownerReferences',
      'generation',
      'x',
    );
    fc.assert(
      fc.property(fc.dictionary(field, fc.jsonValue()), (metadata) => {
        const before = structuredClone(metadata);
        try {
          const once = coerceMetadata(metadata).metadata;
          assert.equal(coerceMetadata(once).metadata, once);
        } catch (caught) {
          assert.ok(caught instanceof HansaError);
        }
        assert.deepEqual({ ...metadata }, { ...before });
      }),
    );
  });
});
