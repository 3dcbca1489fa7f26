// The rounds in which a site removes what it wrote into a member that left. Users and programs may change these
// objects meanwhile.

import type { KubeClient } from '../../core/kube/kube-client.ts';
import { HansaError } from '../../core/errors/error.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import type { Term } from '../../core/reconcile/controller.ts';

/** The work in a member that this site leads for the last time. */
export interface FarewellTerm extends Term {
  readonly client: KubeClient;
}

/** Runs one write. An object that changed or went is looked at again in the next round. */
export type Attempt = (write: () => Promise<unknown>) => Promise<void>;

/** Each round finds what changed during the one before. Two are usual. */
const maxRounds = 5;

/**
 * Runs `round` until it resolves to true: it found nothing to remove. Rejects with HANSA_CONFLICT if users or
 * programs write `what` all the time.
 */
export async function farewellRounds(
  signal: AbortSignal,
  what: string,
  round: (attempt: Attempt) => Promise<boolean>,
): Promise<void> {
  const attempt: Attempt = async (write) => {
    signal.throwIfAborted();
    try {
      await write();
    } catch (error) {
      const isRace = error instanceof KubeStatusError && [404, 409].includes(error.status);
      if (!isRace) throw error;
    }
  };
  for (let count = 1; count <= maxRounds; count++) {
    signal.throwIfAborted();
    if (await round(attempt)) return;
  }
  throw new HansaError(
    'HANSA_CONFLICT',
    `${what} are left after ${maxRounds} rounds: another program writes them.`,
  );
}
