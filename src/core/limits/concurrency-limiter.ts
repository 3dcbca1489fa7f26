// Concurrency limiter. A task stops counting after `patienceMs`, so a silent endpoint delays no other
// task. CPU time stays bounded, because a task spends it before its answer is late.

import type { Clock } from '../clock/clock.ts';

export interface ConcurrencyLimiterOptions {
  readonly clock: Clock;
  readonly atOnce: number;
  /** How long a task counts as running. */
  readonly patienceMs: number;
  /** Most waiting tasks; beyond it `isFull` is true. */
  readonly mostWaiting: number;
}

/** Runs tasks in the order of the calls. Every operation costs O(1). */
export class ConcurrencyLimiter {
  readonly #options: ConcurrencyLimiterOptions;
  readonly #waiting = new Set<() => void>();
  #counted = 0;

  constructor(options: ConcurrencyLimiterOptions) {
    this.#options = options;
  }

  /** Whether the queue is full, so that callers should retry later. */
  get isFull(): boolean {
    return this.#waiting.size >= this.#options.mostWaiting;
  }

  /** Whether a task waits for a slot. */
  get isWaitedFor(): boolean {
    return this.#waiting.size > 0;
  }

  /** Whether no task runs or waits. */
  get isIdle(): boolean {
    return this.#counted === 0;
  }

  /** Whether `run` would begin at once. */
  get isFree(): boolean {
    return this.#counted < this.#options.atOnce;
  }

  /** Calls `work` when a slot is free, and settles with its result. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.isFree) this.#counted++;
    // A finished task passes its slot to the next one.
    else await new Promise<void>((resolve) => this.#waiting.add(resolve));
    let counts = true;
    const giveBack = (): void => {
      if (!counts) return;
      counts = false;
      for (const next of this.#waiting) {
        this.#waiting.delete(next);
        next();
        return;
      }
      this.#counted--;
    };
    const patience = this.#options.clock.timer(this.#options.patienceMs, giveBack);
    try {
      return await work();
    } finally {
      patience.cancel();
      giveBack();
    }
  }
}
