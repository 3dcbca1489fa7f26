// The status of a peer that starts over with new keys: what it keeps, and what ends. Pure.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { logCondition } from '../witness/finding.ts';

type PeerStatus = NonNullable<FederationPeer['status']>;

/** As many as the schema allows. */
const maxLostKeys = 256;

/**
 * Keeps only what does not depend on the lost keys. So it names each field to keep, and a field that is
 * added later ends.
 */
export function reenrolling(
  before: PeerStatus,
  enrolment: {
    readonly role: NonNullable<PeerStatus['role']>;
    readonly invitation: string;
    readonly lostKeys: readonly string[];
  },
): PeerStatus {
  const { role, invitation } = enrolment;
  const lostKeys = [...new Set([...(before.lostKeys ?? []), ...enrolment.lostKeys])];
  // Findings about its audit log stay: the log has the same name.
  const conditions = (before.conditions ?? []).filter(({ type }) => type === logCondition);
  return {
    role,
    invitation,
    reenrolments: (before.reenrolments ?? 0) + 1,
    ...(lostKeys.length === 0 ? {} : { lostKeys: lostKeys.slice(-maxLostKeys) }),
    ...(before.enforcement === undefined ? {} : { enforcement: before.enforcement }),
    conditions,
  };
}
