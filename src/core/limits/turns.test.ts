import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { settle, VirtualClock } from '../clock/virtual.ts';
import type { Clock } from '../clock/clock.ts';
import { WorkTime } from './turns.ts';

/** A clock on which work takes time. */
function workClock() {
  const base = new VirtualClock();
  let workedMs = 0;
  const clock: Clock = {
    now: () => base.now() + workedMs,
    monotonic: () => base.monotonic() + workedMs,
    timer: (delayMs, fire) => base.timer(delayMs, fire),
  };
  return { base, clock, work: (ms: number) => void (workedMs += ms) };
}

/** Does so many pieces of work. */
async function run(
  time: WorkTime,
  work: (ms: number) => void,
  pieces: number,
  did: () => void,
  signal?: AbortSignal,
): Promise<void> {
  const slice = time.begin();
  for (let piece = 0; piece < pieces; piece++) {
    work(2);
    did();
    if (slice.isOver()) await slice.next(signal);
  }
  await slice.end(signal);
}

/** What `count` says in each turn of the event loop in which it changed. */
async function countsUntil(end: number, count: () => number): Promise<readonly number[]> {
  const counts = new Set([count()]);
  for (let turn = 0; turn < 100 && count() < end; turn++) {
    await settle();
    counts.add(count());
  }
  return [...counts];
}

describe('work in turns', () => {
  test('lets the event loop go on after each slice, and does not wait within one', async () => {
    const { clock, work } = workClock();
    let count = 0;
    const running = run(new WorkTime(clock), work, 9, () => void count++);
    const counts = await countsUntil(9, () => count);
    await running;
    assert.deepEqual(counts, [3, 6, 9]);
  });

  test('of many sources is one slice in each turn, in their order', async () => {
    const { clock, work } = workClock();
    const order: string[] = [];
    const running = ['a', 'b', 'c'].map((name) =>
      run(new WorkTime(clock), work, 9, () => void order.push(name)),
    );
    const counts = await countsUntil(27, () => order.length);
    await Promise.all(running);
    assert.deepEqual(counts, [9, 12, 15, 18, 21, 24, 27]);
    assert.equal(order.join(''), 'aaabbbcccaaabbbcccaaabbbccc');
  });

  test('of a source that used more than its time waits, and that of others does not', async () => {
    const { base, clock, work } = workClock();
    const greedy = new WorkTime(clock);
    let pieces = 0;
    const stop = new AbortController();
    const running = run(greedy, work, 10_000, () => void pieces++, stop.signal);
    for (let turn = 0; turn < 2000; turn++) await settle();
    const first = pieces;
    assert.ok(first > 1000 && first < 2500, String(first));
    await run(new WorkTime(clock), work, 10, () => undefined);
    for (let turn = 0; turn < 100; turn++) await settle();
    assert.equal(pieces, first);
    await base.advance(20_000);
    for (let turn = 0; turn < 100; turn++) await settle();
    assert.ok(pieces > first, 'it goes on later');
    stop.abort(new Error('enough'));
    await assert.rejects(running, /enough/);
  });

  test('ends where its signal is aborted while it waits', async () => {
    const { clock, work } = workClock();
    const stop = new AbortController();
    const time = new WorkTime(clock);
    const slice = time.begin();
    work(10_000);
    const waiting = slice.next(stop.signal);
    stop.abort(new Error('stopped'));
    await assert.rejects(waiting, /stopped/);
  });
});
