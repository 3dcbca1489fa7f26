// An index of offers, grants and peers by SPIFFE ID, so that the state of an agent takes time for its
// own relations only, and not for all relations of the site. Pure.

import type { FederationGrant } from '../../../api/kinds/federation-grant.ts';
import type { ServiceOffer } from '../../../api/kinds/service-offer.ts';
import { isWithoutPeer } from '../../authorization/entitlement.ts';
import type { FederationState } from '../../authorization/federation-state.ts';

export class Relations {
  readonly federationState: FederationState;
  /** Federations without a peer: workloads get their bundles without a grant. */
  readonly withoutPeer: ReadonlySet<string>;
  readonly #offers: ReadonlyMap<string, readonly ServiceOffer[]>;
  /** By the name of an offer. Only of peers with a federation: others cannot use a grant. */
  readonly #grants: ReadonlyMap<string, readonly FederationGrant[]>;
  /** By SPIFFE ID or `*`: the peers that grant an offer to it. */
  readonly #offering: ReadonlyMap<string, ReadonlySet<string>>;

  /** Linear in the federation state. */
  constructor(federationState: FederationState) {
    this.federationState = federationState;
    const { federations, grantsByPeer, offers, peers } = federationState;
    const withoutPeer = federations.filter((name) => isWithoutPeer(name, federationState));
    this.withoutPeer = new Set(withoutPeer);
    this.#offers = Map.groupBy(offers.values(), ({ spec }) => spec.spiffeID);
    const grants = new Map<string, FederationGrant[]>();
    const offering = new Map<string, Set<string>>();
    for (const peer of federations) {
      if (this.withoutPeer.has(peer)) continue;
      for (const grant of grantsByPeer.get(peer) ?? []) {
        for (const offer of new Set(grant.spec.offers)) at(grants, offer, () => []).push(grant);
      }
      for (const { grantedTo } of peers.get(peer)?.status?.offers ?? []) {
        for (const id of grantedTo) at(offering, id, () => new Set()).add(peer);
      }
    }
    this.#grants = grants;
    this.#offering = offering;
  }

  /** The offers that this identity serves, in order of names. */
  offersOf(id: string): readonly ServiceOffer[] {
    return this.#offers.get(id) ?? [];
  }

  /** The grants of peers that name this offer. */
  grantsOf(offer: string): readonly FederationGrant[] {
    return this.#grants.get(offer) ?? [];
  }

  /** The peers that grant one of their offers to this identity, or to all. */
  peersOffering(id: string): readonly string[] {
    return [...(this.#offering.get(id) ?? []), ...(this.#offering.get('*') ?? [])];
  }
}

function at<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}
