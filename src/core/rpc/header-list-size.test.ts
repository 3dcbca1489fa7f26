import assert from 'node:assert/strict';
import { test } from 'node:test';
import { headerListSize } from './header-list-size.ts';

test('the size counts names, values and 32 bytes for each field, repeated ones too', () => {
  assert.equal(headerListSize({}), 0);
  assert.equal(headerListSize({ te: 'trailers' }), 2 + 8 + 32);
  assert.equal(headerListSize({ 'set-cookie': ['a', 'bc'] }), 10 + 1 + 32 + 10 + 2 + 32);
});
