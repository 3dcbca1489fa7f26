import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { systemClock, systemRandom } from './system.ts';

/** The timer of the clock does not keep the process alive; this does, while the test waits. */
function whileAwake<T>(work: Promise<T>): Promise<T> {
  const awake = setInterval(() => {}, 1000);
  return work.finally(() => clearInterval(awake));
}

suite('the real clock', () => {
  test('fires timers in order of their time, never within the call that sets them', async () => {
    const fired: number[] = [];
    // Set first and due last. The others are set in order, so that a pause between two of them changes nothing.
    const late = systemClock.timer(3_600_000, () => fired.push(3_600_000));
    await whileAwake(
      new Promise<void>((resolve) => {
        for (const delayMs of [0, -1, 5, 20]) {
          systemClock.timer(delayMs, () => {
            fired.push(delayMs);
            if (delayMs === 20) resolve();
          });
        }
        assert.deepEqual(fired, []);
      }),
    );
    late.cancel();
    assert.deepEqual(fired, [0, -1, 5, 20]);
  });

  test('does not fire what was cancelled', async () => {
    const fired: string[] = [];
    await whileAwake(
      new Promise<void>((resolve) => {
        const timer = systemClock.timer(0, () => fired.push('cancelled'));
        timer.cancel();
        timer.cancel();
        systemClock.timer(5, resolve);
      }),
    );
    assert.deepEqual(fired, []);
  });

  test('waits longer than setTimeout can, and does not fire at once', async () => {
    const fired: number[] = [];
    const timers = [2 ** 31, 2 ** 40, Number.POSITIVE_INFINITY].map((delayMs) =>
      systemClock.timer(delayMs, () => fired.push(delayMs)),
    );
    await whileAwake(new Promise<void>((resolve) => void systemClock.timer(10, resolve)));
    for (const timer of timers) timer.cancel();
    assert.deepEqual(fired, []);
  });

  test('refuses a delay that is not a number', () => {
    assert.throws(() => systemClock.timer(Number.NaN, () => {}), RangeError);
  });
});

test('real randomness gives as many bytes as were asked for, and not the same twice', async () => {
  const [a, b] = [await systemRandom.bytes(32), await systemRandom.bytes(32)];
  assert.equal(a.length, 32);
  assert.notDeepEqual(a, b);
  assert.notEqual(systemRandom.uuid(), systemRandom.uuid());
});
