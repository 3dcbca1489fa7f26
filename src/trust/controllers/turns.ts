// Turns of those who wait for others: so many at once, but one that takes long counts no more after a
// while, and the next has its turn. So whoever is silent keeps nobody waiting, and what costs CPU time
// (all that happens before an answer is late) is bounded all the same.

import type { Clock } from '../../core/clock/clock.ts';

export interface TurnsOptions {
  readonly clock: Clock;
  readonly atOnce: number;
  /** How long one counts among these. */
  readonly patienceMs: number;
  /** Beyond these it is `isFull`. */
  readonly mostWaiting: number;
}

/** In the order of the calls. Every operation costs O(1). */
export class Turns {
  readonly #options: TurnsOptions;
  readonly #waiting = new Set<() => void>();
  #counted = 0;

  constructor(options: TurnsOptions) {
    this.#options = options;
  }

  /** Whether so many wait that others should come again later. */
  get isFull(): boolean {
    return this.#waiting.size >= this.#options.mostWaiting;
  }

  /** Whether `run` would begin at once. */
  get isFree(): boolean {
    return this.#counted < this.#options.atOnce;
  }

  /** Calls `work` when it is its turn, and settles as that does. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.isFree) this.#counted++;
    // Whoever goes hands the place over.
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
