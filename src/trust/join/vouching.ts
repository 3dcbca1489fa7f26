// Is the trust domain that vouched for a member still trusted? A member that joined with an SVID of
// another trust domain renews only while that domain is trusted. Pure.

import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { isWithoutPeer, trustProblem } from '../authorization/entitlement.ts';
import type { FederationState } from '../authorization/federation-state.ts';
import type { Member } from './members.ts';

export type Vouching =
  | {
      readonly state: 'trusted';
      /** The uid of the peer that vouches; undefined where none does. */
      readonly peerUid?: string;
    }
  /** Not trusted now. Renewals are refused, and work again when it is trusted. */
  | { readonly state: 'paused'; readonly why: string; readonly peerUid?: string }
  /** The peer was revoked or deleted: the member is to be forgotten. */
  | { readonly state: 'revoked'; readonly why: string };

/** The trust domain whose SVID proved the member; undefined where a secret did. */
export function vouchingDomain({ provenBy }: Pick<Member, 'provenBy'>): string | undefined {
  return provenBy.startsWith('spiffe://') ? SpiffeId.parse(provenBy).trustDomain.name : undefined;
}

/** `own` is the trust domain of this site, which no peer takes away. */
export function judgeVouching(
  member: Pick<Member, 'provenBy' | 'peerUid'>,
  own: string,
  federationState: FederationState,
): Vouching {
  const domain = vouchingDomain(member);
  if (domain === undefined || domain === own) return { state: 'trusted' };
  const peer = federationState.peers.get(domain);
  if (member.peerUid !== undefined) {
    if (peer?.metadata.uid !== member.peerUid) {
      return { state: 'revoked', why: `the peer ${domain} was deleted` };
    }
    if (peer.status?.state === 'revoked') {
      return { state: 'revoked', why: `${domain} is revoked` };
    }
  }
  const ofPeer =
    peer === undefined || isWithoutPeer(domain, federationState) || peer.status?.state === 'revoked'
      ? {}
      : { peerUid: peer.metadata.uid };
  const problem = trustProblem(domain, federationState, beforeAllTime);
  return problem === undefined || problem.reason === 'NoBundle'
    ? { state: 'trusted', ...ofPeer }
    : { state: 'paused', why: problem.message, ...ofPeer };
}

/**
 * A bundle that is stale, expired or missing ends no membership: the SVID that renews is one of this
 * site. So the time does not count.
 */
const beforeAllTime = Number.NEGATIVE_INFINITY;
