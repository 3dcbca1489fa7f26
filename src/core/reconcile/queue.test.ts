import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { sleep } from '../clock/clock.ts';
import { SeededRandom } from '../clock/seeded-random.ts';
import { settle, VirtualClock } from '../clock/virtual.ts';
import { KeyQueue, type QueueOptions } from './queue.ts';

/** A queue whose every run takes `runMs` and is written down. */
function queueOf({ runMs = 10, ...options }: Partial<QueueOptions> & { runMs?: number } = {}): {
  clock: VirtualClock;
  queue: KeyQueue;
  runs: { key: string; at: number }[];
} {
  const clock = new VirtualClock();
  const runs: { key: string; at: number }[] = [];
  const queue = new KeyQueue({
    clock,
    random: new SeededRandom('queue'),
    parallelism: 2,
    work: async (key) => {
      runs.push({ key, at: clock.monotonic() });
      await sleep(clock, runMs);
    },
    ...options,
  });
  return { clock, queue, runs };
}

describe('the key queue', () => {
  test('runs a key that was added several times once', async () => {
    const { clock, queue, runs } = queueOf();
    for (let i = 0; i < 5; i++) queue.add('a');
    assert.equal(queue.depth, 1);
    await clock.advance(100);
    assert.deepEqual(runs, [{ key: 'a', at: 0 }]);
  });

  test('does not run work before add returns', async () => {
    const { clock, queue, runs } = queueOf();
    queue.add('a');
    assert.equal(runs.length, 0);
    await clock.advance(0);
    assert.equal(runs.length, 1);
  });

  test('runs a key once more that was added while it ran, and not at the same time', async () => {
    const { clock, queue, runs } = queueOf();
    queue.add('a');
    await clock.advance(5);
    queue.add('a');
    queue.add('a');
    await clock.advance(100);
    assert.deepEqual(
      runs.map(({ at }) => at),
      [0, 10],
    );
  });

  test('runs no more keys at once than its parallelism, in the order in which they came', async () => {
    const { clock, queue, runs } = queueOf();
    for (const key of ['a', 'b', 'c', 'd', 'e']) queue.add(key);
    await clock.advance(0);
    assert.equal(queue.running, 2);
    assert.equal(queue.depth, 3);
    await clock.advance(100);
    assert.deepEqual(runs, [
      { key: 'a', at: 0 },
      { key: 'b', at: 0 },
      { key: 'c', at: 10 },
      { key: 'd', at: 10 },
      { key: 'e', at: 20 },
    ]);
  });

  test('lets others run between keys whose runs wait for nothing', async () => {
    let elapsedMs = 0;
    // To look at it takes a millisecond: the work of beginning a run.
    const clock = Object.assign(new VirtualClock(), { monotonic: () => elapsedMs++ });
    const runs: string[] = [];
    const work = async (key: string): Promise<void> => {
      runs.push(key);
    };
    const queue = new KeyQueue({ clock, random: new SeededRandom('queue'), parallelism: 64, work });
    const keys = Array.from({ length: 40 }, (_, at) => `k${at}`);
    for (const key of keys) queue.add(key);
    const rows: number[] = [];
    while (runs.length < keys.length) {
      const before = runs.length;
      await settle();
      rows.push(runs.length - before);
    }
    assert.deepEqual(runs, keys);
    assert.ok(Math.max(...rows) <= 5, `rows of ${rows.join()}`);
  });

  test('adds a key after a delay, of which the shortest counts', async () => {
    const { clock, queue, runs } = queueOf();
    queue.addAfter('a', 500);
    queue.addAfter('a', 200);
    queue.addAfter('a', 900);
    await clock.advance(1000);
    assert.deepEqual(runs, [{ key: 'a', at: 200 }]);
  });

  test('lets a run end the delay of its key', async () => {
    const { clock, queue, runs } = queueOf();
    queue.addAfter('a', 500);
    queue.add('a');
    await clock.advance(1000);
    assert.deepEqual(runs, [{ key: 'a', at: 0 }]);
  });

  test('doubles the delay with each failure up to the longest, with jitter, until forgotten', () => {
    const { queue } = queueOf({ backOff: { firstMs: 100, longestMs: 1000 } });
    const ceilings = [100, 200, 400, 800, 1000, 1000];
    for (const ceiling of ceilings) {
      const delay = queue.retry('a');
      assert.ok(delay >= ceiling / 2 && delay <= ceiling, `${delay} of ${ceiling}`);
    }
    for (let i = 0; i < 2000; i++) queue.retry('a');
    assert.ok(queue.retry('a') <= 1000);
    assert.equal(queue.failing, 1);
    queue.forget('a');
    assert.equal(queue.failing, 0);
    assert.ok(queue.retry('a') <= 100);
  });

  test('stops: begins nothing more, waits for what runs, takes nothing', async () => {
    const { clock, queue, runs } = queueOf();
    for (const key of ['a', 'b', 'c']) queue.add(key);
    queue.addAfter('d', 5);
    await clock.advance(0);
    let stopped = false;
    const stopping = queue.stop().then(() => {
      stopped = true;
      return undefined;
    });
    queue.add('e');
    queue.addAfter('e', 1);
    await clock.advance(9);
    assert.equal(stopped, false);
    await clock.advance(100);
    await stopping;
    await queue.stop();
    assert.deepEqual(
      runs.map(({ key }) => key),
      ['a', 'b'],
    );
    assert.equal(clock.nextDueMs(), undefined);
  });

  test('refuses a parallelism below one', () => {
    assert.throws(() => queueOf({ parallelism: 0 }), RangeError);
    assert.throws(() => queueOf({ parallelism: Number.NaN }), RangeError);
  });

  test('runs every key after its last add, never twice at once, whatever happens', async () => {
    const step = fc.record({
      key: fc.constantFrom('a', 'b', 'c', 'd'),
      waitMs: fc.nat(15),
      how: fc.constantFrom('add', 'addAfter', 'retry', 'forget'),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 40 }),
        fc.integer({ min: 1, max: 3 }),
        async (steps, parallelism) => {
          const clock = new VirtualClock();
          const inside = new Set<string>();
          const lastRun = new Map<string, number>();
          const queue = new KeyQueue({
            clock,
            random: new SeededRandom(1),
            parallelism,
            backOff: { firstMs: 1, longestMs: 20 },
            work: async (key) => {
              assert.ok(!inside.has(key));
              inside.add(key);
              assert.ok(inside.size <= parallelism);
              lastRun.set(key, clock.monotonic());
              await sleep(clock, 7);
              inside.delete(key);
            },
          });
          const lastAdd = new Map<string, number>();
          for (const { key, waitMs, how } of steps) {
            if (how === 'add') queue.add(key);
            else if (how === 'addAfter') queue.addAfter(key, 5);
            else if (how === 'retry') queue.retry(key);
            else queue.forget(key);
            if (how === 'add') lastAdd.set(key, clock.monotonic());
            await clock.advance(waitMs);
          }
          assert.ok(await clock.runUntilIdle());
          for (const [key, at] of lastAdd) assert.ok((lastRun.get(key) ?? -1) >= at, key);
          assert.equal(queue.depth, 0);
          assert.equal(queue.running, 0);
        },
      ),
      { numRuns: 60 },
    );
  });
});
