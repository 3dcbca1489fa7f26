// Rate limits: how much one key may do at once, and how much in the long run. Nothing here knows what
// is limited, or who; callers turn the answer into an error.

import type { Clock } from '../clock/clock.ts';

export interface BucketOptions {
  readonly clock: Pick<Clock, 'monotonic'>;
  /** What a bucket holds when it is full: how much may be done at once. */
  readonly burst: number;
  readonly perSecond: number;
  /** Keys that are remembered. The one that was used longest ago makes room, which fills its bucket. */
  readonly maxKeys: number;
}

interface Bucket {
  readonly left: number;
  readonly atMs: number;
}

/** One token bucket for each key. A bucket that was never used is full. */
export class TokenBuckets {
  readonly #options: BucketOptions;
  /** In the order of their last use. */
  readonly #buckets = new Map<string, Bucket>();

  constructor(options: BucketOptions) {
    this.#options = options;
  }

  /** Takes one token. Undefined where there was one, else the seconds until there will be. */
  take(key: string): number | undefined {
    const left = this.#left(key);
    this.#keep(key, left >= 1 ? left - 1 : left);
    return this.#secondsUntilOne(left);
  }

  /** What `take` would answer, without taking anything. */
  waitSeconds(key: string): number | undefined {
    return this.#secondsUntilOne(this.#left(key));
  }

  /** Takes so many, also where there are fewer: the bucket then owes them, up to a whole bucket. */
  charge(key: string, cost: number): void {
    this.#keep(key, Math.max(-this.#options.burst, this.#left(key) - cost));
  }

  /** How many keys are remembered. */
  get size(): number {
    return this.#buckets.size;
  }

  #left(key: string): number {
    const { burst, perSecond, clock } = this.#options;
    const known = this.#buckets.get(key);
    if (known === undefined) return burst;
    return Math.min(burst, known.left + ((clock.monotonic() - known.atMs) / 1000) * perSecond);
  }

  #keep(key: string, left: number): void {
    this.#buckets.delete(key);
    if (this.#buckets.size >= this.#options.maxKeys) {
      const oldest = this.#buckets.keys().next();
      if (!oldest.done) this.#buckets.delete(oldest.value);
    }
    this.#buckets.set(key, { left, atMs: this.#options.clock.monotonic() });
  }

  #secondsUntilOne(left: number): number | undefined {
    if (left >= 1) return undefined;
    return Math.max(1, Math.ceil((1 - left) / this.#options.perSecond));
  }
}
