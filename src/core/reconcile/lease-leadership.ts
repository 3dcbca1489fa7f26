// Leader election with leases of the store.

import { holdLease, type LeaseOptions } from '../lease/lease.ts';
import type { Leadership, Term } from './controller.ts';

/** The options of a lease, without its name. */
export type LeaseLeadershipOptions = Omit<LeaseOptions, 'name'>;

export class LeaseLeadership implements Leadership {
  readonly #options: LeaseLeadershipOptions;

  constructor(options: LeaseLeadershipOptions) {
    this.#options = options;
  }

  async campaign(
    lease: string,
    stopping: AbortSignal,
    lead: (term: Term) => Promise<void>,
  ): Promise<void> {
    let leading = false;
    const hold = holdLease({ ...this.#options, name: lease }, async (term) => {
      if (stopping.aborted) return;
      leading = true;
      try {
        await lead(term);
      } finally {
        leading = false;
      }
    });
    // Stopping the hold ends its renewals. While `lead` runs, wait until it returns.
    const stop = (): void => {
      if (!leading) void hold.stop();
    };
    if (stopping.aborted) stop();
    else stopping.addEventListener('abort', stop, { once: true });
    await hold.done;
    stopping.removeEventListener('abort', stop);
  }
}
