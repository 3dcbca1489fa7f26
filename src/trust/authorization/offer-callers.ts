// Decides whether a caller that no peer speaks for may reach an offer: a workload of this site, or one of a
// trust domain that is federated without a peer, such as that of a SPIRE server. Grants are for peers, so
// the offer itself names these callers (`spec.callers`), and no other caller may. Pure.

import type { ServiceOffer } from '../../api/kinds/service-offer.ts';
import type { SpiffeId } from '../../api/values/spiffe-id.ts';
import { asksFor, type UsableEntry } from '../workload/entries/matching-entries.ts';
import { isWithoutPeer } from './entitlement.ts';
import type { FederationState } from './federation-state.ts';

/** The part of an entry that decides. */
export type Asker = Pick<UsableEntry, 'id' | 'federatesWith' | 'federatesWithSelector'>;

export type CallerDecision =
  | { readonly allowed: true; readonly reason: string }
  | { readonly allowed: false; readonly kind: 'entry' | 'callers'; readonly reason: string };

/** Whether the offer decides about callers of the trust domain. Otherwise a grant does. */
export function decidesByOffer(
  { id, own }: { readonly id: SpiffeId; readonly own: SpiffeId },
  federationState: FederationState,
): boolean {
  return (
    id.trustDomain.equals(own.trustDomain) || isWithoutPeer(id.trustDomain.name, federationState)
  );
}

/** `askers` are the entries of the workload that serves the offer. The site trusts a bundle of the caller. */
export function decideCaller(
  offer: Pick<ServiceOffer, 'metadata' | 'spec'>,
  id: SpiffeId,
  askers: readonly Asker[],
  federationState: FederationState,
): CallerDecision {
  const domain = id.trustDomain.name;
  const { name } = offer.metadata;
  const { spiffeID, callers } = offer.spec;
  const isOwn = askers.some((asker) => asker.id.trustDomain.equals(id.trustDomain));
  if (!isOwn && !askers.some((asker) => asksFor(asker, domain, federationState))) {
    const reason = `${domain} is not a peer of this site, and no WorkloadEntry of ${spiffeID}, which serves ${name}, federates with it`;
    return { allowed: false, kind: 'entry', reason };
  }
  if (callers?.ids?.includes(id.toString()) === true) {
    return { allowed: true, reason: `spec.callers of the ServiceOffer ${name} names it` };
  }
  // Below /hansa are the site, its users, agents and bots. They are no workloads, so they need to be named.
  if (!id.isReserved && callers?.trustDomains?.includes(domain) === true) {
    return { allowed: true, reason: `spec.callers of the ServiceOffer ${name} names ${domain}` };
  }
  const which = isOwn ? `${domain} is this site` : `${domain} is not a peer of this site`;
  const reason = `${which}, so no grant is needed, but spec.callers of the ServiceOffer ${name} does not name ${id.toString()}`;
  return { allowed: false, kind: 'callers', reason };
}
