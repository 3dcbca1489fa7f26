// Finds the Clusters of the site whose SPIRE server it operates: those with `spec.spire`.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Entry, Store } from '../../core/store/store.ts';

export type SpireMark = NonNullable<Cluster['spec']['spire']>;

export interface SpireMarked {
  readonly entry: Entry;
  /** Changes with the spec of the Cluster. */
  readonly version: string;
}

const clusters = kindReader(clusterKind);

/** Only this is kept of each Cluster: a site may have many. */
const versions = clusters.derive(({ metadata, spec }): string | undefined =>
  spec.spire !== undefined &&
  spec.apiServer !== undefined &&
  metadata.deletionTimestamp === undefined
    ? `${metadata.uid} ${metadata.generation}`
    : undefined,
);

/** By name. */
export function findSpireMarked(store: Pick<Store, 'list'>): ReadonlyMap<string, SpireMarked> {
  return new Map(
    store.list(clusterKind.plural).entries.flatMap((entry) => {
      const version = versions.of(entry);
      return version === undefined ? [] : [[entry.name, { entry, version }] as const];
    }),
  );
}

export function markedCluster({ entry }: SpireMarked): Cluster {
  return clusters.once(entry);
}
