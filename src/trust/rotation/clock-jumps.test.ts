import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClockJumps } from './clock-jumps.ts';

const minuteMs = 60_000;
const yearMs = 365 * 24 * 60 * minuteMs;

/** A clock whose wall time can jump against its monotonic time. */
function scene() {
  let passedMs = 0;
  let wallMs = 1_000_000;
  const jumps = new ClockJumps({ now: () => wallMs, monotonic: () => passedMs });
  return {
    jumps,
    jump: (byMs: number) => (wallMs += byMs),
    pass: (byMs: number) => {
      passedMs += byMs;
      wallMs += byMs;
    },
  };
}

test('time that only passes is believed', () => {
  const { jumps, pass } = scene();
  pass(yearMs);
  assert.equal(jumps.settlesInMs, 0);
});

for (const [what, byMs] of [
  ['ahead', yearMs],
  ['back', -yearMs],
] as const) {
  test(`a clock that jumped ${what} is believed when it has stayed so for ten minutes`, () => {
    const { jumps, jump, pass } = scene();
    jump(byMs);
    assert.equal(jumps.settlesInMs, 10 * minuteMs);
    pass(9 * minuteMs);
    assert.equal(jumps.settlesInMs, minuteMs);
    pass(minuteMs);
    assert.equal(jumps.settlesInMs, 0);
  });
}

test('a clock that was set right meanwhile is believed at once', () => {
  const { jumps, jump, pass } = scene();
  jump(yearMs);
  assert.ok(jumps.settlesInMs > 0);
  pass(minuteMs);
  jump(-yearMs);
  assert.equal(jumps.settlesInMs, 0);
});

test('a clock that jumps once more is waited with anew', () => {
  const { jumps, jump, pass } = scene();
  jump(2 * 60 * minuteMs);
  assert.ok(jumps.settlesInMs > 0);
  pass(9 * minuteMs);
  jump(yearMs);
  assert.equal(jumps.settlesInMs, 10 * minuteMs);
  pass(9 * minuteMs);
  assert.equal(jumps.settlesInMs, minuteMs);
});
