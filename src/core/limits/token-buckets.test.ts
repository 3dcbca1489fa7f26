import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { VirtualClock } from '../clock/virtual.ts';
import { TokenBuckets } from './token-buckets.ts';

function buckets(more: { readonly maxKeys?: number } = {}) {
  const clock = new VirtualClock();
  return {
    clock,
    limit: new TokenBuckets({ clock, burst: 3, perSecond: 0.5, maxKeys: 10, ...more }),
  };
}

test('a key may do so much at once, and then at the rate', async () => {
  const { clock, limit } = buckets();
  assert.deepEqual(
    [1, 2, 3, 4].map(() => limit.take('a')),
    [undefined, undefined, undefined, 2],
  );
  await clock.advance(1000);
  assert.equal(limit.take('a'), 1);
  await clock.advance(1000);
  assert.equal(limit.take('a'), undefined);
  assert.equal(limit.take('a'), 2);
});

test('a bucket holds no more than it can, however long it rests', async () => {
  const { clock, limit } = buckets();
  limit.take('a');
  await clock.advance(3_600_000);
  assert.deepEqual(
    [1, 2, 3, 4].map(() => limit.take('a')),
    [undefined, undefined, undefined, 2],
  );
});

test('keys do not share', () => {
  const { limit } = buckets();
  for (const _ of [1, 2, 3, 4]) limit.take('a');
  assert.equal(limit.take('b'), undefined);
});

test('looking takes nothing, and a charge may leave a debt of a bucket at most', async () => {
  const { clock, limit } = buckets();
  limit.charge('a', 2);
  for (const _ of [1, 2, 3]) assert.equal(limit.waitSeconds('a'), undefined);
  limit.charge('a', 1);
  assert.equal(limit.waitSeconds('a'), 2);
  limit.charge('a', 1_000_000);
  assert.equal(limit.waitSeconds('a'), 8);
  await clock.advance(7_999);
  assert.equal(limit.waitSeconds('a'), 1);
  await clock.advance(1);
  assert.equal(limit.waitSeconds('a'), undefined);
});

test('what is remembered is bounded, and who was not seen for long makes room', () => {
  const { limit } = buckets({ maxKeys: 2 });
  for (const _ of [1, 2, 3]) limit.take('a');
  for (const key of ['b', 'a', 'c']) limit.take(key);
  assert.equal(limit.size, 2);
  assert.notEqual(limit.take('a'), undefined);
  limit.take('d');
  limit.take('e');
  assert.equal(limit.take('a'), undefined);
});

test('a larger request waits until there is as much, and costs nothing where it is refused', async () => {
  const { clock, limit } = buckets();
  assert.equal(limit.take('a', 2), undefined);
  assert.equal(limit.take('a', 2), 2);
  assert.equal(limit.take('a', 1), undefined);
  await clock.advance(4000);
  assert.equal(limit.take('a', 2), undefined);
});

test('a key that asks too often is not served later for it', () => {
  let nowMs = 0;
  const limit = new TokenBuckets<number>({
    clock: { monotonic: () => nowMs },
    burst: 1,
    perSecond: 1 / 60,
    maxKeys: 10,
  });
  assert.equal(limit.take(7), undefined);
  for (nowMs = 1; nowMs < 60_000; nowMs += 7) assert.notEqual(limit.take(7), undefined);
  nowMs = 60_000;
  assert.equal(limit.take(7), undefined);
});

test('tokens that are given back never make a bucket hold more than its burst', () => {
  const { limit } = buckets();
  limit.charge('a', -100);
  assert.deepEqual(
    [1, 2, 3, 4].map(() => limit.take('a')),
    [undefined, undefined, undefined, 2],
  );
});

test('no key gets more than its burst and the rate, and a key that waits as told is served', () => {
  const steps = fc.array(fc.tuple(fc.nat(4_000), fc.integer({ min: 1, max: 3 })), {
    maxLength: 60,
  });
  fc.assert(
    fc.property(steps, (asked) => {
      let nowMs = 0;
      const limit = new TokenBuckets({
        clock: { monotonic: () => nowMs },
        burst: 3,
        perSecond: 0.5,
        maxKeys: 2,
      });
      let taken = 0;
      for (const [passMs, cost] of asked) {
        nowMs += passMs;
        const wait = limit.take('a', cost);
        if (wait === undefined) taken += cost;
        else {
          nowMs += wait * 1000;
          assert.equal(limit.take('a', cost), undefined);
          taken += cost;
        }
        assert.ok(taken <= 3 + (nowMs / 1000) * 0.5 + 1e-9);
      }
    }),
  );
});
