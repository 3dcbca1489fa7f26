import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isAgentName } from './agent-name.ts';

test('the name of an agent is one segment of a path, in lower case', () => {
  for (const name of ['a', 'crane-1', 'crane_1', 'crane-1.harbour', '1', 'a'.repeat(63)]) {
    assert.ok(isAgentName(name), name);
  }
  for (const name of [
    '',
    '.',
    '..',
    '-a',
    'a-',
    'Crane',
    'a/b',
    'a b',
    'ä',
    'a\n',
    'a'.repeat(64),
  ]) {
    assert.ok(!isAgentName(name), name);
  }
});
