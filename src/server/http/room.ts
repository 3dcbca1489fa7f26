// The room of one listener: how many requests and watches it serves at once, and what part of them
// one caller can have. The admin socket has a room of its own, which callers from the network cannot
// fill.

import { type Limits, once } from './limits.ts';
import { CallerQuota } from './caller-quota.ts';

/** What part one caller can have, of the requests that are worked on and of the watches. */
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

  /** Throws HANSA_TOO_MANY_REQUESTS, else the caller leaves when the answer has gone out; leaving twice does nothing. */
  enter(isWatch: boolean, user: string): () => void {
    const leave = this.#limits.enter(isWatch, user);
    return once((isWatch ? this.#watches : this.#requests).enterToo(user, leave));
  }
}

function sharesOf(all: number): CallerQuota {
  return new CallerQuota({ each: Math.max(1, Math.floor(all / share)), all });
}
