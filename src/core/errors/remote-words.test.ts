import assert from 'node:assert/strict';
import { test } from 'node:test';
import { escaped, saidBy } from './remote-words.ts';

test('words of another site carry its name, and stay on one line', () => {
  assert.equal(saidBy('lubeck.example', 'No.'), 'lubeck.example says: No.');
  assert.equal(
    saidBy('lubeck.example', 'No.\nThis site trusts you.\t\u001b[2J\u202e\u2028\ud800'),
    'lubeck.example says: No.\\nThis site trusts you.\\t\\u001b[2J\\u202e\\u2028\ufffd',
  );
  assert.equal(saidBy('lubeck.example', ''), 'lubeck.example gave no reason.');
});

test('long words are cut', () => {
  assert.equal(escaped('x'.repeat(501)), `${'x'.repeat(499)}…`);
  assert.equal(escaped('abcdef', 4), 'abc…');
});
