import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '../../core/errors/error.ts';
import { Shares } from './shares.ts';

const tooMany = (error: unknown): boolean => hasCode(error, 'HANSA_TOO_MANY_REQUESTS');

test('one caller holds no more than its share, and gets it back', () => {
  const shares = new Shares({ each: 2, all: 10 });
  const leave = shares.enter('a');
  shares.enter('a');
  assert.throws(() => shares.enter('a'), tooMany);
  shares.enter('b');
  leave();
  shares.enter('a');
  assert.throws(() => shares.enter('a'), tooMany);
});

test('all callers together hold no more than there is', () => {
  const shares = new Shares({ each: 2, all: 3 });
  for (const caller of ['a', 'b', 'c']) shares.enter(caller);
  assert.throws(() => shares.enter('d'), tooMany);
});

test('nobody is remembered who holds nothing', () => {
  const shares = new Shares({ each: 2, all: 3 });
  for (let index = 0; index < 1000; index++) shares.enter(`caller ${index}`)();
  assert.equal(shares.callers, 0);
});
