// The lease that the running code holds. The controller runtime sets it for each run, and every write of
// that run carries its epoch, so that no write can forget it. The store rejects a write with an older
// epoch (HANSA_FENCED).

import { AsyncLocalStorage } from 'node:async_hooks';
import type { Commit, Committed, Store } from '../store/store.ts';

export type Fence = NonNullable<Commit['fence']>;

const fences = new AsyncLocalStorage<Fence | undefined>();

/** Runs `work`, and everything that it awaits, under this lease. Undefined: under none. */
export function underLease<T>(fence: Fence | undefined, work: () => T): T {
  return fences.run(fence, work);
}

/** Undefined for requests of users, and for controllers that need no lease of the store. */
export function currentFence(): Fence | undefined {
  return fences.getStore();
}

/**
 * Commits with the epoch of the current lease, if there is one and the commit names no other. Every write
 * of this product goes through this function or `commitUnfenced`.
 */
export function commitFenced(store: Pick<Store, 'commit'>, commit: Commit): Promise<Committed> {
  const fence = commit.fence ?? currentFence();
  return store.commit(fence === undefined ? commit : { ...commit, fence });
}

/**
 * Commits without an epoch, also in a run of a controller. For writes that no lease of the store orders:
 * every replica makes them, or several callers share one. An epoch would reject the writes of the others
 * when the lease of one ends. A caller protects newer records of other replicas by its expectations.
 */
export function commitUnfenced(
  store: Pick<Store, 'commit'>,
  commit: Omit<Commit, 'fence'>,
): Promise<Committed> {
  return store.commit(commit);
}
