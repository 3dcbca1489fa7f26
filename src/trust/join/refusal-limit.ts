// Rate limit for joins that prove nothing, by source address and by network. Each conversation takes
// from both when it begins, before anything is read, and gives it back once the caller has proven who
// it is: a fleet behind one address is not limited, and a stranger soon is.

import type { Clock } from '../../core/clock/clock.ts';
import { networkOf, sourceOf } from '../../core/access/failure-limit.ts';
import { HansaError } from '../../core/errors/error.ts';

export interface RefusalRate {
  /** So many at once. */
  readonly burst: number;
  /** And one more after each of these. */
  readonly oneInMs: number;
}

export interface RefusalRates {
  /** Of an IPv4 address, or of the /64 of an IPv6 address. */
  readonly source: RefusalRate;
  /** Of an IPv4 /24, or an IPv6 /48: whoever has one address there often has all of them. */
  readonly network: RefusalRate;
}

/** A script with a wrong token tries a few times; an attacker needs thousands to slow anything down. */
export const usualRates: RefusalRates = {
  source: { burst: 30, oneInMs: 1000 },
  network: { burst: 120, oneInMs: 250 },
};

/** Remembered of each kind; the one that came longest ago makes room. */
const maxKnown = 8192;

export class RefusalLimit {
  readonly #sources: Buckets;
  readonly #networks: Buckets;

  constructor(clock: Pick<Clock, 'monotonic'>, rates: RefusalRates = usualRates) {
    this.#sources = new Buckets(clock, rates.source);
    this.#networks = new Buckets(clock, rates.network);
  }

  /** Throws HANSA_TOO_MANY_REQUESTS. What it returns is called once the caller is proven. */
  enter(address: string): () => void {
    // The same host over a socket for both versions of IP.
    const source = sourceOf(address.replace(/^::ffff:/, ''));
    const network = networkOf(address);
    const waitMs = Math.max(this.#sources.waitMs(source), this.#networks.waitMs(network));
    if (waitMs > 0) {
      const retryAfterSeconds = Math.ceil(waitMs / 1000);
      throw new HansaError(
        'HANSA_TOO_MANY_REQUESTS',
        `Too many joins from your address or network were refused. Try again in ${retryAfterSeconds} s.`,
        { details: { retryAfterSeconds } },
      );
    }
    this.#sources.add(source, -1);
    this.#networks.add(network, -1);
    return () => {
      this.#sources.add(source, 1);
      this.#networks.add(network, 1);
    };
  }
}

class Buckets {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #rate: RefusalRate;
  /** In the order of the last change. */
  readonly #known = new Map<string, { readonly left: number; readonly atMs: number }>();

  constructor(clock: Pick<Clock, 'monotonic'>, rate: RefusalRate) {
    this.#clock = clock;
    this.#rate = rate;
  }

  /** 0 where there is one to take. */
  waitMs(key: string): number {
    const left = this.#left(key);
    return left >= 1 ? 0 : (1 - left) * this.#rate.oneInMs;
  }

  add(key: string, by: number): void {
    const left = Math.min(this.#rate.burst, this.#left(key) + by);
    this.#known.delete(key);
    const [oldest] = this.#known.keys();
    if (this.#known.size >= maxKnown && oldest !== undefined) this.#known.delete(oldest);
    this.#known.set(key, { left, atMs: this.#clock.monotonic() });
  }

  #left(key: string): number {
    const { burst, oneInMs } = this.#rate;
    const known = this.#known.get(key);
    if (known === undefined) return burst;
    return Math.min(burst, known.left + (this.#clock.monotonic() - known.atMs) / oneInMs);
  }
}
