// Rate limit for joins without a valid proof, by source address and network. A join counts from its start,
// and no longer after the caller proved its identity.

import type { Clock } from '../../../core/clock/clock.ts';
import { HansaError } from '../../../core/errors/error.ts';
import { SourceBudget, type SourceRates } from '../../../core/limits/source-budget.ts';

/** A script with a wrong token tries a few times; an attacker needs thousands to slow anything down. */
export const usualRates: SourceRates = {
  source: { burst: 30, perSecond: 1 },
  network: { burst: 120, perSecond: 4 },
};

export class RefusalLimit {
  readonly #budget: SourceBudget;

  constructor(clock: Pick<Clock, 'monotonic'>, rates: SourceRates = usualRates) {
    this.#budget = new SourceBudget(clock, rates);
  }

  /** Throws HANSA_TOO_MANY_REQUESTS. Call the returned function after the caller proved its identity; later calls do nothing. */
  enter(address: string): () => void {
    const retryAfterSeconds = this.#budget.waitSeconds(address);
    if (retryAfterSeconds !== undefined) {
      throw new HansaError(
        'HANSA_TOO_MANY_REQUESTS',
        `The site rejected too many joins from your address or network. Try again in ${retryAfterSeconds} s.`,
        { details: { retryAfterSeconds } },
      );
    }
    return this.#budget.charge(address, 1);
  }
}
