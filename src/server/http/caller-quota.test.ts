import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '../../core/errors/error.ts';
import { CallerQuota } from './caller-quota.ts';

const tooMany = (error: unknown): boolean => hasCode(error, 'HANSA_TOO_MANY_REQUESTS');

test('one caller holds no more than its share, and gets it back', () => {
  const quota = new CallerQuota({ each: 2, all: 10 });
  const leave = quota.enter('a');
  quota.enter('a');
  assert.throws(() => quota.enter('a'), tooMany);
  quota.enter('b');
  leave();
  quota.enter('a');
  assert.throws(() => quota.enter('a'), tooMany);
});

test('all callers together hold no more than there is', () => {
  const quota = new CallerQuota({ each: 2, all: 3 });
  for (const caller of ['a', 'b', 'c']) quota.enter(caller);
  assert.throws(() => quota.enter('d'), tooMany);
});

test('nobody is remembered who holds nothing', () => {
  const quota = new CallerQuota({ each: 2, all: 3 });
  for (let index = 0; index < 1000; index++) quota.enter(`caller ${index}`)();
  assert.equal(quota.callers, 0);
});
