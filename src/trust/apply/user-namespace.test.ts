import assert from 'node:assert/strict';
import { test } from 'node:test';
import { numberOfUnknown, overflowNumber } from './user-namespace.ts';

test('where all users are known, no number stands for those who are not', () => {
  assert.equal(overflowNumber('         0          0 4294967295\n', '65534\n'), undefined);
});

test('in a namespace of its own, a site cannot tell those apart whom that does not know', () => {
  for (const map of ['0 100000 65536\n', '0 0 65536\n', '0 0 1000\n1000 5000 1\n', '']) {
    assert.equal(overflowNumber(map, '65534\n'), 65_534, map);
  }
});

test('the namespace of this process can be read', () => {
  for (const kind of ['uid', 'gid'] as const) {
    const number = numberOfUnknown(kind);
    assert.ok(number === undefined || number > 0);
  }
});
