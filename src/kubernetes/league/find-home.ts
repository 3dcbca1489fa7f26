// Finds the home cluster of the site: the Cluster with `local: true` and an API server.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Entry, Store, Watch } from '../../core/store/store.ts';

const clusters = kindReader(clusterKind);

/** Only this is kept of each Cluster: a site may have many. */
const essentials = clusters.derive(({ metadata, spec }) => ({
  isHome: spec.local && spec.apiServer !== undefined && metadata.deletionTimestamp === undefined,
  /** Changes with all but the status. */
  version: JSON.stringify([
    metadata.uid,
    metadata.generation,
    metadata.deletionTimestamp,
    metadata.labels,
  ]),
}));

export function findHome(store: Pick<Store, 'list'>): Cluster | undefined {
  const found = store.list(clusterKind.plural).entries.find((entry) => essentials.of(entry).isHome);
  return found && clusters.once(found);
}

/** Calls `changed` after each change of a Cluster, except of its status. Returns how to stop. */
export function followClusters(
  store: Pick<Store, 'watch' | 'revision'>,
  changed: () => void,
): () => void {
  let watch: Watch | undefined;
  let isStopped = false;
  const follow = (): void => {
    watch = store.watch(clusterKind.plural, store.revision, {
      changes: (changes) => {
        const isNew = changes.some(
          ({ entry, previous }) => versionOf(entry) !== versionOf(previous),
        );
        if (isNew) changed();
      },
      ended: ({ code }) => {
        // Otherwise the store was closed.
        if (isStopped || code !== 'HANSA_EXPIRED') return;
        follow();
        changed();
      },
    });
  };
  follow();
  return () => {
    isStopped = true;
    watch?.stop();
  };
}

const versionOf = (entry: Entry | undefined): string | undefined =>
  entry && essentials.of(entry).version;
