// A rate limit per peer: one token bucket for each, in monotonic time.

import type { Clock } from '../../core/clock/clock.ts';
import { TokenBuckets } from '../../core/limits/token-buckets.ts';

/** A site has fewer peers. */
const maxPeers = 10_000;

export class PeerRate {
  readonly #buckets: TokenBuckets;

  constructor(
    clock: Pick<Clock, 'monotonic'>,
    limit: { readonly burst: number; readonly perSecond: number },
  ) {
    this.#buckets = new TokenBuckets({ clock, maxKeys: maxPeers, ...limit });
  }

  /**
   * Takes `cost` tokens if available, and returns whether it did. Keyed by uid, so that a new peering
   * with the same site starts with a full bucket.
   */
  take(uid: string, cost = 1): boolean {
    return this.#buckets.take(uid, cost) === undefined;
  }
}
