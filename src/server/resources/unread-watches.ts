// Watches whose readers are behind. What was written for them and not read yet takes memory, so all
// of it together has a budget and each piece a deadline. A watch that is cut off loses nothing: its
// client comes back and goes on from the last event that it has seen.

import type { Clock, Timer } from '../../core/clock/clock.ts';

export interface UnreadWatch {
  /** Ends the watch without another word. Must not throw. */
  cutOff(): void;
}

export interface UnreadWatchLimits {
  /** What a watch was given must be read within this time. */
  readonly withinMs: number;
  /** For all watches together. Beyond it, the watches whose readers wait longest are cut off. */
  readonly maxBytes: number;
}

interface Unread {
  readonly sinceMs: number;
  bytes: number;
}

export class UnreadWatches {
  readonly #clock: Clock;
  readonly #limits: UnreadWatchLimits;
  /** Those that wait longest first. */
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

  /** The watch was given so much; its deadline begins. */
  hold(watch: UnreadWatch, bytes: number): void {
    this.release(watch);
    this.#waiting.set(watch, { sinceMs: this.#clock.monotonic(), bytes });
    this.#bytes += bytes;
    if (this.#timer === undefined) this.#lookAfter(this.#limits.withinMs);
    this.#keepBudget();
  }

  /** So much more waits for a watch that has not read yet what it was given. */
  grow(watch: UnreadWatch, bytes: number): void {
    const unread = this.#waiting.get(watch);
    if (unread === undefined) return;
    unread.bytes += bytes;
    this.#bytes += bytes;
    this.#keepBudget();
  }

  /** The watch has read what it was given, or is over. */
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
    // A process that was held up hears of time before it hears of clients that have read meanwhile.
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
