// How much is taken at once: requests in flight, watches, and requests a second from one caller. Per
// process: each replica bounds what it serves.

import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { TokenBuckets } from '../../core/limits/token-buckets.ts';

export interface LimitOptions {
  readonly maxConcurrentRequests: number;
  readonly maxWatches: number;
  /** 0 is no limit. */
  readonly requestsPerSecond: number;
}

/** Callers whose rate is remembered. */
const maxCallers = 10_000;
const retryAfterSeconds = 1;

export function tooMany(): HansaError {
  return new HansaError('HANSA_TOO_MANY_REQUESTS', 'Too many requests, please try again later.', {
    details: { retryAfterSeconds },
  });
}

export class Limits {
  readonly #options: LimitOptions;
  readonly #rates: TokenBuckets;
  #requests = 0;
  #watches = 0;

  constructor(options: LimitOptions, clock: Clock) {
    this.#options = options;
    const perSecond = options.requestsPerSecond;
    // A full bucket holds the requests of one second.
    this.#rates = new TokenBuckets({ clock, burst: perSecond, perSecond, maxKeys: maxCallers });
  }

  get maxConcurrentRequests(): number {
    return this.#options.maxConcurrentRequests;
  }

  get maxWatches(): number {
    return this.#options.maxWatches;
  }

  get inFlight(): number {
    return this.#requests;
  }

  get watches(): number {
    return this.#watches;
  }

  /** Throws HANSA_TOO_MANY_REQUESTS, else the caller leaves when the answer has gone out. */
  enter(isWatch: boolean, user: string): () => void {
    this.spend(user);
    if (isWatch) {
      if (this.#watches >= this.#options.maxWatches) throw tooMany();
      this.#watches += 1;
      return once(() => {
        this.#watches -= 1;
      });
    }
    if (this.#requests >= this.#options.maxConcurrentRequests) throw tooMany();
    this.#requests += 1;
    return once(() => {
      this.#requests -= 1;
    });
  }

  /** As `enter` for what is not a watch; the caller calls `give` exactly once where this has not thrown. */
  take(caller: { readonly address: string | undefined }): void {
    this.spend(caller.address ?? '');
    if (this.#requests >= this.#options.maxConcurrentRequests) throw tooMany();
    this.#requests += 1;
  }

  give(): void {
    this.#requests -= 1;
  }

  /** Counts a request against the rate of its caller alone. Throws HANSA_TOO_MANY_REQUESTS. */
  spend(caller: string): void {
    if (this.#options.requestsPerSecond === 0) return;
    if (this.#rates.take(caller) !== undefined) throw tooMany();
  }
}

export function once(leave: () => void): () => void {
  let left = false;
  return () => {
    if (left) return;
    left = true;
    leave();
  };
}
