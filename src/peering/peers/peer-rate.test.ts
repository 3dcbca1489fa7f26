import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { PeerRate } from './peer-rate.ts';

const allowed = (rate: PeerRate, uid: string, tries: number): number =>
  Array.from({ length: tries }, () => rate.take(uid)).filter(Boolean).length;

test('a peer may use its burst at once and then so much a second', async () => {
  const clock = new VirtualClock();
  const rate = new PeerRate(clock, { burst: 5, perSecond: 2 });
  assert.equal(allowed(rate, 'a', 10), 5);
  await clock.advance(1000);
  assert.equal(allowed(rate, 'a', 10), 2);
  await clock.advance(3_600_000);
  assert.equal(allowed(rate, 'a', 10), 5);
});

test('what is refused costs nothing, and a smaller request may still pass', () => {
  const rate = new PeerRate(new VirtualClock(), { burst: 5, perSecond: 2 });
  assert.equal(rate.take('a', 6), false);
  assert.equal(allowed(rate, 'a', 10), 5);
});

test('one peer uses nothing of another, also not of an earlier one of its name', () => {
  const rate = new PeerRate(new VirtualClock(), { burst: 5, perSecond: 2 });
  assert.equal(allowed(rate, 'a', 10), 5);
  assert.equal(allowed(rate, 'b', 10), 5);
});
