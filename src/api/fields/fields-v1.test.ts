import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Json } from '../object.ts';
import { equals, fieldSetOf, isEmpty } from './field-set.ts';
import { decodeFieldsV1, encodeFieldsV1 } from './fields-v1.ts';
import { fieldElement, keyElement, PathElementError, valueElement } from './path-element.ts';

const element = fc.oneof(
  fc.string().map(fieldElement),
  fc.constantFrom('f:__proto__', 'f:constructor', 'f:.'),
  fc.oneof(fc.string(), fc.integer(), fc.boolean()).map(valueElement),
  fc.string().map((name) => keyElement([['name', name]])),
  fc.nat().map((index) => `i:${index}`),
);
const anySet = fc
  .array(fc.array(element, { minLength: 1, maxLength: 5 }))
  .map((paths) => fieldSetOf(...paths));

describe('FieldsV1', () => {
  it('marks a parent that is a member itself with a dot, which comes first', () => {
    const set = fieldSetOf(['f:b'], ['f:a', 'f:c'], ['f:a'], ['f:d', 'f:e']);
    assert.equal(
      JSON.stringify(encodeFieldsV1(set)),
      '{"f:a":{".":{},"f:c":{}},"f:b":{},"f:d":{"f:e":{}}}',
    );
  });

  it('of nothing is an empty object, and the other way round', () => {
    assert.equal(JSON.stringify(encodeFieldsV1(fieldSetOf())), '{}');
    for (const nothing of [{}, null, { '.': {} }, { 'z:unknown': {} }]) {
      assert.ok(isEmpty(decodeFieldsV1(nothing)));
    }
  });

  it('ignores elements of unknown types, with what lies below them', () => {
    assert.ok(equals(decodeFieldsV1({ 'f:a': { 'z:x': { 'f:b': {} } } }), fieldSetOf(['f:a'])));
  });

  it('refuses malformed elements, shapes and depths', () => {
    let deep: Json = {};
    for (let i = 0; i < 5000; i++) deep = { 'f:a': deep };
    for (const bad of [{ x: {} }, { 'v:{': {} }, { 'f:a': [] }, { 'f:a': 'x' }, [], 'x', 1, deep]) {
      assert.throws(() => decodeFieldsV1(bad), PathElementError);
    }
  });

  it('comes back as the same set, in the same text', () => {
    fc.assert(
      fc.property(anySet, (set) => {
        const text = JSON.stringify(encodeFieldsV1(set));
        const decoded = decodeFieldsV1(JSON.parse(text) as Json);
        assert.ok(equals(decoded, set));
        assert.equal(JSON.stringify(encodeFieldsV1(decoded)), text);
      }),
    );
  });
});
