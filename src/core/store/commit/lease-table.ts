// The leases of the store. Each call is a job of the committer, so that it is ordered with the
// commits that it fences.

import { HansaError } from '../../errors/error.ts';
import type { Committer } from './committer.ts';
import { noHolder } from './lease-rules.ts';
import type { LeaseState, LeaseTable } from '../store.ts';

export class CommittedLeases implements LeaseTable {
  readonly #committer: Committer;
  readonly #leases: ReadonlyMap<string, LeaseState>;

  constructor(committer: Committer, leases: ReadonlyMap<string, LeaseState>) {
    this.#committer = committer;
    this.#leases = leases;
  }

  async acquire(name: string, holder: string, durationMs: number): Promise<LeaseState | undefined> {
    check(name, holder, durationMs);
    return this.#committer.run((draft) => draft.acquire(name, holder, durationMs));
  }

  async renew(
    name: string,
    holder: string,
    epoch: number,
    durationMs: number,
  ): Promise<LeaseState | undefined> {
    check(name, holder, durationMs);
    return this.#committer.run((draft) => draft.renew(name, holder, epoch, durationMs));
  }

  async release(name: string, holder: string, epoch: number): Promise<void> {
    return this.#committer.run((draft) => draft.release(name, holder, epoch));
  }

  /** Also a job, so that it sees the changes of other replicas. */
  async list(): Promise<readonly LeaseState[]> {
    await this.#committer.run(() => undefined);
    return [...this.#leases.values()];
  }
}

function check(name: string, holder: string, durationMs: number): void {
  if (name !== '' && holder !== noHolder && Number.isFinite(durationMs) && durationMs > 0) return;
  throw new HansaError(
    'HANSA_BAD_REQUEST',
    `Cannot take lease "${name}" for "${holder}" and ${durationMs} ms: all three must be given.`,
  );
}
