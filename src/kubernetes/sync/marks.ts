// Finds the marked Clusters of the site: those with `spec.sync`.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Entry, Store } from '../../core/store/store.ts';

export interface Mark {
  readonly kinds: ReadonlySet<string>;
  /** Changes with the spec of the Cluster. */
  readonly version: string;
}

const clusters = kindReader(clusterKind);

/** Only this is kept of each Cluster: a site may have many. */
const marks = clusters.derive(({ metadata, spec }): Mark | undefined => {
  const isMarked =
    spec.sync !== undefined &&
    spec.apiServer !== undefined &&
    metadata.deletionTimestamp === undefined;
  if (!isMarked) return undefined;
  return {
    kinds: new Set<string>(spec.sync.kinds),
    version: `${metadata.uid} ${metadata.generation}`,
  };
});

export interface MarkedCluster extends Mark {
  readonly entry: Entry;
}

/** By name. */
export function findMarked(store: Pick<Store, 'list'>): ReadonlyMap<string, MarkedCluster> {
  return new Map(
    store.list(clusterKind.plural).entries.flatMap((entry) => {
      const mark = marks.of(entry);
      return mark === undefined ? [] : [[entry.name, { ...mark, entry }] as const];
    }),
  );
}

/** Of the Cluster of this name. Undefined where it is not marked. */
export function markOf(store: Pick<Store, 'get'>, name: string): Mark | undefined {
  const entry = store.get(clusterKind.plural, name);
  return entry && marks.of(entry);
}

export function clusterOf({ entry }: MarkedCluster): Cluster {
  return clusters.once(entry);
}
