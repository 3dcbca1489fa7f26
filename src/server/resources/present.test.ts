import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from 'yaml';
import { encode } from './present.ts';

test('YAML is laid out for people where it is short, and is JSON where it is long', () => {
  const yaml = { as: 'object', encoding: 'yaml' } as const;
  assert.equal(encode(yaml, { a: { b: 1 } }), 'a:\n  b: 1\n');
  const items = Array.from({ length: 5000 }, (_, at) => ({ name: `n${at}`, labels: { a: 'on' } }));
  const long = encode(yaml, { items });
  assert.equal(long, `${JSON.stringify({ items })}\n`);
  const few = { items: items.slice(0, 1500) };
  assert.deepEqual(parse(encode(yaml, few)), few);
});
