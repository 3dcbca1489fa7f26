import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LatestWriter } from './latest-writer.ts';

test('a slow reader gets what is on its way and then the newest, nothing in between', () => {
  const written: string[] = [];
  const pending: (() => void)[] = [];
  const writer = new LatestWriter({
    write: (message, sent) => {
      written.push(Buffer.from(message).toString());
      pending.push(sent);
    },
  });
  for (const text of ['1', '2', '3', '4']) writer.send(Buffer.from(text));
  assert.deepEqual(written, ['1']);
  pending.shift()?.();
  assert.deepEqual(written, ['1', '4']);
  pending.shift()?.();
  writer.send(Buffer.from('5'));
  assert.deepEqual(written, ['1', '4', '5']);
});
