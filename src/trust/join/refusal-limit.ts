// Rate limit for joins that prove nothing, by source address and by network. Each conversation takes
// from both when it begins, before anything is read, and gives it back once the caller has proven who
// it is: a fleet behind one address is not limited, and a stranger soon is.

import type { Clock } from '../../core/clock/clock.ts';
import { sourceOf } from '../../core/access/failure-limit.ts';
import { networkOf } from '../../core/audit/source-network.ts';
import { HansaError } from '../../core/errors/error.ts';
import { TokenBuckets } from '../../core/limits/token-buckets.ts';

export interface RefusalRate {
  /** So many at once. */
  readonly burst: number;
  readonly perSecond: number;
}

export interface RefusalRates {
  /** Of an IPv4 address, or of the /64 of an IPv6 address. */
  readonly source: RefusalRate;
  /** Of an IPv4 /24, or an IPv6 /48: whoever has one address there often has all of them. */
  readonly network: RefusalRate;
}

/** A script with a wrong token tries a few times; an attacker needs thousands to slow anything down. */
export const usualRates: RefusalRates = {
  source: { burst: 30, perSecond: 1 },
  network: { burst: 120, perSecond: 4 },
};

/** Remembered of each kind; the one that came longest ago makes room. */
const maxKeys = 8192;

export class RefusalLimit {
  readonly #sources: TokenBuckets;
  readonly #networks: TokenBuckets;

  constructor(clock: Pick<Clock, 'monotonic'>, rates: RefusalRates = usualRates) {
    this.#sources = new TokenBuckets({ clock, maxKeys, ...rates.source });
    this.#networks = new TokenBuckets({ clock, maxKeys, ...rates.network });
  }

  /** Throws HANSA_TOO_MANY_REQUESTS. What it returns is called once the caller is proven. */
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
        `Too many joins from your address or network were refused. Try again in ${retryAfterSeconds} s.`,
        { details: { retryAfterSeconds } },
      );
    }
    this.#sources.charge(source, 1);
    this.#networks.charge(network, 1);
    return () => {
      this.#sources.charge(source, -1);
      this.#networks.charge(network, -1);
    };
  }
}
