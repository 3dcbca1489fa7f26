import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { inspectJson, MAX_VALUES } from './strict-json.ts';

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
      assert.deepEqual(inspectJson(JSON.stringify(value)), {
        duplicates: [],
        tooDeep: undefined,
        tooMany: false,
      });
    }),
  );
});

test('the first hundred duplicates are named, and no more', () => {
  const members = Array.from({ length: 40_000 }, (_, at) => `"k${at}":1,"k${at}":1`);
  const { duplicates } = inspectJson(`{${members.join(',')}}`);
  assert.equal(duplicates.length, 100);
  assert.deepEqual(duplicates.slice(0, 2), ['k0', 'k1']);
});

test('the same long path is spelt out only so often', () => {
  const long = 'x'.repeat(100_000);
  const twice = '"y":1,"y":1';
  const items = Array.from({ length: 20_000 }, () => `{${twice}}`);
  assert.equal(inspectJson(`{"items":[${items.join(',')}]}`).duplicates.length, 100);
  assert.equal(inspectJson(`{"${long}":[${items.join(',')}]}`).duplicates.length, 1);
  assert.deepEqual(inspectJson('{"a":1,"a":2,"a":3}').duplicates, ['a']);
});

test('more values than any object needs are told', () => {
  const list = (count: number) => `[${Array(count).fill('1').join(',')}]`;
  assert.equal(inspectJson(list(MAX_VALUES)).tooMany, false);
  assert.equal(inspectJson(list(MAX_VALUES + 1)).tooMany, true);
  assert.equal(inspectJson(JSON.stringify(','.repeat(MAX_VALUES + 1))).tooMany, false);
});

test('a path is not spelt out to its end where its keys are long or many', () => {
  const nest = (key: string, depth: number) =>
    `${`{"${key}":`.repeat(depth)}{"y":1,"y":2}${'}'.repeat(depth)}`;
  for (const text of [nest('x'.repeat(100_000), 1), nest('x'.repeat(500), 400)]) {
    const [path, ...others] = inspectJson(text).duplicates;
    assert.match(path ?? '', /^x{400}.*…$/);
    assert.ok((path ?? '').length < 2000);
    assert.deepEqual(others, []);
  }
});
