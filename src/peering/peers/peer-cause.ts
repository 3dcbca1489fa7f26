// What keeps a peer from going on, in one word: for hints and programs, as `reason` is for people. Pure.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { hasCode } from '../../core/errors/error.ts';

type PeerStatus = NonNullable<FederationPeer['status']>;
export type PeerCause = NonNullable<PeerStatus['cause']>;

/** Where a call to the peer failed. */
export function causeOfFailure(error: unknown): PeerCause {
  if (hasCode(error, 'HANSA_PEER_REFUSED')) return 'Refused';
  if (hasCode(error, 'HANSA_PEER_UNTRUSTED') || hasCode(error, 'HANSA_CERTIFICATE_INVALID')) {
    return 'Untrusted';
  }
  return 'Unreachable';
}

/** The status with why the peer is where it is, and what keeps it there. */
export function because(
  status: PeerStatus,
  cause: PeerCause | undefined,
  reason: string,
): PeerStatus {
  const { cause: _before, ...rest } = status;
  return { ...rest, reason: reason.slice(0, 500), ...(cause === undefined ? {} : { cause }) };
}
