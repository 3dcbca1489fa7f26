// Finds the Clusters of the site that are marked for a work: those with `spec.sync` or `spec.spire`.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Entry, Store } from '../../core/store/store.ts';

export type SpireMark = NonNullable<Cluster['spec']['spire']>;

/** The field of the spec of a Cluster that marks it. */
export type Mark = 'sync' | 'spire';

export interface MarkedCluster {
  readonly entry: Entry;
  /** Changes with the spec of the Cluster. */
  readonly version: string;
}

const clusters = kindReader(clusterKind);

/** Only this is kept of each Cluster: a site may have many. */
const essentials = clusters.derive(({ metadata, spec }) => {
  const isUsable = spec.apiServer !== undefined && metadata.deletionTimestamp === undefined;
  return {
    version: `${metadata.uid} ${metadata.generation}`,
    sync: isUsable && spec.sync !== undefined ? new Set<string>(spec.sync.kinds) : undefined,
    spire: isUsable && spec.spire !== undefined ? true : undefined,
  };
});

/** By name. */
export function findMarked(
  store: Pick<Store, 'list'>,
  mark: Mark,
): ReadonlyMap<string, MarkedCluster> {
  return new Map(
    store.list(clusterKind.plural).entries.flatMap((entry) => {
      const { version, [mark]: found } = essentials.of(entry);
      return found === undefined ? [] : [[entry.name, { entry, version }] as const];
    }),
  );
}

export function readMarked({ entry }: MarkedCluster): Cluster {
  return clusters.once(entry);
}

/** The kinds that the Cluster of this name is marked to sync. */
export function syncedKinds(store: Pick<Store, 'get'>, name: string): ReadonlySet<string> {
  const entry = store.get(clusterKind.plural, name);
  return (entry && essentials.of(entry).sync) ?? new Set();
}
