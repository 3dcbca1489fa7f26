import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { sleep } from './clock.ts';
import { LocalClock, VirtualClock } from './virtual.ts';

describe('the virtual clock', () => {
  test('stands still by itself', async () => {
    const clock = new VirtualClock(1000);
    let fired = false;
    clock.timer(0, () => {
      fired = true;
    });
    await new Promise(setImmediate);
    assert.equal(fired, false);
    assert.equal(clock.now(), 1000);
    assert.equal(clock.monotonic(), 0);
  });

  test('fires timers in order of due time, then of setting, each at its own time', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(50), { maxLength: 60 }), async (delays) => {
        const clock = new VirtualClock();
        const fired: { at: number; index: number }[] = [];
        delays.forEach((delay, index) => {
          clock.timer(delay, () => {
            assert.equal(clock.monotonic(), delay);
            fired.push({ at: delay, index });
          });
        });
        await clock.advance(50);
        const expected = delays
          .map((at, index) => ({ at, index }))
          .toSorted((a, b) => a.at - b.at || a.index - b.index);
        assert.deepEqual(fired, expected);
      }),
    );
  });

  test('does not fire what is due later, nor what was cancelled', async () => {
    const clock = new VirtualClock();
    const fired: string[] = [];
    clock.timer(10, () => fired.push('ten'));
    clock.timer(11, () => fired.push('eleven'));
    const cancelled = clock.timer(5, () => fired.push('five'));
    cancelled.cancel();
    cancelled.cancel();
    await clock.advance(10);
    assert.deepEqual(fired, ['ten']);
    assert.equal(clock.monotonic(), 10);
  });

  test('fires timers that were set meanwhile, if they fall into the time that passes', async () => {
    const clock = new VirtualClock();
    const at: number[] = [];
    const tick = (): void => {
      at.push(clock.monotonic());
      clock.timer(4, tick);
    };
    clock.timer(4, tick);
    await clock.advance(13);
    assert.deepEqual(at, [4, 8, 12]);
  });

  test('lets promises run to their end before the next timer', async () => {
    const clock = new VirtualClock();
    const steps: string[] = [];
    clock.timer(1, () => {
      void (async () => {
        for (let i = 0; i < 50; i++) await Promise.resolve();
        steps.push('first');
      })();
    });
    clock.timer(1, () => steps.push('second'));
    await clock.advance(1);
    assert.deepEqual(steps, ['first', 'second']);
  });

  test('tells whether it became idle', async () => {
    const clock = new VirtualClock();
    clock.timer(70_000, () => {});
    clock.timer(Number.POSITIVE_INFINITY, () => {});
    assert.equal(await clock.runUntilIdle(), true);
    assert.equal(clock.monotonic(), 70_000);
    const again = (): void => void clock.timer(1000, again);
    again();
    assert.equal(await clock.runUntilIdle(5000), false);
    assert.equal(clock.monotonic(), 75_000);
  });

  test('keeps monotonic time when wall time jumps', async () => {
    const clock = new VirtualClock(10_000);
    clock.jumpWall(-4000);
    await clock.advance(1);
    assert.equal(clock.now(), 6001);
    assert.equal(clock.monotonic(), 1);
  });

  test('refuses to advance within itself, which could not be replayed', async () => {
    const clock = new VirtualClock();
    const first = clock.advance(1);
    await assert.rejects(clock.advance(1), /passing already/);
    await first;
  });

  test('refuses a delay that is not a number', () => {
    assert.throws(() => new VirtualClock().timer(Number.NaN, () => {}), RangeError);
  });

  test('drives sleep, which an abort ends early', async () => {
    const clock = new VirtualClock();
    const abort = new AbortController();
    let slept = false;
    void (async () => {
      await sleep(clock, 100);
      slept = true;
    })();
    const aborted = assert.rejects(sleep(clock, 100, abort.signal), /enough/);
    await clock.advance(50);
    abort.abort(new Error('enough'));
    await aborted;
    assert.equal(slept, false);
    await clock.advance(50);
    assert.equal(slept, true);
  });
});

describe('a local clock', () => {
  test('has its own wall time and its own pace', async () => {
    const base = new VirtualClock(0);
    const local = new LocalClock(base, { skewMs: -500, rate: 2 });
    let firedAt = -1;
    local.timer(100, () => {
      firedAt = base.monotonic();
    });
    await base.advance(200);
    assert.equal(firedAt, 50);
    assert.equal(local.monotonic(), 400);
    assert.equal(local.now(), -300);
    local.jumpWall(1000);
    assert.equal(local.now(), 700);
  });

  test('keeps timers back while paused, and fires them in order when it goes on', async () => {
    const base = new VirtualClock();
    const local = new LocalClock(base);
    const fired: string[] = [];
    local.timer(10, () => fired.push('a'));
    local.timer(20, () => fired.push('b'));
    const cancelled = local.timer(15, () => fired.push('never'));
    local.pause();
    await base.advance(100);
    assert.deepEqual(fired, []);
    cancelled.cancel();
    local.resume();
    await base.advance(0);
    assert.deepEqual(fired, ['a', 'b']);
    assert.equal(local.monotonic(), 100);
  });

  test('fires nothing after it was killed', async () => {
    const base = new VirtualClock();
    const local = new LocalClock(base);
    let fired = false;
    local.timer(10, () => {
      fired = true;
    });
    local.kill();
    local.timer(10, () => {
      fired = true;
    });
    await base.advance(100);
    assert.equal(fired, false);
  });
});
