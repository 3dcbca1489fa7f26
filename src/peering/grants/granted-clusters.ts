// The clusters that a heartbeat names: those of this site that the site of the peer may read now. So the peer learns
// at once of a grant, and of its end. Pure.

import { grantees, knownScopes, targetsOf } from '../../api/grants.ts';
import type { FederationGrant } from '../../api/kinds/federation-grant.ts';

/** A site that grants more names none, and its peer learns of changes when it asks for the clusters. */
export const mostClustersTold = 128;
/** Names of clusters, with quotes and commas. */
export const maxClustersBytes = mostClustersTold * 66;

/** Sorted, so that equal grants produce equal messages. Linear in the grants and their entries. */
export function clustersFor(
  peer: string,
  grants: Iterable<Pick<FederationGrant, 'metadata' | 'spec'>>,
  /** Whether this site has such a cluster, and it is not one of another peer. */
  isOwn: (cluster: string) => boolean,
  nowMs: number,
): readonly string[] | undefined {
  const site = `spiffe://${peer}/hansa/site`;
  const granted = new Set<string>();
  for (const grant of grants) {
    if (grant.spec.peer !== peer || grant.metadata.deletionTimestamp !== undefined) continue;
    if (!knownScopes(grant).includes('read')) continue;
    if (!grantees(grant, nowMs).some((id) => id === '*' || id === site)) continue;
    for (const cluster of targetsOf(grant, 'cluster')) if (isOwn(cluster)) granted.add(cluster);
  }
  return granted.size > mostClustersTold ? undefined : [...granted].toSorted();
}
