// Identifies one enrolment of a peer. What a site remembers about a peer under its earlier keys names the
// enrolment, and so ends when the peer re-enrols. Pure.

import type { FederationPeer } from './kinds/federation-peer.ts';

/** The uid of the peer at first. Never the same again for a peer that re-enrols or is created again. */
export function enrolmentOf({
  metadata: { uid },
  status,
}: Pick<FederationPeer, 'metadata' | 'status'>): string {
  return status?.reenrolments === undefined ? uid : `${uid}/${status.reenrolments}`;
}
