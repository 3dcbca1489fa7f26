import assert from 'node:assert/strict';
import { test } from 'node:test';
import { unpooledCopy } from './unpooled-copy.ts';

test('a copy to keep has the same bytes, and nothing but these', () => {
  const pooled = Buffer.from('bytes that share a block');
  assert.ok(pooled.buffer.byteLength > pooled.byteLength);
  const own = unpooledCopy(pooled);
  assert.deepEqual(own, pooled);
  assert.equal(own.buffer.byteLength, own.byteLength);
  pooled.fill(0);
  assert.equal(own.toString(), 'bytes that share a block');
});
