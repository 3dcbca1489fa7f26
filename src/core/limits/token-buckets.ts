// Token buckets: a burst and a long-term rate per key. This is the only implementation; callers
// choose the key and turn the result into an error. Buckets are per process: each replica of a site
// allows the whole rate.

import type { Clock } from '../clock/clock.ts';

export interface BucketOptions {
  readonly clock: Pick<Clock, 'monotonic'>;
  /** Capacity of a bucket: the largest burst. */
  readonly burst: number;
  readonly perSecond: number;
  /** Most keys in memory. The least recently used one is evicted, which refills its bucket. */
  readonly maxKeys: number;
}

interface Bucket {
  left: number;
  /** When `left` was computed. */
  atMs: number;
}

/** One token bucket for each key. A bucket that was never used is full. */
export class TokenBuckets<Key extends string | number = string> {
  readonly #options: BucketOptions;
  /** In the order of their last use. */
  readonly #buckets = new Map<Key, Bucket>();
  #last: { readonly key: Key; readonly bucket: Bucket } | undefined;

  constructor(options: BucketOptions) {
    this.#options = options;
  }

  /** Takes `cost` tokens. Undefined on success, else the seconds until enough are available. */
  take(key: Key, cost = 1): number | undefined {
    const nowMs = this.#options.clock.monotonic();
    const bucket = this.#use(key, nowMs);
    const left = this.#leftIn(bucket, nowMs);
    if (left < cost) return this.#secondsUntil(left, cost);
    bucket.left = left - cost;
    bucket.atMs = nowMs;
    return undefined;
  }

  /** The result that `take` would have for one token, without taking it. */
  waitSeconds(key: Key): number | undefined {
    const bucket = this.#buckets.get(key);
    if (bucket === undefined) return undefined;
    return this.#secondsUntil(this.#leftIn(bucket, this.#options.clock.monotonic()), 1);
  }

  /**
   * Takes tokens even where there are fewer: the bucket goes negative, down to minus its capacity. A
   * negative cost returns tokens.
   */
  charge(key: Key, cost: number): void {
    const nowMs = this.#options.clock.monotonic();
    const bucket = this.#use(key, nowMs);
    bucket.left = Math.max(-this.#options.burst, this.#leftIn(bucket, nowMs) - cost);
    bucket.atMs = nowMs;
  }

  /** Number of keys in memory. */
  get size(): number {
    return this.#buckets.size;
  }

  #leftIn({ left, atMs }: Bucket, nowMs: number): number {
    const { burst, perSecond } = this.#options;
    return Math.min(burst, left + ((nowMs - atMs) / 1000) * perSecond);
  }

  /** The bucket of this key, now the one that was used last. */
  #use(key: Key, nowMs: number): Bucket {
    if (this.#last?.key === key) return this.#last.bucket;
    const known = this.#buckets.get(key);
    if (known !== undefined) this.#buckets.delete(key);
    else if (this.#buckets.size >= this.#options.maxKeys) {
      const oldest = this.#buckets.keys().next();
      if (!oldest.done) this.#buckets.delete(oldest.value);
    }
    const bucket = known ?? { left: this.#options.burst, atMs: nowMs };
    this.#buckets.set(key, bucket);
    this.#last = { key, bucket };
    return bucket;
  }

  #secondsUntil(left: number, cost: number): number | undefined {
    if (left >= cost) return undefined;
    return Math.max(1, Math.ceil((cost - left) / this.#options.perSecond));
  }
}
