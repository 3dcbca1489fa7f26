import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { inspectJson } from './strict-json.ts';

test('a field that stands twice is found with its path', () => {
  assert.deepEqual(inspectJson('{"a":1,"a":2}').duplicates, ['a']);
  assert.deepEqual(inspectJson('{"spec":{"rules":[{"x":1},{"y":1,"y":2}]}}').duplicates, [
    'spec.rules[1].y',
  ]);
});

test('an escaped spelling of the same key is a duplicate too', () => {
  assert.deepEqual(inspectJson(String.raw`{"a":1,"\u0061":2}`).duplicates, ['a']);
});

test('equal keys of different objects, and keys inside strings, are no duplicates', () => {
  assert.deepEqual(
    inspectJson(String.raw`{"a":{"a":"{\"a\":1,\"a\":2}\\"},"b":[{"a":1},{"a":2}]}`).duplicates,
    [],
  );
});

test('nesting beyond the limit is reported', () => {
  assert.equal(inspectJson('['.repeat(513) + ']'.repeat(513)).tooDeep, '[');
  assert.equal(inspectJson('['.repeat(512) + ']'.repeat(512)).tooDeep, undefined);
});

test('what JSON.stringify writes never has duplicates', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
      assert.deepEqual(inspectJson(JSON.stringify(value)), { duplicates: [], tooDeep: undefined });
    }),
  );
});
