// Limits the unread output of watches with slow readers: a memory budget for all of them, and a deadline
// for each chunk. A watch that is cut off loses nothing, because its client resumes from the last event.

import type { Clock, Timer } from '../../core/clock/clock.ts';

export interface UnreadWatch {
  /** Ends the watch without further output. Must not throw. */
  cutOff(): void;
}

export interface UnreadWatchLimits {
  /** A client must read a chunk within this time. */
  readonly withinMs: number;
  /** For all watches together. Beyond it, the watches with the oldest unread output are cut off. */
  readonly maxBytes: number;
}

interface Unread {
  readonly sinceMs: number;
  bytes: number;
}

export class UnreadWatches {
  readonly #clock: Clock;
  readonly #limits: UnreadWatchLimits;
  /** Oldest unread output first. */
  readonly #waiting = new Map<UnreadWatch, Unread>();
  #bytes = 0;
  #timer: Timer | undefined;

  constructor(clock: Clock, limits: UnreadWatchLimits) {
    this.#clock = clock;
    this.#limits = limits;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The watch has written a chunk of this size. Starts its deadline. */
  hold(watch: UnreadWatch, bytes: number): void {
    this.release(watch);
    this.#waiting.set(watch, { sinceMs: this.#clock.monotonic(), bytes });
    this.#bytes += bytes;
    if (this.#timer === undefined) this.#lookAfter(this.#limits.withinMs);
    this.#keepBudget();
  }

  /** More output waits for a watch with unread output. */
  grow(watch: UnreadWatch, bytes: number): void {
    const unread = this.#waiting.get(watch);
    if (unread === undefined) return;
    unread.bytes += bytes;
    this.#bytes += bytes;
    this.#keepBudget();
  }

  /** The client has read the chunk, or the watch has ended. */
  release(watch: UnreadWatch): void {
    const unread = this.#waiting.get(watch);
    if (unread === undefined) return;
    this.#waiting.delete(watch);
    this.#bytes -= unread.bytes;
  }

  #keepBudget(): void {
    if (this.#bytes <= this.#limits.maxBytes) return;
    for (const watch of this.#waiting.keys()) {
      this.#cutOff(watch);
      if (this.#bytes <= this.#limits.maxBytes) return;
    }
  }

  #cutOff(watch: UnreadWatch): void {
    this.release(watch);
    watch.cutOff();
  }

  #lookAfter(ms: number): void {
    // After a pause of the process, timers run before I/O events. Lets reads of clients arrive first.
    this.#timer = this.#clock.timer(ms, () => setImmediate(() => this.#cutOffLate()));
  }

  #cutOffLate(): void {
    this.#timer = undefined;
    const due = this.#clock.monotonic() - this.#limits.withinMs;
    for (const [watch, { sinceMs }] of this.#waiting) {
      if (sinceMs > due) {
        this.#lookAfter(sinceMs - due);
        return;
      }
      this.#cutOff(watch);
    }
  }
}
