// Work in turns: long work on the main thread is cut into slices, between which the event loop serves others. Of all
// work that waits, one slice runs in each turn of the event loop. What one source uses of the main thread is limited
// over time too.

import { type Clock, sleep } from '../clock/clock.ts';
import { nextTurn } from '../clock/yield-to-event-loop.ts';
import { TokenBuckets } from './token-buckets.ts';

/** Others wait so long for one slice. */
const sliceMs = 5;
/** A source may use so much at once, which is enough for the first lists of a large cluster, */
const burstMs = 3000;
/** and so much in each second after that. */
const msPerSecond = 250;

/** The time of one source, such as a cluster, on the main thread: others wait meanwhile, even if the machine is busy. */
export class WorkTime {
  readonly #clock: Clock;
  readonly #left: TokenBuckets;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#left = new TokenBuckets({ clock, burst: burstMs, perSecond: msPerSecond, maxKeys: 1 });
  }

  /** Begins a slice. */
  begin(): Slice {
    let startMs = this.#clock.monotonic();
    const used = (): number => this.#clock.monotonic() - startMs;
    return {
      isOver: () => used() >= sliceMs,
      next: async (signal) => {
        await this.#spent(used(), signal);
        await nextTurn();
        signal?.throwIfAborted();
        startMs = this.#clock.monotonic();
      },
      end: (signal) => this.#spent(used(), signal),
    };
  }

  /** Resolves when the source may work again. */
  async #spent(ms: number, signal: AbortSignal | undefined): Promise<void> {
    this.#left.charge('', ms);
    for (;;) {
      const seconds = this.#left.waitSeconds('');
      if (seconds === undefined) return;
      await sleep(this.#clock, seconds * 1000, signal);
    }
  }
}

/** For work that delays no other work. */
export const oneSlice: Slice = {
  isOver: () => false,
  next: () => Promise.resolve(),
  end: () => Promise.resolve(),
};

export interface Slice {
  /** Whether it is time for `next`. */
  isOver(): boolean;
  /** Waits for the next turn. */
  next(signal?: AbortSignal): Promise<void>;
  /** After the last piece of work. Waits while the source has used more than its time. */
  end(signal?: AbortSignal): Promise<void>;
}
