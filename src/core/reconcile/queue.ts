// The work queue of a controller: keys that wait to be reconciled, with delays and back-off.

import type { Clock, Random, Timer } from '../clock/clock.ts';
import { yieldToEventLoop } from '../clock/yield-to-event-loop.ts';

export interface BackOff {
  /** The delay after the first failure; doubles with each further one. */
  readonly firstMs: number;
  readonly longestMs: number;
}

/** How long runs start without yielding to the event loop. */
const rowMs = 5;

export const defaultBackOff: BackOff = { firstMs: 50, longestMs: 5 * 60_000 };

export interface QueueOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** Most keys in progress. */
  readonly parallelism: number;
  readonly backOff?: BackOff;
  /** Must not reject. It reports the result by calling `retry`, `addAfter` or `forget`. */
  readonly work: (key: string) => Promise<void>;
}

/**
 * - A waiting key is not added again. Keys run in the order of arrival.
 * - One key never runs twice at once. If it is added during a run, it runs once more afterwards, so a
 *   run always sees the changes before `add`.
 * - The next run of a key cancels its delay; that run decides when to run again.
 * - Keys whose runs wait for nothing do not block the event loop, however many there are.
 *
 * Every operation costs O(1), except for setting a timer.
 */
export class KeyQueue {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #parallelism: number;
  readonly #backOff: BackOff;
  readonly #work: (key: string) => Promise<void>;
  readonly #waiting = new Set<string>();
  readonly #running = new Set<string>();
  readonly #again = new Set<string>();
  readonly #delayed = new Map<string, { readonly dueMs: number; readonly timer: Timer }>();
  readonly #failures = new Map<string, number>();
  #pumping = false;
  #rowStartedMs: number | undefined;
  #rowIsLong = false;
  #stopped = false;
  #idle: (() => void)[] = [];

  constructor(options: QueueOptions) {
    if (!(options.parallelism >= 1))
      throw new RangeError('a queue needs a parallelism of 1 or more');
    this.#clock = options.clock;
    this.#random = options.random;
    this.#parallelism = options.parallelism;
    this.#backOff = options.backOff ?? defaultBackOff;
    this.#work = options.work;
  }

  /** Keys that wait for a free worker. */
  get depth(): number {
    return this.#waiting.size + this.#again.size;
  }

  get running(): number {
    return this.#running.size;
  }

  /** Keys whose last run failed. */
  get failing(): number {
    return this.#failures.size;
  }

  /** Never runs `work` before it returns. */
  add(key: string): void {
    if (this.#stopped) return;
    if (this.#running.has(key)) this.#again.add(key);
    else this.#waiting.add(key);
    this.#schedulePump();
  }

  /** Adds the key later. Of several delays, the shortest applies. */
  addAfter(key: string, delayMs: number): void {
    if (this.#stopped) return;
    const dueMs = this.#clock.monotonic() + Math.max(0, delayMs);
    const set = this.#delayed.get(key);
    if (set !== undefined) {
      if (set.dueMs <= dueMs) return;
      set.timer.cancel();
    }
    const timer = this.#clock.timer(delayMs, () => {
      this.#delayed.delete(key);
      this.add(key);
    });
    this.#delayed.set(key, { dueMs, timer });
  }

  /** Adds a key whose run failed after a delay that doubles each time, and returns that delay. */
  retry(key: string): number {
    const failures = (this.#failures.get(key) ?? 0) + 1;
    this.#failures.set(key, failures);
    const { firstMs, longestMs } = this.#backOff;
    const ceiling = Math.min(longestMs, firstMs * 2 ** Math.min(failures - 1, 52));
    // Jitter from half to the whole delay, so that keys that failed together do not retry together.
    const delayMs = ceiling * (0.5 + this.#random.unit() / 2);
    this.addAfter(key, delayMs);
    return delayMs;
  }

  /** Resets the failures of a key after a success. */
  forget(key: string): void {
    this.#failures.delete(key);
  }

  failures(key: string): number {
    return this.#failures.get(key) ?? 0;
  }

  /** Starts no more runs, and resolves when current runs have ended. Idempotent. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#waiting.clear();
    this.#again.clear();
    for (const { timer } of this.#delayed.values()) timer.cancel();
    this.#delayed.clear();
    if (this.#running.size > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #schedulePump(): void {
    if (this.#pumping) return;
    this.#pumping = true;
    queueMicrotask(() => {
      this.#pumping = false;
      this.#pump();
    });
  }

  #pump(): void {
    for (const key of this.#waiting) {
      if (this.#running.size >= this.#parallelism || this.#isLong()) return;
      this.#waiting.delete(key);
      this.#delayed.get(key)?.timer.cancel();
      this.#delayed.delete(key);
      this.#running.add(key);
      void this.#run(key);
    }
  }

  #isLong(): boolean {
    const nowMs = this.#clock.monotonic();
    if (this.#rowStartedMs === undefined) {
      this.#rowStartedMs = nowMs;
      void this.#endRow();
    }
    this.#rowIsLong ||= nowMs - this.#rowStartedMs >= rowMs;
    return this.#rowIsLong;
  }

  async #endRow(): Promise<void> {
    await yieldToEventLoop();
    const wasLong = this.#rowIsLong;
    this.#rowStartedMs = undefined;
    this.#rowIsLong = false;
    if (wasLong) this.#pump();
  }

  async #run(key: string): Promise<void> {
    try {
      await this.#work(key);
    } finally {
      this.#running.delete(key);
      if (this.#again.delete(key)) this.#waiting.add(key);
      if (this.#running.size === 0) for (const resolve of this.#idle.splice(0)) resolve();
      this.#pump();
    }
  }
}
