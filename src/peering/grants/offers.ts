// The offers that the site lists in a heartbeat: those that workloads of the peer may use now.
// Pure.

import { grantees } from '../../api/grants.ts';
import type { FederationGrant } from '../../api/kinds/federation-grant.ts';
import type { ServiceOffer } from '../../api/kinds/service-offer.ts';
import { maxHeartbeatBytes, type OfferTold } from '../messages.ts';
import { maxLogPartBytes } from '../witness/log-part.ts';
import { maxClustersBytes } from './granted-clusters.ts';

const longestList = 256;
const longestGrantees = 1024;
/** Below `maxHeartbeatBytes`, with room for the other fields of a heartbeat. */
const maxOffersBytes = maxHeartbeatBytes - maxLogPartBytes - maxClustersBytes - 2048;

/** Sorted by name, so that equal grants produce equal messages. O(grants + their entries). */
export function offersFor(
  peer: string,
  grants: Iterable<Pick<FederationGrant, 'metadata' | 'spec'>>,
  offers: Iterable<Pick<ServiceOffer, 'metadata' | 'spec'>>,
  nowMs: number,
): readonly OfferTold[] {
  const granted = new Map<string, Set<string>>();
  for (const grant of grants) {
    if (grant.spec.peer !== peer || grant.metadata.deletionTimestamp !== undefined) continue;
    const ids = grantees(grant, nowMs).filter(
      (id) => id === '*' || id.startsWith(`spiffe://${peer}/`),
    );
    if (ids.length === 0) continue;
    for (const offer of grant.spec.offers ?? []) {
      const known = granted.get(offer) ?? new Set();
      for (const id of ids) known.add(id);
      granted.set(offer, known);
    }
  }
  const told: OfferTold[] = [];
  for (const { metadata, spec } of offers) {
    const ids = granted.get(metadata.name);
    if (ids === undefined || metadata.deletionTimestamp !== undefined) continue;
    told.push({
      name: metadata.name,
      spiffeID: spec.spiffeID,
      grantedTo: ids.has('*') ? ['*'] : [...ids].toSorted().slice(0, longestGrantees),
    });
  }
  let bytes = 0;
  return told
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .slice(0, longestList)
    .filter((offer) => {
      // Leaves out an offer that does not fit. A smaller one after it may still fit.
      const more = Buffer.byteLength(JSON.stringify(offer)) + 1;
      if (bytes + more > maxOffersBytes) return false;
      bytes += more;
      return true;
    });
}
