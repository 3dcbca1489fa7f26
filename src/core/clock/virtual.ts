// A virtual clock for tests and simulation. Time passes only when the test advances it.

import type { Clock, Timer } from './clock.ts';

interface Pending {
  readonly dueMs: number;
  /** Timers of one instant fire in the order in which they were set. */
  readonly order: number;
  readonly fire: () => void;
  cancelled: boolean;
}

/** 2026-01-01T00:00:00Z: a wall time that looks like one in traces. */
const defaultStartMs = 1_767_225_600_000;

/**
 * A clock whose time passes only inside `advance` and `runUntilIdle`. Timers fire in order of their
 * due time. After each timer, all resulting promises settle before the next one fires, as if
 * computing took no time. So a run depends only on its inputs.
 *
 * It cannot see work that waits for anything but promises and its own timers (a socket, the disk,
 * another thread): such work does not belong in simulation.
 */
export class VirtualClock implements Clock {
  readonly #heap: Pending[] = [];
  #elapsedMs = 0;
  #wallOffsetMs: number;
  #order = 0;
  #running = false;

  constructor(startMs: number = defaultStartMs) {
    this.#wallOffsetMs = startMs;
  }

  now(): number {
    return Math.floor(this.#wallOffsetMs + this.#elapsedMs);
  }

  monotonic(): number {
    return this.#elapsedMs;
  }

  timer(delayMs: number, fire: () => void): Timer {
    if (Number.isNaN(delayMs)) throw new RangeError('a timer needs a number of milliseconds');
    const pending: Pending = {
      dueMs: this.#elapsedMs + Math.max(0, delayMs),
      order: this.#order++,
      fire,
      cancelled: false,
    };
    push(this.#heap, pending);
    return {
      cancel: () => {
        pending.cancelled = true;
      },
    };
  }

  /** Moves the wall clock, as an operator or NTP might. Monotonic time does not change. */
  jumpWall(byMs: number): void {
    this.#wallOffsetMs += byMs;
  }

  /** Lets this much time pass and fires all timers that fall due. */
  async advance(byMs: number): Promise<void> {
    const until = this.#elapsedMs + byMs;
    await this.#run(until);
    this.#elapsedMs = until;
  }

  /**
   * Lets time pass until no timer is left, but no more than `limitMs`; returns whether it became
   * idle. A repeating timer (a resync, a renewal) never becomes idle.
   */
  async runUntilIdle(limitMs: number = 24 * 3_600_000): Promise<boolean> {
    const until = this.#elapsedMs + limitMs;
    await this.#run(until);
    if (this.nextDueMs() === undefined) return true;
    this.#elapsedMs = until;
    return false;
  }

  /** When the next timer is due, in monotonic milliseconds. */
  nextDueMs(): number | undefined {
    while (this.#heap[0]?.cancelled) pop(this.#heap);
    const next = this.#heap[0];
    return next === undefined || next.dueMs === Number.POSITIVE_INFINITY ? undefined : next.dueMs;
  }

  async #run(until: number): Promise<void> {
    if (this.#running) throw new Error('time is passing already: advance was called within itself');
    this.#running = true;
    try {
      await settle();
      for (let due = this.nextDueMs(); due !== undefined && due <= until; due = this.nextDueMs()) {
        const next = pop(this.#heap);
        this.#elapsedMs = Math.max(this.#elapsedMs, due);
        next?.fire();
        await settle();
      }
    } finally {
      this.#running = false;
    }
  }
}

/** Waits until all promises that can settle have settled: immediates run after all microtasks. */
export function settle(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

export interface LocalClockOptions {
  /** How far this node's wall clock is off. */
  readonly skewMs?: number;
  /** How fast its monotonic clock runs: 1.0002 gains 200 ppm. */
  readonly rate?: number;
}

/**
 * The clock of one node among several that share a `VirtualClock`: with a skew and a drift of its
 * own, and with a process that can be paused (its timers wait, time does not) or killed.
 */
export class LocalClock implements Clock {
  readonly #base: Clock;
  readonly #rate: number;
  readonly #timers = new Set<Timer>();
  readonly #overdue: (() => void)[] = [];
  #skewMs: number;
  #paused = false;
  #killed = false;

  constructor(base: Clock, options: LocalClockOptions = {}) {
    this.#base = base;
    this.#skewMs = options.skewMs ?? 0;
    this.#rate = options.rate ?? 1;
  }

  now(): number {
    return this.#base.now() + this.#skewMs;
  }

  monotonic(): number {
    return this.#base.monotonic() * this.#rate;
  }

  timer(delayMs: number, fire: () => void): Timer {
    if (this.#killed) return { cancel: () => undefined };
    let cancelled = false;
    const timer: Timer = {
      cancel: () => {
        cancelled = true;
        baseTimer.cancel();
        this.#timers.delete(timer);
      },
    };
    const run = (): void => {
      if (cancelled) return;
      if (this.#paused) {
        this.#overdue.push(run);
        return;
      }
      this.#timers.delete(timer);
      fire();
    };
    const baseTimer = this.#base.timer(delayMs / this.#rate, run);
    this.#timers.add(timer);
    return timer;
  }

  jumpWall(byMs: number): void {
    this.#skewMs += byMs;
  }

  get paused(): boolean {
    return this.#paused;
  }

  /** Stops all timers, like a stopped process or a suspended machine. */
  pause(): void {
    this.#paused = true;
  }

  /** Timers that fell due in the meantime fire now, in order. */
  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    for (const run of this.#overdue.splice(0)) this.#base.timer(0, run);
  }

  /** The process died: none of its timers ever fires, including timers set after this call. */
  kill(): void {
    this.#killed = true;
    for (const timer of this.#timers) timer.cancel();
    this.#overdue.length = 0;
  }
}

// A binary heap: setting and firing a timer cost O(log n).

function before(a: Pending, b: Pending): boolean {
  return a.dueMs < b.dueMs || (a.dueMs === b.dueMs && a.order < b.order);
}

function push(heap: Pending[], item: Pending): void {
  let at = heap.length;
  heap.push(item);
  while (at > 0) {
    const parent = (at - 1) >> 1;
    const above = heap[parent] as Pending;
    if (!before(item, above)) break;
    heap[at] = above;
    at = parent;
  }
  heap[at] = item;
}

function pop(heap: Pending[]): Pending | undefined {
  const top = heap[0];
  const item = heap.pop();
  if (top === undefined || item === undefined || heap.length === 0) return top;
  let at = 0;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && before(heap[child + 1] as Pending, heap[child] as Pending)) {
      child++;
    }
    const below = heap[child] as Pending;
    if (!before(below, item)) break;
    heap[at] = below;
    at = child;
  }
  heap[at] = item;
  return top;
}
