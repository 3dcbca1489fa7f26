import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { hasCode } from '../../core/errors/error.ts';
import { Limits } from './limits.ts';
import { Room } from './room.ts';

function room() {
  const limits = new Limits(
    { maxConcurrentRequests: 8, maxWatches: 16, requestsPerSecond: 0 },
    new VirtualClock(),
  );
  return { limits, room: new Room(limits) };
}

const isTooMany = (error: unknown) => hasCode(error, 'HANSA_TOO_MANY_REQUESTS');

suite('the room of a listener', () => {
  for (const [what, isWatch, share] of [
    ['watches', true, 4],
    ['requests', false, 2],
  ] as const) {
    test(`gives one caller a quarter of its ${what}, and others their own`, () => {
      const { room: one } = room();
      for (let count = 0; count < share; count += 1) one.enter(isWatch, 'viewer');
      assert.throws(() => one.enter(isWatch, 'viewer'), isTooMany);
      for (let count = 0; count < share; count += 1) one.enter(isWatch, 'other');
    });

    test(`has room for no more ${what} than its limits, for any caller`, () => {
      const { room: one } = room();
      for (let count = 0; count < share * 4; count += 1) one.enter(isWatch, `user-${count}`);
      assert.throws(() => one.enter(isWatch, 'late'), isTooMany);
    });
  }

  test('takes no place for a caller that it refuses', () => {
    const { room: one, limits } = room();
    for (let count = 0; count < 4; count += 1) one.enter(true, 'viewer');
    assert.throws(() => one.enter(true, 'viewer'), isTooMany);
    assert.equal(limits.watches, 4);
  });

  test('gets a place back once, however often its caller leaves', () => {
    const { room: one, limits } = room();
    one.enter(true, 'a');
    const leave = one.enter(true, 'a');
    leave();
    leave();
    assert.equal(limits.watches, 1);
  });
});
