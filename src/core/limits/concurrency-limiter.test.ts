import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { VirtualClock } from '../clock/virtual.ts';
import { ConcurrencyLimiter } from './concurrency-limiter.ts';

function scene(atOnce: number, mostWaiting = 100) {
  const clock = new VirtualClock();
  const limiter = new ConcurrencyLimiter({ clock, atOnce, patienceMs: 500, mostWaiting });
  const begun: string[] = [];
  const begin = (name: string) => {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const result = limiter.run(() => {
      begun.push(name);
      return promise;
    });
    return { result, end: () => resolve(name), fail: () => reject(new Error(name)) };
  };
  return { clock, limiter, begun, begin };
}

suite('turns', () => {
  test('are given in order, to so many at once', async () => {
    const { clock, begun, begin } = scene(2);
    const [first, , third] = ['a', 'b', 'c', 'd'].map(begin);
    await clock.advance(0);
    assert.deepEqual(begun, ['a', 'b']);
    first?.end();
    assert.equal(await first?.result, 'a');
    await clock.advance(0);
    assert.deepEqual(begun, ['a', 'b', 'c']);
    third?.end();
    await clock.advance(0);
    assert.deepEqual(begun, ['a', 'b', 'c', 'd']);
  });

  test('pass from one that takes long to the next, once', async () => {
    const { clock, limiter, begun, begin } = scene(1);
    const [slow] = ['a', 'b', 'c', 'd'].map(begin);
    await clock.advance(499);
    assert.deepEqual(begun, ['a']);
    await clock.advance(1);
    assert.deepEqual(begun, ['a', 'b']);
    // It has given its place back already.
    slow?.end();
    assert.equal(await slow?.result, 'a');
    await clock.advance(0);
    assert.deepEqual(begun, ['a', 'b']);
    await clock.advance(1000);
    assert.deepEqual(begun, ['a', 'b', 'c', 'd']);
    assert.equal(limiter.isFree, false);
    await clock.advance(500);
    assert.equal(limiter.isFree, true);
  });

  test('that end badly are given back too', async () => {
    const { clock, limiter, begun, begin } = scene(1);
    const [bad, next] = ['a', 'b'].map(begin);
    bad?.fail();
    await assert.rejects(bad?.result as Promise<string>, /^Error: a$/);
    await clock.advance(0);
    assert.deepEqual(begun, ['a', 'b']);
    next?.end();
    await next?.result;
    assert.equal(limiter.isFree, true);
  });

  test('have room for so many who wait', async () => {
    const { clock, limiter, begin } = scene(1, 2);
    ['a', 'b'].forEach(begin);
    assert.equal(limiter.isFull, false);
    begin('c');
    assert.equal(limiter.isFull, true);
    await clock.advance(500);
    assert.equal(limiter.isFull, false);
  });
});
