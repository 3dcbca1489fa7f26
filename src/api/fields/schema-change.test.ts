import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { equals, fieldSetOf } from './field-set.ts';
import { anySpec, specSchema } from './conformance-sample.ts';
import { reconcileWithSchema } from './schema-change.ts';
import { toFieldSet } from './to-field-set.ts';

describe('a field set that is older than the schema', () => {
  it('owns the whole of what became atomic', () => {
    const old = fieldSetOf(['f:frozen', 'f:k'], ['f:args', 'v:"a"'], ['f:title']);
    const now = fieldSetOf(['f:frozen'], ['f:args'], ['f:title']);
    assert.ok(equals(reconcileWithSchema(specSchema, old), now));
  });

  it('is left alone in what the schema does not know', () => {
    const old = fieldSetOf(['f:gone', 'f:x'], ['f:extra', 'f:any', 'f:thing']);
    assert.equal(reconcileWithSchema(specSchema, old), old);
  });

  it('is the very same set where nothing changed', () => {
    fc.assert(
      fc.property(anySpec, (spec) => {
        const set = toFieldSet(specSchema, spec);
        assert.equal(reconcileWithSchema(specSchema, set), set);
      }),
    );
  });
});
