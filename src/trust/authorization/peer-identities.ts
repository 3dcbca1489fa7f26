// The identities of a peer that a workload may talk to, so that Envoy can check them in certificates:
// callers that a grant admits to an offer of the workload, and servers of offers that the peer granted
// to it. entitlement.ts decides which bundles a workload gets. Pure.

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
