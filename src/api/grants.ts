// May a workload of a peer use an offer of this site now? One pure decision for every place that can
// refuse: delivery of bundles, ext_authz, and what is told to the peer itself. It says why, for the
// operator of this site; callers that answer strangers keep the reason to themselves.

import type { FederationGrant } from './kinds/federation-grant.ts';
import type { FederationPeer } from './kinds/federation-peer.ts';
import { Prefix } from './prefix.ts';
import { parseTimestamp } from './schema/date-time.ts';

export interface GrantQuestion {
  /** The trust domain of the peer. */
  readonly peer: string;
  /** Which workload of the peer, by its SPIFFE ID; 'any' asks whether there is one that may. */
  readonly spiffeID: string;
  /** The name of a ServiceOffer of this site. */
  readonly offer: string;
  /** Where the call comes from, as the connection shows it; 'any' asks whether there is a place from which it may. */
  readonly sourceAddress: string;
  readonly nowMs: number;
  /** Asked only where the caller knows what the call wants to do. */
  readonly scope?: string;
}

export type GrantDecision =
  | { readonly covered: true; readonly grant: string }
  | { readonly covered: false; readonly reason: string };

type PeerLike = Pick<FederationPeer, 'spec' | 'status'>;
type GrantLike = Pick<FederationGrant, 'metadata' | 'spec'>;

/** States in which a peer is believed. Silence (degraded) ends no right: what is cut off must go on working. */
const trustedStates: ReadonlySet<string | undefined> = new Set(['active', 'degraded']);

/** Why nothing of the peer is believed; undefined where it is. */
export function peerDistrust(name: string, peer: PeerLike | undefined): string | undefined {
  if (peer === undefined) return `${name} is not a peer of this site`;
  if (peer.spec.desiredState === 'suspended') return `${name} is suspended`;
  const state = peer.status?.state;
  if (trustedStates.has(state)) return undefined;
  return `${name} is ${state ?? 'not enrolled'}`;
}

/**
 * Where several grants cover the question, the first in the given order is named. Where none does,
 * the reason is that of the grant that came closest. Linear in the grants and their entries.
 */
export function decideGrant(
  question: GrantQuestion,
  peer: PeerLike | undefined,
  grants: Iterable<GrantLike>,
): GrantDecision {
  const distrust = peerDistrust(question.peer, peer);
  if (distrust !== undefined) return { covered: false, reason: distrust };
  let closest: { readonly passed: number; readonly reason: string } | undefined;
  for (const grant of grants) {
    const miss = missOf(question, grant);
    if (miss === undefined) return { covered: true, grant: grant.metadata.name };
    if (closest === undefined || miss.passed > closest.passed) closest = miss;
  }
  const why = closest === undefined || closest.passed === 0 ? '' : `: ${closest.reason}`;
  return {
    covered: false,
    reason: `no grant for ${question.spiffeID === 'any' ? question.peer : question.spiffeID} to use ${question.offer}${why}`,
  };
}

/** Whom of the peer a grant names now, for any address: SPIFFE IDs, `*` for all, none where it covers nothing. */
export function grantees(grant: GrantLike, nowMs: number): readonly string[] {
  const { nodeInstances, networks, sourceCIDRs } = grant.spec;
  if (isExpired(grant, nowMs) || networks?.unrestricted !== true) return [];
  if (sourceCIDRs?.unrestricted !== true && (sourceCIDRs?.cidrs ?? []).length === 0) return [];
  return nodeInstances?.unrestricted === true ? ['*'] : (nodeInstances?.ids ?? []);
}

/** Undefined where the grant covers the question; else why not, and how far it got. */
function missOf(
  question: GrantQuestion,
  grant: GrantLike,
): { readonly passed: number; readonly reason: string } | undefined {
  const { name } = grant.metadata;
  const { peer, offers, scopes, nodeInstances, networks, sourceCIDRs } = grant.spec;
  if (peer !== question.peer) return { passed: 0, reason: '' };
  if (!offers.includes(question.offer)) return { passed: 0, reason: '' };
  if (isExpired(grant, question.nowMs)) {
    return { passed: 1, reason: `grant ${name} expired at ${grant.spec.expiresAt}` };
  }
  if (question.scope !== undefined && !(scopes ?? []).includes(question.scope)) {
    return { passed: 2, reason: `grant ${name} does not have the scope ${question.scope}` };
  }
  const ids = nodeInstances?.ids ?? [];
  const named = question.spiffeID === 'any' ? ids.length > 0 : ids.includes(question.spiffeID);
  // An identity of another trust domain is not the peer's, whatever a grant names.
  const ofPeer =
    question.spiffeID === 'any' || question.spiffeID.startsWith(`spiffe://${question.peer}/`);
  if (!ofPeer) {
    return { passed: 3, reason: `it is not of the trust domain ${question.peer}` };
  }
  if (nodeInstances?.unrestricted !== true && !named) {
    return { passed: 3, reason: `grant ${name} does not name this identity` };
  }
  if (networks?.unrestricted !== true) {
    return {
      passed: 4,
      reason: `grant ${name} is limited to networks, and this site has none yet: only networks: {unrestricted: true} matches`,
    };
  }
  if (sourceCIDRs?.unrestricted !== true && !isFrom(question.sourceAddress, sourceCIDRs?.cidrs)) {
    return {
      passed: 5,
      reason: `grant ${name} does not cover calls from ${question.sourceAddress}`,
    };
  }
  return undefined;
}

function isExpired(grant: GrantLike, nowMs: number): boolean {
  const { expiresAt } = grant.spec;
  if (expiresAt === undefined) return false;
  const moment = parseTimestamp(expiresAt);
  return moment === undefined || nowMs >= moment;
}

function isFrom(address: string, cidrs: readonly string[] | undefined): boolean {
  const ranges = (cidrs ?? []).filter((cidr) => Prefix.problem(cidr) === undefined);
  if (address === 'any') return ranges.length > 0;
  return ranges.some((cidr) => Prefix.parse(cidr).contains(address));
}
