// Whom of a peer a workload has to do with, for Envoys to tell by the certificate alone: callers that
// a grant of ours lets reach an offer which the workload serves, and servers of offers that the peer
// granted to it. Which bundles a workload is given at all is decided in entitlement.ts. Pure.

import { grantees } from '../../api/grants.ts';
import type { FederationState } from './federation-state.ts';

/** Every identity of the peer, or those listed, in order. */
export type PeerIdentities = 'all' | readonly string[];

/** Linear in the grants to the peer and in its offers. */
export function peerIdentities(
  workload: readonly string[],
  peer: string,
  federationState: Pick<FederationState, 'peers' | 'grantsByPeer' | 'offers'>,
  nowMs: number,
): PeerIdentities {
  const own = new Set(workload);
  const found = new Set<string>();
  for (const grant of federationState.grantsByPeer.get(peer) ?? []) {
    const isServed = grant.spec.offers?.some((name) =>
      own.has(federationState.offers.get(name)?.spec.spiffeID ?? ''),
    );
    if (isServed) for (const id of grantees(grant, nowMs)) found.add(id);
  }
  if (found.has('*')) return 'all';
  for (const { spiffeID, grantedTo } of federationState.peers.get(peer)?.status?.offers ?? []) {
    if (grantedTo.some((id) => id === '*' || own.has(id))) found.add(spiffeID);
  }
  // An identity of another trust domain is not the peer's, whatever it says or a grant names.
  return [...found].filter((id) => id.startsWith(`spiffe://${peer}/`)).toSorted();
}
