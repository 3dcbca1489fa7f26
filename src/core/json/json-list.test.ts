import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { isRecord } from './is-record.ts';
import { JsonItemError, JsonList, type JsonListLimits } from './json-list.ts';

const limits: JsonListLimits = {
  maxItemBytes: 100_000,
  maxItemValues: 1000,
  maxItems: 100,
  maxRestBytes: 10_000,
};

function read(text: string, more: Partial<JsonListLimits> = {}) {
  const list = new JsonList(Buffer.from(text), 'items', { ...limits, ...more });
  const items: unknown[] = [];
  for (let span = list.next(); span !== undefined; span = list.next()) items.push(list.parse(span));
  return { items, rest: list.rest() };
}

describe('a list', () => {
  test('gives its items, and the rest without them, as JSON.parse does', () => {
    const key = fc.constantFrom('a', 'items', '"items":[', 'kind', '\\', '{');
    const object = fc.dictionary(key, fc.jsonValue());
    const spaces = fc.constantFrom(undefined, 1, '\t');
    fc.assert(
      fc.property(object, object, fc.array(object), spaces, (before, after, items, space) => {
        const { items: _, ...head } = before;
        const { items: __, ...tail } = after;
        const text = JSON.stringify({ ...head, items, ...tail }, undefined, space);
        const whole = JSON.parse(text) as { items: unknown[] };
        assert.deepEqual(read(text), { items: whole.items, rest: { ...whole, items: [] } });
      }),
    );
  });

  test('may be missing, null, empty, or in a deeper object', () => {
    for (const text of [
      '{}',
      '{"items":null}',
      '{"items":[]}',
      '{"a":{"items":[{}]}}',
      '[]',
      '1',
    ]) {
      assert.deepEqual(read(text), { items: [], rest: JSON.parse(text) });
    }
  });

  test('that comes twice, or under an escaped name, is left in the rest', () => {
    const twice = read('{"items":[{"a":1}],"items":[{"b":2}]}');
    assert.deepEqual(twice, { items: [{ a: 1 }], rest: { items: [{ b: 2 }] } });
    assert.deepEqual(read('{"\\u0069tems":[{}]}'), { items: [], rest: { items: [{}] } });
  });

  for (const text of [
    '{"items":[',
    '{"items":[{}',
    '{"items":[{"a":"',
    '{"items":[{}{}]}',
    '{"items":[{},]}',
    '{"items":[,{}]}',
    '{"items":[1]}',
    '{"items":[{]]}',
    '{"items":[{"a" 1}]}',
    '{"items":[{}]',
    '{"items":[{}]} {}',
    `{"items":[${'{"a":'.repeat(600)}1${'}'.repeat(600)}]}`,
  ]) {
    test(`is no list: ${text.slice(0, 30)}`, () => {
      assert.throws(() => read(text), SyntaxError);
    });
  }

  test('is what JSON.parse says, for each text, if its items are objects', () => {
    fc.assert(
      fc.property(
        fc.string(),
        fc.array(fc.constantFrom('{', '}', '[', ']', ',', '"', ':', '1')),
        (one, more) => {
          const text = `{"items":[{"a":${JSON.stringify(one)}}${more.join('')}]}`;
          let whole: { items: unknown };
          try {
            whole = JSON.parse(text) as { items: unknown };
          } catch {
            assert.throws(() => read(text), SyntaxError);
            return;
          }
          const { items } = whole;
          if (Array.isArray(items) && items.every(isRecord)) {
            assert.deepEqual(read(text).items, items);
          } else assert.throws(() => read(text), SyntaxError);
        },
      ),
    );
  });
});

describe('limits of a list', () => {
  const of = (item: unknown): string => JSON.stringify({ items: [{}, item] });

  for (const [what, text, more] of [
    [
      'fields and items of an item',
      of(Array.from({ length: 20 }, () => 0))
        .replace('[0', '{"a":[0')
        .replace('0]]', '0]}]'),
      { maxItemValues: 10 },
    ],
    ['bytes of an item', of({ a: 'x'.repeat(50) }), { maxItemBytes: 40 }],
    [
      'bytes of an item without an end',
      '{"items":[{"a":"xxxxxxxxxxxxxxxxxxxxxxxx',
      { maxItemBytes: 10 },
    ],
    ['items', of({}), { maxItems: 1 }],
    ['bytes after the items', `{"items":[],"a":"${'x'.repeat(50)}"}`, { maxRestBytes: 40 }],
  ] as const) {
    test(`count ${what}`, () => {
      assert.throws(() => read(text, more), JsonItemError);
    });
  }

  test('count each item for itself', () => {
    const items = Array.from({ length: 50 }, () => ({ a: [1, 2, 3] }));
    assert.equal(read(JSON.stringify({ items }), { maxItemValues: 5 }).items.length, 50);
  });
});
