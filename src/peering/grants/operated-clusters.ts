// What the kubernetes plane says about SPIRE servers of this site, for peers: what it publishes, and what it
// wants. It counts only for a Cluster that still has its mark.

import { clusterKind } from '../../api/kinds/cluster.ts';
import {
  type PublishedBundle,
  publishedReader,
  wantedCollection,
  wantedReader,
} from '../../core/spire-bundles/records.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';

/** The UID of a Cluster with a mark. Only this is kept of each Cluster. */
const operated = kindReader(clusterKind).derive(({ metadata, spec }): string | undefined =>
  spec.spire !== undefined && metadata.deletionTimestamp === undefined ? metadata.uid : undefined,
);

/** What the site publishes for a Cluster. */
export function publishedFor(store: Pick<Store, 'get'>, name: string): PublishedBundle | undefined {
  const published = publishedReader.get(store, name);
  return published?.uid === operated.get(store, name) ? published : undefined;
}

/** The trust domains that Clusters of this site want from this peer. */
export function wantedFrom(store: Pick<Store, 'get' | 'list'>, peer: string): ReadonlySet<string> {
  return new Set(
    store.list(wantedCollection).entries.flatMap((entry) => {
      const wanted = wantedReader.of(entry);
      if (wanted === undefined || wanted.uid !== operated.get(store, entry.name)) return [];
      return wanted.peers.includes(peer) ? wanted.trustDomains : [];
    }),
  );
}
