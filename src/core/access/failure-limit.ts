// A bound on failed authentications from one address. Tokens cannot be guessed, so this is not what
// keeps them safe: it keeps a client in a loop from filling the log and the audit of denials.

import type { Clock } from '../clock/clock.ts';

/** So many failures at once, and one more each second after that. */
const burst = 20;
const refillPerMs = 1 / 1000;
/** Addresses that are remembered; the one that failed longest ago makes room. */
const maxAddresses = 4096;

interface Bucket {
  left: number;
  atMs: number;
}

export class FailureLimit {
  readonly #clock: Clock;
  /** In the order of the last failure. */
  readonly #buckets = new Map<string, Bucket>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts a failure. Undefined while the address is within bounds, else the seconds to wait. */
  failed(address: string): number | undefined {
    const key = sourceOf(address);
    const now = this.#clock.monotonic();
    const known = this.#buckets.get(key);
    const left =
      known === undefined ? burst : Math.min(burst, known.left + (now - known.atMs) * refillPerMs);
    this.#buckets.delete(key);
    if (this.#buckets.size >= maxAddresses) {
      const oldest = this.#buckets.keys().next();
      if (!oldest.done) this.#buckets.delete(oldest.value);
    }
    const taken = left >= 1;
    this.#buckets.set(key, { left: taken ? left - 1 : left, atMs: now });
    return taken ? undefined : Math.max(1, Math.ceil((1 - left) / refillPerMs / 1000));
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
