// How much each peer may cause: a token bucket per peer, in monotonic time.

import type { Clock } from '../core/clock/clock.ts';

export interface RateLimit {
  /** What a peer may use at once. */
  readonly burst: number;
  readonly perSecond: number;
}

export class PeerRate {
  readonly #clock: Clock;
  readonly #limit: RateLimit;
  /** By name of the peer. One that is a peer again, under another uid, starts with a full bucket. */
  readonly #buckets = new Map<string, { uid: string; left: number; atMs: number }>();

  constructor(clock: Clock, limit: RateLimit) {
    this.#clock = clock;
    this.#limit = limit;
  }

  /** Uses up `cost` where there is as much, and says whether there was. */
  take(name: string, uid: string, cost = 1): boolean {
    const nowMs = this.#clock.monotonic();
    const { burst, perSecond } = this.#limit;
    let bucket = this.#buckets.get(name);
    if (bucket?.uid !== uid) {
      bucket = { uid, left: burst, atMs: nowMs };
      this.#buckets.set(name, bucket);
    }
    bucket.left = Math.min(burst, bucket.left + ((nowMs - bucket.atMs) / 1000) * perSecond);
    bucket.atMs = nowMs;
    if (bucket.left < cost) return false;
    bucket.left -= cost;
    return true;
  }
}
