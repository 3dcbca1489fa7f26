// Rate limit for failed authentications from one address. Tokens cannot be guessed, so this does not
// protect them: it keeps a client in a loop from filling the log and the audit log with denials.

import type { Clock } from '../clock/clock.ts';
import { TokenBuckets } from '../limits/token-buckets.ts';

/** Burst of failures; the bucket refills by one per second. */
const burst = 20;
const perSecond = 1;
/** Most addresses in memory. The limiter evicts the one that failed longest ago. */
const maxAddresses = 4096;

export class FailureLimit {
  readonly #buckets: TokenBuckets;

  constructor(clock: Clock) {
    this.#buckets = new TokenBuckets({ clock, burst, perSecond, maxKeys: maxAddresses });
  }

  /** Counts a failure. Undefined while the address is within bounds, else the seconds to wait. */
  failed(address: string): number | undefined {
    return this.#buckets.take(sourceOf(address));
  }

  /** How many addresses are remembered. */
  get size(): number {
    return this.#buckets.size;
  }
}

/** One host has a whole /64 of IPv6 addresses to choose from: it counts as one source. */
export function sourceOf(address: string): string {
  if (!address.includes(':') || address.startsWith('::ffff:')) return address;
  const [head = '', tail] = address.split('::', 2);
  const groups = head === '' ? [] : head.split(':');
  if (tail !== undefined) {
    const rest = tail === '' ? 0 : tail.split(':').length;
    while (groups.length + rest < 8) groups.push('0');
    if (tail !== '') groups.push(...tail.split(':'));
  }
  return `${groups.slice(0, 4).join(':')}::/64`;
}
