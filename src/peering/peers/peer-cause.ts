// The cause that keeps a peer from advancing, as one word for hints and programs. Pure.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { hasCode } from '../../core/errors/error.ts';

type PeerStatus = NonNullable<FederationPeer['status']>;
export type PeerCause = NonNullable<PeerStatus['cause']>;

/** The cause after a failed call to the peer. */
export function causeOfFailure(error: unknown): PeerCause {
  if (hasCode(error, 'HANSA_PEER_REFUSED')) return 'Refused';
  if (hasCode(error, 'HANSA_PEER_UNTRUSTED') || hasCode(error, 'HANSA_CERTIFICATE_INVALID')) {
    return 'Untrusted';
  }
  return 'Unreachable';
}

/** Sets reason and cause in the status. */
export function because(
  status: PeerStatus,
  cause: PeerCause | undefined,
  reason: string,
): PeerStatus {
  const { cause: _before, ...rest } = status;
  return { ...rest, reason: reason.slice(0, 500), ...(cause === undefined ? {} : { cause }) };
}
