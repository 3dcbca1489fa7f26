import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { jsonMembers } from './json-members.ts';

function read(text: string): readonly (readonly [string, string])[] {
  return jsonMembers(Buffer.from(text)).map(({ key, json }) => [key, json.toString()] as const);
}

suite('the members of a JSON object', () => {
  test('come in their order, with duplicates', () => {
    assert.deepEqual(read('{"b":1,"2":{"b":3},"1":[4,{"x":5}],"b":null}'), [
      ['b', '1'],
      ['2', '{"b":3}'],
      ['1', '[4,{"x":5}]'],
      ['b', 'null'],
    ]);
  });

  test('may contain brackets, commas, colons and quotes in texts', () => {
    assert.deepEqual(read(String.raw` { "a\"{:," : "}]\\" , "b" : ":," } `), [
      ['a"{:,', String.raw` "}]\\" `],
      ['b', ' ":," '],
    ]);
  });

  test('are none in an empty object', () => {
    assert.deepEqual(read('{}'), []);
    assert.deepEqual(read(' { } '), []);
  });

  test('are those of JSON.parse where no key is repeated', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (object) => {
        for (const spaces of [0, 2]) {
          const text = JSON.stringify(object, undefined, spaces);
          const members = read(text).map(([key, json]) => [key, JSON.parse(json) as unknown]);
          assert.deepEqual(members, Object.entries(JSON.parse(text) as object));
        }
      }),
    );
  });
});
