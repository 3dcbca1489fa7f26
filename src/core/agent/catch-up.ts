// Waits until this replica has reached the state that an agent got from another replica.

import { type Clock, sleep } from '../clock/clock.ts';
import { HansaError } from '../errors/error.ts';
import type { Store } from '../store/store.ts';
import { catchUpWithinMs } from './limits.ts';
import type { StateVersion } from './state.ts';

export interface CatchUpParts {
  readonly clock: Clock;
  readonly store: Store;
  /** The version of this replica, without the hash. */
  readonly now: () => Omit<StateVersion, 'hash'>;
}

/** How often the site asks the database for changes of other replicas while an agent waits. */
const askEveryMs = 100;

export class CatchUp {
  readonly #parts: CatchUpParts;
  /** One question for all agents that wait. */
  #asking: Promise<unknown> | undefined;

  constructor(parts: CatchUpParts) {
    this.#parts = parts;
  }

  /** Rejects with HANSA_UNAVAILABLE where it takes too long. `held` is a version of the same incarnation. */
  async reach(held: StateVersion, signal: AbortSignal): Promise<void> {
    const { clock } = this.#parts;
    const untilMs = clock.monotonic() + catchUpWithinMs;
    while (this.#isBehind(held)) {
      if (clock.monotonic() >= untilMs) throw this.#tooLate(held);
      await this.#ask();
      if (!this.#isBehind(held)) return;
      await sleep(clock, askEveryMs, signal);
    }
  }

  #isBehind({ revision, epoch }: StateVersion): boolean {
    const now = this.#parts.now();
    return now.revision < revision || now.epoch < epoch;
  }

  /** Listing the leases is a transaction, and each transaction brings the changes of other replicas. */
  #ask(): Promise<unknown> {
    this.#asking ??= this.#parts.store.leases
      .list()
      .catch(() => undefined)
      .finally(() => {
        this.#asking = undefined;
      });
    return this.#asking;
  }

  #tooLate(held: StateVersion): HansaError {
    const now = this.#parts.now();
    return new HansaError(
      'HANSA_UNAVAILABLE',
      `The agent holds revision ${held.revision} of epoch ${held.epoch}, but this replica is at revision ${now.revision} of epoch ${now.epoch}. Try again, or another replica. If the site was restored from a backup, remove the cached state of the agent.`,
    );
  }
}
