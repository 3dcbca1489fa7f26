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

/** Commits with the epoch of the current lease, if there is one and the commit names no other. */
export function commitFenced(store: Pick<Store, 'commit'>, commit: Commit): Promise<Committed> {
  const fence = commit.fence ?? currentFence();
  return store.commit(fence === undefined ? commit : { ...commit, fence });
}
