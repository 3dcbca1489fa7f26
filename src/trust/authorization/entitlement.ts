// Decides whether the site uses the bundle of another trust domain, and whether a workload gets it. The
// Workload API, SDS, ext_authz, joins and renewals all use this decision. A workload gets the bundle of
// a peer only while a grant covers it. Without the bundle it cannot verify certificates of the peer. Pure.

import { grantees, peerDistrust } from '../../api/grants.ts';
import type { FederationGrant } from '../../api/kinds/federation-grant.ts';
import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { timestamp } from '../../api/object.ts';
import { parseTimestamp } from '../../api/values/date-time.ts';
import type { SpiffeId } from '../../api/values/spiffe-id.ts';
import type { Bundle, BundleSource } from '../../core/identity/bundle/bundle.ts';
import type { BundleLife } from '../../api/bundle-life.ts';
import type { FederationState } from './federation-state.ts';

/** The bundle of a federation that is not being deleted, and the facts that decide whether the site uses it. */
export interface BundleFacts {
  readonly quarantined: boolean;
  /** Undefined if there is no bundle, if it cannot be parsed, or if the federation is in quarantine. */
  readonly bundle: Bundle | undefined;
  /** Whether the bundle has a key of this site. The holder of that key could act for both trust domains. */
  readonly sharesAuthority: boolean;
  readonly life: BundleLife;
}

/** Why the site does not use a bundle, for any workload. */
export type BundleProblem =
  | 'NotFederated'
  | 'Quarantined'
  | 'NoBundle'
  | 'SharedAuthority'
  | 'Expired'
  | 'Stale';

/** Why the site does not trust a trust domain. */
export type TrustProblem = BundleProblem | 'PeerNotTrusted';

export type EntitlementReason =
  | TrustProblem
  | 'FederatedWithoutPeer'
  | 'Granted'
  | 'GrantedByPeer'
  | 'NoGrant';

export interface Entitlement {
  readonly trustDomain: string;
  /** The bundle that the workload gets. Undefined if it is withheld. */
  readonly bundle: Bundle | undefined;
  readonly reason: EntitlementReason;
  /** The reason as text, for the operator. */
  readonly message: string;
  /** The next time at which the decision can change without a commit: a grant or the bundle expires. */
  readonly changesAtMs: number | undefined;
}

/** Undefined if the site uses the bundle. Called on every request. */
export function bundleProblem(
  facts: BundleFacts | undefined,
  nowMs: number,
): BundleProblem | undefined {
  if (facts === undefined) return 'NotFederated';
  if (facts.quarantined) return 'Quarantined';
  if (facts.bundle === undefined) return 'NoBundle';
  if (facts.sharesAuthority) return 'SharedAuthority';
  const { staleAtMs, expiredAtMs } = facts.life;
  if (expiredAtMs !== undefined && nowMs >= expiredAtMs) return 'Expired';
  return staleAtMs !== undefined && nowMs >= staleAtMs ? 'Stale' : undefined;
}

/** Why the site does not trust a trust domain, for the operator. Undefined if it does. */
export function trustProblem(
  trustDomain: string,
  federationState: FederationState,
  nowMs: number,
): { readonly reason: TrustProblem; readonly message: string } | undefined {
  const distrust = peerProblem(trustDomain, federationState);
  if (distrust !== undefined) return { reason: 'PeerNotTrusted', message: distrust };
  const facts = federationState.bundleOf(trustDomain);
  const reason = bundleProblem(facts, nowMs);
  return reason && { reason, message: messageOf(reason, trustDomain, facts) };
}

/** Whether the state of peers and federations alone withholds a trust domain from all workloads. Ignores bundles. */
export function isWithheldBy(trustDomain: string, federationState: FederationState): boolean {
  return (
    peerProblem(trustDomain, federationState) !== undefined ||
    !federationState.federations.includes(trustDomain)
  );
}

function messageOf(
  problem: BundleProblem,
  trustDomain: string,
  facts: BundleFacts | undefined,
): string {
  switch (problem) {
    case 'NotFederated':
      return `this site has no SPIFFEFederation ${trustDomain}`;
    case 'Quarantined':
      return 'its SPIFFEFederation is quarantined';
    case 'NoBundle':
      return 'the site has no bundle of it yet';
    case 'SharedAuthority':
      return 'its bundle contains a key of this site';
    case 'Expired':
      return 'its authorities have expired';
    case 'Stale':
      return `its bundle has been stale since ${timestamp(facts?.life.staleAtMs ?? 0)}: the endpoint has not confirmed it`;
  }
}

