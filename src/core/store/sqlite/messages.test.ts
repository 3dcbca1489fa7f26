import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pack, unpackChanges } from './messages.ts';

test('values that are read at start are as they were written, and keep no more than their own bytes', () => {
  const values = [Buffer.from('one'), undefined, Buffer.alloc(0), Buffer.from('three')];
  const rows = unpackChanges({
    revisions: [1, 2, 3, 4],
    collections: ['a', 'a', 'b', 'b'],
    names: ['w', 'x', 'y', 'z'],
    previous: [0, 1, 0, 0],
    packed: pack(values),
  });
  assert.deepEqual(
    rows.map(({ value }) => value),
    values,
  );
  for (const { value } of rows) assert.equal(value?.buffer.byteLength, value?.byteLength);
});
