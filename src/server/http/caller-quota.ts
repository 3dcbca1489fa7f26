// Limits how many slots, such as concurrent requests, one caller may hold, so that no caller takes
// all of them. Per process: each replica limits what it serves.

import { tooMany } from './limits.ts';

export interface CallerQuotaLimits {
  /** Maximum of one caller. */
  readonly each: number;
  /** Maximum of all callers together. */
  readonly all: number;
}

export class CallerQuota {
  readonly #limits: CallerQuotaLimits;
  /** Places in use, by caller. */
  readonly #held = new Map<string, number>();
  #all = 0;

  constructor(limits: CallerQuotaLimits) {
    this.#limits = limits;
  }

  /** Takes a place or throws HANSA_TOO_MANY_REQUESTS. Call the result once, after the response. */
  enter(caller: string): () => void {
    this.take(caller);
    return () => this.give(caller);
  }

  /** Like `enter`. Call `give` exactly once, unless this throws. */
  take(caller: string): void {
    const held = this.#held.get(caller) ?? 0;
    if (held >= this.#limits.each || this.#all >= this.#limits.all) throw tooMany();
    this.#held.set(caller, held + 1);
    this.#all += 1;
  }

  give(caller: string): void {
    const left = (this.#held.get(caller) ?? 1) - 1;
    if (left === 0) this.#held.delete(caller);
    else this.#held.set(caller, left);
    this.#all -= 1;
  }

  /** Like `enter`, for a caller that already holds another place. Releases that one too, also if this throws. */
  enterToo(caller: string, leave: () => void): () => void {
    try {
      const leaveShare = this.enter(caller);
      return () => {
        leaveShare();
        leave();
      };
    } catch (error) {
      leave();
      throw error;
    }
  }

  /** The number of callers that hold a place. */
  get callers(): number {
    return this.#held.size;
  }
}
