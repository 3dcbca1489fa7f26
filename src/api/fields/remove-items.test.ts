import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { JsonObject } from '../object.ts';
import { emptySet, fieldSetOf } from './field-set.ts';
import { jsonEquals } from '../schema/json.ts';
import { removeItems } from './remove-items.ts';
import { anySpec, specSchema } from './conformance-sample.ts';
import { everyField } from './to-field-set.ts';

const value: JsonObject = {
  title: 'x',
  nested: { a: 'y', deep: { b: 1 } },
  labels: { a: '1', b: '2' },
  tags: ['a', 'b'],
  ports: [
    { name: 'a', port: 1 },
    { name: 'b', port: 2 },
  ],
  args: ['z'],
};

describe('cutting a field set out of a value', () => {
  it('removes fields, map entries, set items and items with keys', () => {
    const set = fieldSetOf(
      ['f:title'],
      ['f:nested', 'f:a'],
      ['f:labels', 'f:b'],
      ['f:tags', 'v:"a"'],
      ['f:ports', 'k:{"name":"b","protocol":"TCP"}'],
      ['f:ports', 'k:{"name":"a","protocol":"TCP"}', 'f:port'],
      ['f:args'],
    );
    assert.deepEqual(removeItems(specSchema, value, set), {
      nested: { deep: { b: 1 } },
      labels: { a: '1' },
      tags: ['b'],
      ports: [{ name: 'a' }],
    });
  });

  it('leaves null where a container lost everything', () => {
    const set = fieldSetOf(['f:nested', 'f:deep', 'f:b'], ['f:tags', 'v:"a"'], ['f:tags', 'v:"b"']);
    const cut = removeItems(specSchema, value, set) as JsonObject;
    assert.deepEqual(cut['nested'], { a: 'y', deep: null });
    assert.equal(cut['tags'], null);
  });

  it('ignores fields that the value does not have', () => {
    assert.deepEqual(removeItems(specSchema, value, fieldSetOf(['f:nope'], ['f:size'])), value);
  });

  it('removes nothing with the empty set, and everything with every field', () => {
    fc.assert(
      fc.property(anySpec, (spec) => {
        const whole = Object.keys(spec).length === 0 ? null : spec;
        assert.ok(jsonEquals(removeItems(specSchema, spec, emptySet), whole));
        assert.equal(removeItems(specSchema, spec, everyField(specSchema, spec).below), null);
      }),
    );
  });
});
