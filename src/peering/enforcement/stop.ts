// Whether a peer is stopped, and which stop it is: what was reported about an earlier one counts no more. Pure.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';

export type StoppedPeer = Pick<FederationPeer, 'metadata' | 'spec' | 'status'>;

/** Whether the peer is suspended or revoked, or an operator wants that. */
export function isStopped({ spec, status }: Pick<StoppedPeer, 'spec' | 'status'>): boolean {
  return (
    spec.desiredState === 'suspended' ||
    status?.state === 'suspended' ||
    status?.state === 'revoked'
  );
}

/** The same while nothing happens that could make an enforcement point admit the peer again. */
export function stopOf({ metadata, status }: Pick<StoppedPeer, 'metadata' | 'status'>): string {
  const state = status?.state === 'revoked' ? 'revoked' : 'suspended';
  return `${metadata.uid} ${metadata.generation ?? 0} ${state}`;
}
