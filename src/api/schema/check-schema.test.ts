import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkSchema } from './check-schema.ts';
import { optional, required, s } from './dsl.ts';
import type { Schema } from './schema.ts';

const description = 'For the test.';
const item = s.object({
  description,
  fields: {
    name: required(s.string({ description })),
    note: optional(s.string({ description })),
    tags: required(s.list({ description, listType: 'atomic', items: s.string({ description }) })),
  },
});

const wrong: readonly (readonly [string, Schema, RegExp])[] = [
  ['no description', s.string({ description: ' ' }), /has no description/],
  [
    'a misspelt keyword',
    { type: 'string', description, minlength: 1 } as Schema,
    /"minlength" means nothing/,
  ],
  ['a hint in vain', s.string({ description, hint: 'x' }), /a hint without a pattern/],
  ['a broken pattern', s.string({ description, pattern: '(' }), /is not a regular expression/],
  ['an empty enum', s.string({ description, enum: [] }), /accepts nothing/],
  ['a set of objects', s.list({ description, listType: 'set', items: item }), /items of a set/],
  [
    'keys on a set',
    s.list({ description, listType: 'set', keys: ['a'], items: s.string({ description }) }),
    /only a list of type map has keys/,
  ],
  ['a map list without keys', s.list({ description, listType: 'map', items: item }), /needs keys/],
  [
    'a map list of strings',
    s.list({ description, listType: 'map', keys: ['a'], items: s.string({ description }) }),
    /are objects/,
  ],
  [
    'a key that is no field',
    s.list({ description, listType: 'map', keys: ['x'], items: item }),
    /no field "x"/,
  ],
  [
    'an optional key',
    s.list({ description, listType: 'map', keys: ['note'], items: item }),
    /must be required/,
  ],
  [
    'a key that is a list',
    s.list({ description, listType: 'map', keys: ['tags'], items: item }),
    /must be a string/,
  ],
  [
    'a field in snake case',
    s.object({ description, fields: { a_b: optional(s.string({ description })) } }),
    /camelCase/,
  ],
  [
    'a required default',
    s.object({ description, fields: { a: required(s.string({ description, default: 'x' })) } }),
    /in vain/,
  ],
  [
    'a fault deep below',
    s.map({ description, values: s.list({ description, listType: 'map', items: item }) }),
    /root\{\}: a list/,
  ],
];

for (const [what, schema, message] of wrong) {
  test(`a schema with ${what} is a programming error`, () => {
    assert.throws(() => checkSchema(schema, 'root'), message);
  });
}

test('a sound schema passes', () => {
  const list = s.list({ description, listType: 'map', keys: ['name'], items: item });
  assert.doesNotThrow(() => checkSchema(list, 'root'));
});
