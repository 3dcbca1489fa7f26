import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { HansaError } from '../../core/errors/error.ts';
import type { Json, JsonObject } from '../object.ts';
import { applyMergePatch } from './merge-patch.ts';

const merge = (document: JsonObject, patch: Json): Json => applyMergePatch(document, patch, 'Warn');

function message(patch: Json, validation: 'Ignore' | 'Warn'): string {
  try {
    applyMergePatch({}, patch, validation);
  } catch (error) {
    assert.ok(error instanceof HansaError && error.code === 'HANSA_BAD_REQUEST', String(error));
    return error.message;
  }
  throw new assert.AssertionError({ message: 'nothing was thrown' });
}

describe('a merge patch', () => {
  it('gives what the examples of RFC 7386 (appendix A) say', () => {
    const examples: [JsonObject, JsonObject, JsonObject][] = [
      [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
      [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
      [{ a: 'b' }, { a: null }, {}],
      [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
      [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
      [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
      [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
      [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
      [{ e: null }, { a: 1 }, { e: null, a: 1 }],
      [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
    ];
    for (const [document, patch, result] of examples)
      assert.deepEqual(merge(document, patch), result);
  });

  it('drops null members inside of new lists, as kube-apiserver does, but keeps null items', () => {
    assert.deepEqual(merge({}, { a: [null, { b: null, c: 1 }] }), { a: [null, { c: 1 }] });
    assert.deepEqual(merge({ a: { x: 1 } }, { a: [{ b: null }] }), { a: [{ b: null }] });
  });

  it('must be an object', () => {
    assert.equal(
      message([1], 'Warn'),
      'error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}',
    );
    assert.equal(message('x', 'Ignore'), 'Invalid JSON Patch');
    assert.equal(message(null, 'Warn'), 'Invalid JSON Patch');
  });

  it('takes keys such as __proto__ as data', () => {
    const patch = JSON.parse('{"__proto__":{"polluted":true},"constructor":{"x":1}}') as Json;
    const result = merge({}, patch);
    assert.equal(JSON.stringify(result), '{"__proto__":{"polluted":true},"constructor":{"x":1}}');
    assert.equal(({} as { polluted?: boolean }).polluted, undefined);
    assert.equal(
      JSON.stringify(merge(result as JsonObject, JSON.parse('{"__proto__":null}') as Json)),
      '{"constructor":{"x":1}}',
    );
  });

  it('that nests too deeply is refused', () => {
    let deep: Json = 'x';
    for (let i = 0; i < 100_000; i++) deep = { a: deep };
    assert.match(message(deep, 'Warn'), /more than 1000 levels/);
  });

  it('changes nothing more from the second time on, and neither of its inputs', () => {
    const json = fc.dictionary(
      fc.constantFrom('a', 'b', 'c'),
      fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Json>,
      { noNullPrototype: true },
    );
    fc.assert(
      fc.property(json, json, (document, patch) => {
        const before = JSON.stringify([document, patch]);
        const once = merge(document, patch) as JsonObject;
        // Twice, because of nulls in a list that took the place of an object (see above).
        const twice = merge(once, patch) as JsonObject;
        assert.deepEqual(merge(twice, patch), twice);
        assert.deepEqual(merge(document, {}), document);
        assert.equal(JSON.stringify([document, patch]), before);
      }),
    );
  });
});
