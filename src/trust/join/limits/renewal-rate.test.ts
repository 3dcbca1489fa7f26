import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RenewalRate } from './renewal-rate.ts';

function scene() {
  let nowMs = 0;
  const rate = new RenewalRate({ monotonic: () => nowMs });
  return {
    /** How many of a number of consecutive requests are allowed. */
    ask: (instance: string, times: number): number =>
      Array.from({ length: times }, () => rate.may(instance)).filter(Boolean).length,
    pass: (ms: number): void => {
      nowMs += ms;
    },
  };
}

test('a member may be certified some times in a row, and then once a minute', () => {
  const { ask, pass } = scene();
  assert.equal(ask('agent/crane-1', 100), 20);
  pass(59_000);
  assert.equal(ask('agent/crane-1', 100), 0);
  pass(1_000);
  assert.equal(ask('agent/crane-1', 100), 1);
  pass(86_400_000);
  assert.equal(ask('agent/crane-1', 100), 20);
});

test('one that asks without end takes nothing from the others', () => {
  const { ask } = scene();
  ask('bot/ci/1', 1000);
  assert.equal(ask('bot/ci/2', 1), 1);
});
