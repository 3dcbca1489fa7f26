// A budget for what callers cost who turn out to be strangers, by source address and network. Costs of callers
// who prove their identity do not count, so many valid machines behind one address have no limit.

import { sourceOf } from '../access/failure-limit.ts';
import { networkOf } from '../audit/source-network.ts';
import type { Clock } from '../clock/clock.ts';
import { TokenBuckets } from './token-buckets.ts';

export interface SourceRate {
  /** The burst size. */
  readonly burst: number;
  readonly perSecond: number;
}

export interface SourceRates {
  /** For an IPv4 address, or the /64 of an IPv6 address. */
  readonly source: SourceRate;
  /** For an IPv4 /24 or an IPv6 /48: one client often owns all of its addresses. */
  readonly network: SourceRate;
}

/** The maximum number of buckets of each kind. The least recently used one is evicted. */
const maxKeys = 8192;

export class SourceBudget {
  readonly #sources: TokenBuckets;
  readonly #networks: TokenBuckets;

  constructor(clock: Pick<Clock, 'monotonic'>, rates: SourceRates) {
    this.#sources = new TokenBuckets({ clock, maxKeys, ...rates.source });
    this.#networks = new TokenBuckets({ clock, maxKeys, ...rates.network });
  }

  /** Undefined while the source has some of its budget left, else the seconds until then. `address` may be a source. */
  waitSeconds(address: string): number | undefined {
    const source = this.#sources.waitSeconds(sourceKey(address)) ?? 0;
    const network = this.#networks.waitSeconds(networkKey(address)) ?? 0;
    return source + network === 0 ? undefined : Math.max(source, network);
  }

  /** The result returns the cost, if called once or more often. */
  charge(address: string, cost: number): () => void {
    const source = sourceKey(address);
    const network = networkKey(address);
    this.#sources.charge(source, cost);
    this.#networks.charge(network, cost);
    let isReturned = false;
    return () => {
      if (isReturned) return;
      isReturned = true;
      this.#sources.charge(source, -cost);
      this.#networks.charge(network, -cost);
    };
  }
}

/** The same host over a socket for both versions of IP. */
function sourceKey(address: string): string {
  return sourceOf(address.replace(/^::ffff:/, ''));
}

/** A source of IPv6 is the text of a network, which is no address. */
function networkKey(address: string): string {
  return networkOf(address.replace(/\/64$/, ''));
}