/** The trust domains that an entry requests, in order. There may be thousands, so callers decide in small steps. */
export function askedOf(
  id: SpiffeId,
  federatesWith: readonly string[],
  federationState: Pick<FederationState, 'federations'>,
): readonly string[] {
  const asked = federatesWith.includes('*')
    ? federationState.federations
    : federatesWith.toSorted();
  const own = id.trustDomain.name;
  return asked.includes(own) ? asked.filter((trustDomain) => trustDomain !== own) : asked;
}

/** Decides about one requested trust domain. Linear in the grants to it. */
export function entitlement(
  id: SpiffeId,
  trustDomain: string,
  federationState: FederationState,
  nowMs: number,
): Entitlement {
  let changesAtMs: number | undefined;
  const endsAt = (moment: number | undefined): void => {
    if (moment !== undefined && moment > nowMs) changesAtMs = earlier(changesAtMs, moment);
  };
  for (const { spec } of federationState.grantsByPeer.get(trustDomain) ?? []) {
    endsAt(spec.expiresAt === undefined ? undefined : parseTimestamp(spec.expiresAt));
  }
  const facts = federationState.bundleOf(trustDomain);
  endsAt(facts?.life.staleAtMs);
  endsAt(facts?.life.expiredAtMs);
  const answer = (reason: EntitlementReason, message: string, bundle?: Bundle): Entitlement => ({
    trustDomain,
    bundle,
    reason,
    message,
    changesAtMs,
  });
  const problem = bundleProblem(facts, nowMs);
  if (problem === 'NotFederated') return answer(problem, messageOf(problem, trustDomain, facts));
  const right = rightTo(id.toString(), trustDomain, federationState, nowMs);
  // Without a right to the bundle, the reason is that right, and not a problem of the bundle.
  if (!right.given) return answer(right.reason, right.message);
  return problem === undefined
    ? answer(right.reason, right.message, facts?.bundle)
    : answer(problem, messageOf(problem, trustDomain, facts));
}

export function earlier(one: number | undefined, other: number | undefined): number | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return Math.min(one, other);
}

interface Right {
  readonly given: boolean;
  readonly reason: EntitlementReason;
  readonly message: string;
}

/** The decision of peers and grants about a federated trust domain. */
function rightTo(
  id: string,
  trustDomain: string,
  federationState: FederationState,
  nowMs: number,
): Right {
  const answer = (given: boolean, reason: EntitlementReason, message: string): Right => ({
    given,
    reason,
    message,
  });
  if (isWithoutPeer(trustDomain, federationState)) {
    return answer(true, 'FederatedWithoutPeer', `${trustDomain} is federated and not a peer`);
  }
  const peer = federationState.peers.get(trustDomain);
  const distrust = peerDistrust(trustDomain, peer);
  if (distrust !== undefined) return answer(false, 'PeerNotTrusted', distrust);
  const grant = federationState.grantsByPeer
    .get(trustDomain)
    ?.find((candidate) => opens(candidate, id, federationState, nowMs));
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
 * The bundles with which the site authenticates callers of other trust domains. Excludes peers
 * that are suspended, revoked or not active yet, regardless of who created the federation.
 */
export function bundlesOfTrusted(
  bundles: BundleSource,
  federationState: { readonly current: FederationState },
): BundleSource {
  return {
    bundleFor: (trustDomain) =>
      peerProblem(trustDomain.name, federationState.current) === undefined
        ? bundles.bundleFor(trustDomain)
        : undefined,
  };
}

function peerProblem(trustDomain: string, federationState: FederationState): string | undefined {
  if (isWithoutPeer(trustDomain, federationState)) return undefined;
  return peerDistrust(trustDomain, federationState.peers.get(trustDomain));
}

/** Whether the trust domain has a federation but no peer, so that the federation alone decides. */
export function isWithoutPeer(
  trustDomain: string,
  { keptByPeering, peers }: FederationState,
): boolean {
  return !keptByPeering.has(trustDomain) && !isPeer(peers.get(trustDomain));
}

/**
 * A proposed or accepted peer does not count yet. Otherwise a site that asks to become a peer
 * could withhold a federation of the same name that an operator created. One that re-enrols counts:
 * an operator said that its keys are lost, which such a federation may still have.
 */
function isPeer(peer: FederationPeer | undefined): boolean {
  if (peer?.spec.desiredState === 'suspended') return true;
  const { state, reenrolments } = peer?.status ?? {};
  if (reenrolments !== undefined) return true;
  return state !== undefined && state !== 'proposed' && state !== 'accepted';
}

/** Whether the grant admits any caller to an offer of this workload. */
function opens(
  grant: FederationGrant,
  id: string,
  federationState: FederationState,
  nowMs: number,
): boolean {
  return (
    grantees(grant, nowMs).length > 0 &&
    (grant.spec.offers ?? []).some(
      (offer) => federationState.offers.get(offer)?.spec.spiffeID === id,
    )
  );
}
