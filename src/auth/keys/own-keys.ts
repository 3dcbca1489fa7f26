// Which of the keys that a cluster publishes it has, where other clusters publish them too.

import type { StoredCluster } from '../clusters/compile-cluster.ts';
import type { KeySet } from './cluster-keys.ts';
import { keySetOf } from './jwks.ts';
import type { KeyMemory } from './key-memory.ts';

/** According to what was known at that time. */
export interface JudgedKeys {
  readonly fetched: KeySet;
  readonly cluster: StoredCluster;
  readonly known: object | undefined;
  /** Undefined where other clusters have all of them. */
  readonly keys: KeySet | undefined;
  /** The clusters that have the others. */
  readonly copiedFrom: readonly string[];
}

/**
 * Returns `before` while nothing changed. Otherwise judges again, so that a proof of one cluster, also to another
 * replica, ends the copies of others at their next use.
 */
export function judgeKeys(
  fetched: KeySet,
  /** When this site got them. A peer says how old its keys are, and could claim any age. */
  seenAtMs: number,
  cluster: StoredCluster,
  memory: Pick<KeyMemory, 'version' | 'ownerOf'> | undefined,
  before: JudgedKeys | undefined,
): JudgedKeys {
  const known = memory?.version;
  const isSame = before?.fetched === fetched && before.cluster === cluster;
  if (isSame && before.known === known) return before;
  const owners = new Set<string>();
  const own = fetched.keys.filter((key) => {
    const owner = memory?.ownerOf(cluster, key, seenAtMs);
    if (owner !== undefined) owners.add(owner);
    return owner === undefined;
  });
  const copiedFrom = [...owners].toSorted();
  if (own.length === 0) return { fetched, cluster, known, keys: undefined, copiedFrom };
  if (owners.size === 0) return { fetched, cluster, known, keys: fetched, copiedFrom };
  const keys = keySetOf(own, fetched);
  // The same object for the same keys.
  const isAsBefore = isSame && before.keys?.version === keys.version;
  return { fetched, cluster, known, keys: isAsBefore ? before.keys : keys, copiedFrom };
}
