// Which bundles of others a workload is given. Its own trust domain's it always has. Of a peer it
// gets the bundle only while a grant covers it: without the bundle it cannot verify a single
// certificate of that peer, whatever the workload itself would allow. Pure.

import { grantees, peerDistrust } from '../api/grants.ts';
import type { FederationGrant } from '../api/kinds/federation-grant.ts';
import type { FederationPeer } from '../api/kinds/federation-peer.ts';
import { timestamp } from '../api/object.ts';
import { parseTimestamp } from '../api/schema/date-time.ts';
import type { SpiffeId } from '../api/spiffe-id.ts';
import type { BundleSource } from '../core/identity/bundle.ts';
import type { BundleLife } from '../core/identity/bundle-life.ts';
import type { Relations } from './relations.ts';

export type EntitlementReason =
  | 'FederatedWithoutPeer'
  | 'Granted'
  | 'GrantedByPeer'
  | 'NotFederated'
  | 'PeerNotTrusted'
  | 'NoGrant'
  | 'Stale'
  | 'Expired';

export interface Entitlement {
  readonly trustDomain: string;
  readonly given: boolean;
  readonly reason: EntitlementReason;
  /** For the operator, who may do something about it. */
  readonly message: string;
  /** When time alone may change it: the next end of a grant, or of the life of the bundle. */
  readonly changesAtMs: number | undefined;
}

/** The trust domains that are asked for, in order. They may be very many, to be decided in small steps. */
export function askedOf(
  id: SpiffeId,
  federatesWith: readonly string[],
  relations: Pick<Relations, 'federations'>,
): readonly string[] {
  const asked = federatesWith.includes('*') ? relations.federations : federatesWith.toSorted();
  const own = id.trustDomain.name;
  return asked.includes(own) ? asked.filter((trustDomain) => trustDomain !== own) : asked;
}

/** Of one trust domain that is asked for. Linear in the grants to it. */
export function entitlement(
  id: SpiffeId,
  trustDomain: string,
  relations: Relations,
  nowMs: number,
): Entitlement {
  let changesAtMs: number | undefined;
  const endsAt = (moment: number | undefined): void => {
    if (moment !== undefined && moment > nowMs) changesAtMs = earlier(changesAtMs, moment);
  };
  for (const { spec } of relations.grantsByPeer.get(trustDomain) ?? []) {
    endsAt(spec.expiresAt === undefined ? undefined : parseTimestamp(spec.expiresAt));
  }
  const life = relations.lifeOf(trustDomain);
  endsAt(life?.staleAtMs);
  endsAt(life?.expiredAtMs);
  const decision =
    life === undefined
      ? {
          trustDomain,
          given: false,
          reason: 'NotFederated' as const,
          message: `this site has no SPIFFEFederation ${trustDomain}`,
        }
      : unlessOver(decide(id.toString(), trustDomain, relations, nowMs), life, nowMs);
  return { ...decision, changesAtMs };
}

export function earlier(one: number | undefined, other: number | undefined): number | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return Math.min(one, other);
}

type Decision = Omit<Entitlement, 'changesAtMs'>;

/** Whoever is entitled is given nothing that nobody confirmed for too long: see core/identity/bundle-life.ts. */
function unlessOver(decision: Decision, life: BundleLife, nowMs: number): Decision {
  if (!decision.given) return decision;
  const { staleAtMs, expiredAtMs } = life;
  if (expiredAtMs !== undefined && nowMs >= expiredAtMs) {
    return {
      ...decision,
      given: false,
      reason: 'Expired',
      message: 'its authorities have expired',
    };
  }
  if (staleAtMs === undefined || nowMs < staleAtMs) return decision;
  const message = `its bundle is stale since ${timestamp(staleAtMs)}: the endpoint has not confirmed it`;
  return { ...decision, given: false, reason: 'Stale', message };
}

/** For a trust domain that is federated. */
function decide(id: string, trustDomain: string, relations: Relations, nowMs: number): Decision {
  const answer = (given: boolean, reason: EntitlementReason, message: string): Decision => ({
    trustDomain,
    given,
    reason,
    message,
  });
  const peer = relations.peers.get(trustDomain);
  if (isWithoutPeer(trustDomain, relations)) {
    return answer(true, 'FederatedWithoutPeer', `${trustDomain} is federated and is no peer`);
  }
  const distrust = peerDistrust(trustDomain, peer);
  if (distrust !== undefined) return answer(false, 'PeerNotTrusted', distrust);
  const grant = relations.grantsByPeer
    .get(trustDomain)
    ?.find((candidate) => opens(candidate, id, relations, nowMs));
  if (grant !== undefined) {
    return answer(true, 'Granted', `grant ${grant.metadata.name} lets ${trustDomain} reach it`);
  }
  const offer = peer?.status?.offers?.find(
    ({ grantedTo }) => grantedTo.includes(id) || grantedTo.includes('*'),
  );
  if (offer !== undefined) {
    return answer(true, 'GrantedByPeer', `${trustDomain} grants it the offer ${offer.name}`);
  }
  return answer(
    false,
    'NoGrant',
    `no grant to ${trustDomain} names an offer that ${id} serves, and ${trustDomain} grants it none`,
  );
}

/**
 * The bundles by which somebody of another trust domain may be let in: none of a peer that is
 * suspended, revoked or not one yet, whoever made its federation.
 */
export function bundlesOfTrusted(
  bundles: BundleSource,
  relations: { readonly current: Relations },
): BundleSource {
  return {
    bundleFor: (trustDomain) => {
      const { name } = trustDomain;
      const { current } = relations;
      const trusted =
        isWithoutPeer(name, current) || peerDistrust(name, current.peers.get(name)) === undefined;
      return trusted ? bundles.bundleFor(trustDomain) : undefined;
    },
  };
}

/** Federated, and trusted without a peer of that name. */
export function isWithoutPeer(trustDomain: string, { keptByPeering, peers }: Relations): boolean {
  return !keptByPeering.has(trustDomain) && !isPeer(peers.get(trustDomain));
}

/**
 * Whoever only asks to be a peer under the name of a federation that was made by hand takes nothing
 * from those who use it.
 */
function isPeer(peer: FederationPeer | undefined): boolean {
  if (peer?.spec.desiredState === 'suspended') return true;
  const state = peer?.status?.state;
  return state !== undefined && state !== 'proposed' && state !== 'accepted';
}

/** Whether the grant opens an offer of this workload to anybody at all. */
function opens(grant: FederationGrant, id: string, relations: Relations, nowMs: number): boolean {
  return (
    grantees(grant, nowMs).length > 0 &&
    (grant.spec.offers ?? []).some((offer) => relations.offers.get(offer)?.spec.spiffeID === id)
  );
}
