// Finds objects of this site that already name a trust domain. A new peer of that name would get
// rights at once, so an operator must confirm it first.

import { clusterKind } from '../../api/kinds/cluster.ts';
import { federationGrantKind } from '../../api/kinds/federation-grant.ts';
import { joinTokenKind } from '../../api/kinds/join-token.ts';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';

const grants = kindReader(federationGrantKind);
const workloads = kindReader(workloadEntryKind);
const tokens = kindReader(joinTokenKind);
/** The peers on whose word a Cluster relies. Only this is kept of each Cluster. */
const clusters = kindReader(clusterKind).derive(({ metadata: { name }, spec }) => ({
  name,
  ofPeer: spec.peer?.trustDomain,
  bundlePeers: spec.spire?.bundlePeers ?? [],
}));

/** Describes the first such object, or undefined. O(objects of these kinds). */
export function existingReferenceTo(
  store: Pick<Store, 'get' | 'list'>,
  trustDomain: string,
): string | undefined {
  if (store.get('spiffefederations', trustDomain) !== undefined) {
    return `there is already a SPIFFEFederation ${trustDomain}`;
  }
  if (store.get('federationpeers', trustDomain) !== undefined) {
    return `${trustDomain} was a peer before`;
  }
  for (const { metadata, spec } of grants.list(store)) {
    if (spec.peer === trustDomain) return `the FederationGrant ${metadata.name} already names it`;
  }
  for (const { name, ofPeer, bundlePeers } of clusters.list(store)) {
    if (ofPeer === trustDomain) return `the Cluster ${name} is one of it`;
    if (bundlePeers.includes(trustDomain))
      return `the Cluster ${name} takes bundles of SPIRE servers from it`;
  }
  for (const { metadata, spec } of tokens.list(store)) {
    if (spec.spiffe?.allow.some(({ spiffeID }) => spiffeID.startsWith(`spiffe://${trustDomain}/`)))
      return `the JoinToken ${metadata.name} admits its agents and bots`;
  }
  for (const entry of store.list(workloads.collection).entries) {
    // Not cached: there may be thousands, and this check is rare.
    const { metadata, spec } = workloads.once(entry);
    if (spec.federatesWith?.includes(trustDomain)) {
      return `the WorkloadEntry ${metadata.name} already federates with it`;
    }
  }
  return undefined;
}
