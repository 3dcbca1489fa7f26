import assert from 'node:assert/strict';
import { test } from 'node:test';
import { refreshAfterSeconds } from './refresh-hint.ts';

test('hints are taken within a minute and an hour', () => {
  assert.deepEqual(
    [undefined, 0, 59, 61, 3601, 1e9].map(refreshAfterSeconds),
    [300, 60, 60, 61, 3600, 3600],
  );
});
