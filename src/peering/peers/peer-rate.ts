// How much each peer may cause: a token bucket for each, in monotonic time.

import type { Clock } from '../../core/clock/clock.ts';
import { TokenBuckets } from '../../core/limits/token-buckets.ts';

/** More peers than a site has. */
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
   * Uses up `cost` where there is as much, and says whether there was. By uid: a peer that was revoked
   * and invited again starts with a full bucket.
   */
  take(uid: string, cost = 1): boolean {
    return this.#buckets.take(uid, cost) === undefined;
  }
}
