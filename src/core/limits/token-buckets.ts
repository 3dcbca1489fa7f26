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

  /** Takes so many tokens. Undefined where there were as many, else the seconds until there will be. */
  take(key: string, cost = 1): number | undefined {
    const left = this.#left(key);
    this.#keep(key, left >= cost ? left - cost : left);
    return this.#secondsUntil(left, cost);
  }

  /** What `take` would answer for one token, without taking it. */
  waitSeconds(key: string): number | undefined {
    return this.#secondsUntil(this.#left(key), 1);
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

  #secondsUntil(left: number, cost: number): number | undefined {
    if (left >= cost) return undefined;
    return Math.max(1, Math.ceil((cost - left) / this.#options.perSecond));
  }
}
