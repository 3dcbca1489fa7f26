// The limits of one listener: how many requests and watches it serves at once, and what share one
// caller can have. The admin socket has its own limits, so callers from the network cannot block
// it.

import { type Limits, once } from './limits.ts';
import { CallerQuota } from './caller-quota.ts';

/** One caller can have one fourth of the requests and of the watches. */
const share = 4;

export class Room {
  readonly #limits: Limits;
  readonly #requests: CallerQuota;
  readonly #watches: CallerQuota;

  constructor(limits: Limits) {
    this.#limits = limits;
    this.#requests = sharesOf(limits.maxConcurrentRequests);
    this.#watches = sharesOf(limits.maxWatches);
  }

  /** Takes a place or throws HANSA_TOO_MANY_REQUESTS. Call the result after the response. A second call has no effect. */
  enter(isWatch: boolean, user: string): () => void {
    const leave = this.#limits.enter(isWatch, user);
    return once((isWatch ? this.#watches : this.#requests).enterToo(user, leave));
  }

  /** Like `enter` for a request that is not a watch. Call `give` exactly once, unless this throws. */
  take(user: string): void {
    this.#limits.takeFor(user);
    try {
      this.#requests.take(user);
    } catch (error) {
      this.#limits.give();
      throw error;
    }
  }

  give(user: string): void {
    this.#requests.give(user);
    this.#limits.give();
  }
}

function sharesOf(all: number): CallerQuota {
  return new CallerQuota({ each: Math.max(1, Math.floor(all / share)), all });
}
