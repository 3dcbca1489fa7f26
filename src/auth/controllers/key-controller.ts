// Keeps the keys of every cluster fresh in this process. Every replica runs it, because each has its own
// cache.

import { clusterKind } from '../../api/kinds/cluster.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { credentialsCollection } from '../../core/kube/credentials/stored-credentials.ts';
import type { Controller } from '../../core/reconcile/controller.ts';
import { type Source, StoreSource } from '../../core/reconcile/source.ts';
import type { Store } from '../../core/store/store.ts';
import type { KeyFetchCounter } from '../clusters/cluster-metrics.ts';
import type { StoredCluster } from '../clusters/compile-cluster.ts';
import type { KeyCache } from '../keys/key-cache.ts';
import { peersCollection } from '../peers/cluster-standing.ts';

/** Clusters that wait for an answer at the same time. The key cache limits how many begin at once. */
const parallelism = 1024;

export interface KeyControllerParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly find: (name: string) => StoredCluster | undefined;
  readonly list: () => readonly StoredCluster[];
  readonly keys: Pick<KeyCache, 'keepFresh' | 'prune' | 'onFetched'>;
  readonly fetches: Pick<KeyFetchCounter, 'forget'>;
}

export function keyController(parts: KeyControllerParts): Controller {
  const { store, clock, find, list, keys, fetches } = parts;
  const clustersOf = (peer: string): readonly string[] =>
    list().flatMap((one) => (one.peer?.trustDomain === peer ? [one.name] : []));
  return {
    name: 'cluster-keys',
    parallelism,
    // A review may have made the site fetch, which changes when the next fetch is due.
    sources: [
      new StoreSource({ store, clock, collection: clusterKind.plural }),
      new StoreSource({ store, clock, collection: credentialsCollection }),
      // Keys of a peer end with the trust in it, and are fetched at once when it begins.
      new StoreSource({
        store,
        clock,
        collection: peersCollection,
        keysOf: ({ name }) => clustersOf(name),
      }),
      fetchedSource(keys),
    ],
    reconcile: async (name) => {
      const cluster = find(name);
      if (cluster === undefined) {
        keys.prune();
        fetches.forget(name);
        return undefined;
      }
      const credentialAt = store.get(credentialsCollection, name)?.revision;
      return { requeueAfterMs: await keys.keepFresh(cluster, credentialAt) };
    },
  };
}

/** Adds a cluster after each fetch of its keys. */
export function fetchedSource(keys: Pick<KeyCache, 'onFetched'>): Source {
  return {
    start: (sink) => {
      const stop = keys.onFetched((name) => sink.add(name));
      return { resync: () => undefined, stop };
    },
  };
}
