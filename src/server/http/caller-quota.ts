// How much of what is limited one caller may hold at once, so that nobody takes it all by sending
// half of many requests. Per process: each replica bounds what it serves.

import { tooMany } from './limits.ts';

export interface CallerQuotaLimits {
  /** Of one caller. */
  readonly each: number;
  /** Of all of them together. */
  readonly all: number;
}

export class CallerQuota {
  readonly #limits: CallerQuotaLimits;
  /** As many as are being served. */
  readonly #held = new Map<string, number>();
  #all = 0;

  constructor(limits: CallerQuotaLimits) {
    this.#limits = limits;
  }

  /** Throws HANSA_TOO_MANY_REQUESTS, else the caller leaves once, when the answer has gone out. */
  enter(caller: string): () => void {
    const held = this.#held.get(caller) ?? 0;
    if (held >= this.#limits.each || this.#all >= this.#limits.all) throw tooMany();
    this.#held.set(caller, held + 1);
    this.#all += 1;
    return () => {
      const left = (this.#held.get(caller) ?? 1) - 1;
      if (left === 0) this.#held.delete(caller);
      else this.#held.set(caller, left);
      this.#all -= 1;
    };
  }

  /** As `enter`, for a caller that has entered elsewhere: it leaves both, and at once where this throws. */
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

  /** How many callers hold anything. */
  get callers(): number {
    return this.#held.size;
  }
}
