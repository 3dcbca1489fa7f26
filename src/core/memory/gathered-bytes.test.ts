import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GatheredBytes } from './gathered-bytes.ts';

function gathered(...parts: readonly Buffer[]): Buffer {
  const bytes = new GatheredBytes();
  for (const part of parts) bytes.add(part);
  assert.equal(bytes.length, bytes.take().length);
  return bytes.take();
}

test('parts of any size give the same bytes as their concatenation', () => {
  assert.deepEqual(gathered(), Buffer.alloc(0));
  for (const sizes of [[0], [0, 5], [5, 0, 3], [1, 1, 1, 1, 1, 1, 1], [3, 70_000, 1, 9]]) {
    const parts = sizes.map((size, at) => Buffer.alloc(size, at + 1));
    assert.deepEqual(gathered(...parts), Buffer.concat(parts), String(sizes));
  }
});

test('a single part is not copied, and none is written to', () => {
  const [first, second] = [Buffer.from('first block').subarray(0, 5), Buffer.from('second')];
  assert.equal(gathered(first).buffer, first.buffer);
  assert.equal(gathered(first, second).toString(), 'firstsecond');
  assert.equal(first.toString(), 'first');
  assert.equal(Buffer.from(first.buffer, first.byteOffset, 11).toString(), 'first block');
});

test('many small parts take about their own length', () => {
  const block = Buffer.alloc(100_000, 'x');
  const bytes = new GatheredBytes();
  for (let at = 0; at < block.length; at += 1) bytes.add(block.subarray(at, at + 1));
  const all = bytes.take();
  assert.ok(all.equals(block));
  assert.notEqual(all.buffer, block.buffer);
  assert.ok(all.buffer.byteLength <= 2 * block.length);
});
