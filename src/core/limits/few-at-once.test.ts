import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '../errors/error.ts';
import { fewAtOnce } from './few-at-once.ts';

test('tasks beyond the limit are refused, until one ends or fails', async () => {
  const limited = fewAtOnce(2, 'examining 2 clusters');
  const first = Promise.withResolvers<number>();
  const second = Promise.withResolvers<number>();
  const running = [limited(() => first.promise), limited(() => second.promise)];
  const refused = (): Promise<void> =>
    assert.rejects(
      limited(async () => 3),
      (error: unknown) =>
        hasCode(error, 'HANSA_TOO_MANY_REQUESTS') &&
        error.message === 'The site is already examining 2 clusters. Try again in a few seconds.',
    );
  await refused();
  first.resolve(1);
  assert.equal(await running[0], 1);
  assert.equal(await limited(async () => 4), 4);
  const third = Promise.withResolvers<number>();
  running.push(limited(() => third.promise));
  await refused();
  second.reject(new Error('it failed'));
  await assert.rejects(running[1] as Promise<number>, /it failed/);
  assert.equal(await limited(async () => 5), 5);
  third.resolve(6);
  assert.equal(await running[2], 6);
});
