import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualClock } from '../clock/virtual.ts';
import { Health } from './health.ts';

test('a change of a part is noticed within a second, once, also where the part only gets old', async () => {
  const clock = new VirtualClock();
  const health = new Health();
  const expiresAtMs = clock.now() + 5_500;
  health.add('certificate', () => (clock.now() < expiresAtMs ? undefined : 'it has expired'));
  const seen: (string | undefined)[] = [];
  const stop = health.onChange(clock, () => seen.push(health.problem()));
  await clock.advance(5_499);
  assert.deepEqual(seen, []);
  await clock.advance(1_000);
  assert.deepEqual(seen, ['certificate: it has expired']);
  await clock.advance(60_000);
  assert.equal(seen.length, 1);
  stop();
  health.add('store', () => 'gone');
  await clock.advance(60_000);
  assert.equal(seen.length, 1);
});
