// Limits how often the site renews the SVID of one member. Each renewal is a commit and an audit
// record, and everyone who holds a member's SVID, or the proof that it joined with, can ask for one.
// An honest member asks at half of the SVID's life, and again after a lost response.

import type { Clock } from '../../../core/clock/clock.ts';
import { TokenBuckets } from '../../../core/limits/token-buckets.ts';

const burst = 20;
const perSecond = 1 / 60;
/** The maximum number of members, with some reserve for former ones. */
const maxKeys = 60_000;

export class RenewalRate {
  readonly #buckets: TokenBuckets;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#buckets = new TokenBuckets({ clock, burst, perSecond, maxKeys });
  }

  /** Whether a renewal is allowed now. Each call counts. */
  may(instance: string): boolean {
    return this.#buckets.take(instance) === undefined;
  }
}
