// Limits of one listener: concurrent requests, watches, and requests per second of one caller. Per
// process: each replica limits what it serves.

import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { TokenBuckets } from '../../core/limits/token-buckets.ts';

export interface LimitOptions {
  readonly maxConcurrentRequests: number;
  readonly maxWatches: number;
  /** 0 means no limit. */
  readonly requestsPerSecond: number;
}

/** Maximum number of callers with a token bucket. */
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

  /** Takes a place or throws HANSA_TOO_MANY_REQUESTS. Call the result after the response. */
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

  /** Like `enter` for a request that is not a watch. Call `give` exactly once, unless this throws. */
  take(caller: { readonly address: string | undefined }): void {
    this.takeFor(caller.address ?? '');
  }

  /** Like `take`, for a caller by name. */
  takeFor(caller: string): void {
    this.spend(caller);
    if (this.#requests >= this.#options.maxConcurrentRequests) throw tooMany();
    this.#requests += 1;
  }

  give(): void {
    this.#requests -= 1;
  }

  /** Counts a request only against the rate limit of its caller. Throws HANSA_TOO_MANY_REQUESTS. */
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
