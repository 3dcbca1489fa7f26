// Decides whether the trust domain that vouched for a member is still trusted. A member that joined with
// an SVID of another trust domain can renew only while the site trusts that domain. Pure.

import { enrolmentOf } from '../../api/enrolment.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import type { TrustDomain } from '../../api/values/trust-domain.ts';
import { isWithoutPeer, trustProblem } from '../authorization/entitlement.ts';
import type { FederationState } from '../authorization/federation-state.ts';
import type { Refusal } from './judge-join.ts';
import type { Member } from './members.ts';

export type Vouching =
  | {
      readonly state: 'trusted';
      /** The enrolment of the vouching peer (`enrolmentOf`); undefined if there is none. */
      readonly peerUid?: string;
    }
  /** Not trusted now. The site rejects renewals until it trusts the domain again. */
  | { readonly state: 'paused'; readonly why: string; readonly peerUid?: string }
  /** The peer was revoked, deleted or re-enrolled. The site forgets the member. */
  | { readonly state: 'revoked'; readonly why: string; readonly peerUid?: never };

/** The trust domain whose SVID proved the member; undefined if it joined with a secret. */
export function vouchingDomain({ provenBy }: Pick<Member, 'provenBy'>): string | undefined {
  return provenBy.startsWith('spiffe://') ? SpiffeId.parse(provenBy).trustDomain.name : undefined;
}

/** For the audit log: the peer that a record about the member concerns. */
export function vouchingPeer(
  member: Pick<Member, 'provenBy'>,
  own: TrustDomain,
): { readonly peer?: string } {
  const peer = vouchingDomain(member);
  return peer === undefined || peer === own.name ? {} : { peer };
}

/** `own` is the trust domain of this site, which is always trusted. */
export function judgeVouching(
  member: Pick<Member, 'provenBy' | 'peerUid'>,
  own: string,
  federationState: FederationState,
): Vouching {
  const domain = vouchingDomain(member);
  if (domain === undefined || domain === own) return { state: 'trusted' };
  const peer = federationState.peers.get(domain);
  if (member.peerUid !== undefined) {
    if (peer === undefined || enrolmentOf(peer) !== member.peerUid) {
      // An enrolment begins with the uid of its peer.
      const isSamePeer = peer !== undefined && member.peerUid.startsWith(peer.metadata.uid);
      const what = isSamePeer ? 're-enrolled with new keys' : 'deleted';
      return { state: 'revoked', why: `the peer ${domain} was ${what}` };
    }
    if (peer.status?.state === 'revoked') {
      return { state: 'revoked', why: `${domain} is revoked` };
    }
  }
  const ofPeer =
    peer === undefined || isWithoutPeer(domain, federationState) || peer.status?.state === 'revoked'
      ? {}
      : { peerUid: enrolmentOf(peer) };
  const problem = trustProblem(domain, federationState, beforeAllTime);
  return problem === undefined || problem.reason === 'NoBundle'
    ? { state: 'trusted', ...ofPeer }
    : { state: 'paused', why: problem.message, ...ofPeer };
}

export function untrustedPeer(what: 'join' | 'renew', why: string): Refusal {
  return { reason: 'untrusted-peer', message: `It cannot ${what}: ${why}.` };
}

/**
 * A stale, expired or missing bundle does not end a membership, because the member renews with an SVID
 * of this site. So the current time does not matter.
 */
const beforeAllTime = Number.NEGATIVE_INFINITY;
