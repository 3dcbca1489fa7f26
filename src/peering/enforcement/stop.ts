// Whether a peer is stopped, and which stop it is: what was reported about an earlier one counts no more. Pure.

import { enrolmentOf } from '../../api/enrolment.ts';
import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { isReenrolling } from '../peers/peer-states.ts';

export type StoppedPeer = Pick<FederationPeer, 'metadata' | 'spec' | 'status'>;

/** Whether the peer is suspended, revoked or re-enrolling, or an operator wants to suspend it. */
export function isStopped({ spec, status }: Pick<StoppedPeer, 'spec' | 'status'>): boolean {
  return (
    spec.desiredState === 'suspended' ||
    status?.state === 'suspended' ||
    status?.state === 'revoked' ||
    isReenrolling(status)
  );
}

/** The same while nothing happens that could make an enforcement point admit the peer again. */
export function stopOf({ metadata, status }: Pick<StoppedPeer, 'metadata' | 'status'>): string {
  const state =
    status?.state === 'revoked' ? 'revoked' : isReenrolling(status) ? 'reenrolling' : 'suspended';
  const enrolment = enrolmentOf({ metadata, ...(status === undefined ? {} : { status }) });
  return `${enrolment} ${metadata.generation ?? 0} ${state}`;
}
