// Rate limit for joins without a valid proof, by source address and network. A join takes a token
// from both buckets at its start, and returns it after the caller proved its identity. So the limit
// affects strangers. It does not affect many valid machines behind one address.

import type { Clock } from '../../../core/clock/clock.ts';
import { sourceOf } from '../../../core/access/failure-limit.ts';
import { networkOf } from '../../../core/audit/source-network.ts';
import { HansaError } from '../../../core/errors/error.ts';
import { TokenBuckets } from '../../../core/limits/token-buckets.ts';

export interface RefusalRate {
  /** The burst size. */
  readonly burst: number;
  readonly perSecond: number;
}

export interface RefusalRates {
  /** For an IPv4 address, or the /64 of an IPv6 address. */
  readonly source: RefusalRate;
  /** For an IPv4 /24 or an IPv6 /48: one client often owns all of its addresses. */
  readonly network: RefusalRate;
}

/** A script with a wrong token tries a few times; an attacker needs thousands to slow anything down. */
export const usualRates: RefusalRates = {
  source: { burst: 30, perSecond: 1 },
  network: { burst: 120, perSecond: 4 },
};

/** The maximum number of buckets of each kind. The least recently used one is evicted. */
const maxKeys = 8192;

export class RefusalLimit {
  readonly #sources: TokenBuckets;
  readonly #networks: TokenBuckets;

  constructor(clock: Pick<Clock, 'monotonic'>, rates: RefusalRates = usualRates) {
    this.#sources = new TokenBuckets({ clock, maxKeys, ...rates.source });
    this.#networks = new TokenBuckets({ clock, maxKeys, ...rates.network });
  }

  /** Throws HANSA_TOO_MANY_REQUESTS. Call the returned function after the caller proved its identity; later calls do nothing. */
  enter(address: string): () => void {
    // The same host over a socket for both versions of IP.
    const source = sourceOf(address.replace(/^::ffff:/, ''));
    const network = networkOf(address);
    const retryAfterSeconds = Math.max(
      this.#sources.waitSeconds(source) ?? 0,
      this.#networks.waitSeconds(network) ?? 0,
    );
    if (retryAfterSeconds > 0) {
      throw new HansaError(
        'HANSA_TOO_MANY_REQUESTS',
        `The site rejected too many joins from your address or network. Try again in ${retryAfterSeconds} s.`,
        { details: { retryAfterSeconds } },
      );
    }
    this.#sources.charge(source, 1);
    this.#networks.charge(network, 1);
    let isReturned = false;
    return () => {
      if (isReturned) return;
      isReturned = true;
      this.#sources.charge(source, -1);
      this.#networks.charge(network, -1);
    };
  }
}
