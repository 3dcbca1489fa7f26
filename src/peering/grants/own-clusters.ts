// Which Clusters are this site's own. It cannot grant a cluster of another peer.

import { clusterKind } from '../../api/kinds/cluster.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';

export interface OwnCluster {
  readonly issuer: string;
}

/** Undefined for clusters of peers and those that are being deleted. Only this is kept of each Cluster. */
const own = kindReader(clusterKind).derive(({ metadata, spec }): OwnCluster | undefined =>
  spec.peer === undefined && metadata.deletionTimestamp === undefined
    ? { issuer: spec.issuer }
    : undefined,
);

export function ownCluster(store: Pick<Store, 'get'>, name: string): OwnCluster | undefined {
  return own.get(store, name);
}
