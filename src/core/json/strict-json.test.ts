import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import * as strict from './strict-json.ts';

const { MAX_VALUES } = strict;
const duplicateFields = (text: string) => strict.duplicateFields(Buffer.from(text));
const jsonExcess = (text: string) => strict.jsonExcess(Buffer.from(text));

test('a field that stands twice is found with its path', () => {
  assert.deepEqual(duplicateFields('{"a":1,"a":2}'), ['a']);
  assert.deepEqual(duplicateFields('{"spec":{"rules":[{"x":1},{"y":1,"y":2}]}}'), [
    'spec.rules[1].y',
  ]);
});

test('an escaped spelling of the same key is a duplicate too', () => {
  assert.deepEqual(duplicateFields(String.raw`{"a":1,"\u0061":2}`), ['a']);
});

test('keys beyond ASCII are told as they are, whichever way they are spelt', () => {
  assert.deepEqual(duplicateFields(String.raw`{"ü€😀":1,"\u00fc€\ud83d\ude00":2}`), ['ü€😀']);
});

test('equal keys of different objects, and keys inside strings, are no duplicates', () => {
  assert.deepEqual(
    duplicateFields(String.raw`{"a":{"a":"{\"a\":1,\"a\":2}\\"},"b":[{"a":1},{"a":2}]}`),
    [],
  );
});

test('nesting beyond the limit is reported', () => {
  assert.equal(jsonExcess('['.repeat(513) + ']'.repeat(513)), '[');
  assert.equal(jsonExcess('['.repeat(512) + ']'.repeat(512)), undefined);
  assert.equal(strict.jsonExcess(Buffer.from('[[[]]]'), 10, 2), '[');
  assert.equal(strict.jsonExcess(Buffer.from('[[]]'), 10, 2), undefined);
});

test('what JSON.stringify writes never has duplicates', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
      const text = JSON.stringify(value);
      assert.deepEqual(duplicateFields(text), []);
      assert.equal(jsonExcess(text), undefined);
    }),
  );
});

test('the first hundred duplicates are named, and no more', () => {
  const members = Array.from({ length: 40_000 }, (_, at) => `"k${at}":1,"k${at}":1`);
  const duplicates = duplicateFields(`{${members.join(',')}}`);
  assert.equal(duplicates.length, 100);
  assert.deepEqual(duplicates.slice(0, 2), ['k0', 'k1']);
});

test('the same long path is spelt out only so often', () => {
  const long = 'x'.repeat(100_000);
  const twice = '"y":1,"y":1';
  const items = Array.from({ length: 20_000 }, () => `{${twice}}`);
  assert.equal(duplicateFields(`{"items":[${items.join(',')}]}`).length, 100);
  assert.equal(duplicateFields(`{"${long}":[${items.join(',')}]}`).length, 1);
  assert.deepEqual(duplicateFields('{"a":1,"a":2,"a":3}'), ['a']);
});

test('more values than any object needs are told', () => {
  const list = (count: number) => `[${Array(count).fill('1').join(',')}]`;
  assert.equal(jsonExcess(list(MAX_VALUES)), undefined);
  assert.equal(jsonExcess(list(MAX_VALUES + 1)), 'values');
  assert.equal(jsonExcess(`[${'[]'.repeat(MAX_VALUES)}]`), 'values');
  assert.equal(jsonExcess(JSON.stringify(`\\"${'[{,'.repeat(MAX_VALUES + 1)}`)), undefined);
});

test('what is too much is told of texts that are no JSON, too', () => {
  assert.equal(jsonExcess('{'.repeat(100_000)), '{');
  assert.equal(jsonExcess('[1,'.repeat(513)), '[');
  assert.equal(jsonExcess(','.repeat(MAX_VALUES + 1)), 'values');
  assert.equal(jsonExcess(`"${','.repeat(MAX_VALUES + 1)}`), undefined);
  for (const text of ['', ']', '}}}', '"', '"\\', 'x']) assert.equal(jsonExcess(text), undefined);
});

test('commas and brackets within strings count as nothing, however long and escaped the strings are', () => {
  // As a reader steps through a text, one character after the other.
  const values = (text: string): number => {
    let [count, isInside] = [0, false];
    for (let at = 0; at < text.length; at += 1) {
      if (isInside && text[at] === '\\') at += 1;
      else if (text[at] === '"') isInside = !isInside;
      else if (!isInside && [',', '[', '{'].includes(text[at] ?? '')) count += 1;
    }
    return count;
  };
  const run = fc
    .tuple(fc.constantFrom('"', '\\', '\\"', ',', '[', ']', '{', '}', 'x', '",'), fc.nat(70))
    .map(([part, times]) => part.repeat(times));
  fc.assert(
    fc.property(fc.array(run, { maxLength: 12 }), (runs) => {
      const text = runs.join('');
      const count = values(text);
      const bytes = Buffer.from(text);
      assert.equal(strict.jsonExcess(bytes, count, text.length), undefined);
      if (count > 0) assert.equal(strict.jsonExcess(bytes, count - 1, text.length), 'values');
    }),
    { numRuns: 2000 },
  );
});

test('a path is not spelt out to its end where its keys are long or many', () => {
  const nest = (key: string, depth: number) =>
    `${`{"${key}":`.repeat(depth)}{"y":1,"y":2}${'}'.repeat(depth)}`;
  for (const text of [nest('x'.repeat(100_000), 1), nest('x'.repeat(500), 400)]) {
    const [path, ...others] = duplicateFields(text);
    assert.match(path ?? '', /^x{400}.*…$/);
    assert.ok((path ?? '').length < 2000);
    assert.deepEqual(others, []);
  }
});

test('bounded JSON is read, and too deep or too large JSON is a syntax error that says so', () => {
  const parse = (text: string) => strict.parseBoundedJson(Buffer.from(text));
  assert.deepEqual(parse('{"a":[1]}'), { a: [1] });
  assert.throws(() => parse('{'), SyntaxError);
  assert.throws(() => parse('['.repeat(8000)), /SyntaxError: nested deeper than 512 levels/);
  assert.throws(() => parse(`[${'1,'.repeat(MAX_VALUES)}1]`), /SyntaxError: more than 10000/);
});

test('parsed JSON nests too deeply exactly where its text does', () => {
  for (const levels of [1, 511, 512, 513, 30_000]) {
    const lists = '['.repeat(levels) + ']'.repeat(levels);
    const objects = `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`;
    for (const text of [lists, objects]) {
      const isDeep = strict.nestsTooDeeply(JSON.parse(text));
      assert.equal(isDeep, jsonExcess(text) !== undefined, text.slice(0, 9));
    }
  }
  assert.equal(strict.nestsTooDeeply(JSON.parse('[{"__proto__":{"a":[1]}},null,"x"]')), false);
});
