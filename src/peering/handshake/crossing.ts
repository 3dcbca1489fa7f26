// Crossing invitations: two sites invite each other, and both accept at the same time. One of the two
// invitations stands, the same one at both sites: that of the site whose trust domain sorts first.
// An acceptance counts only for a site that proves itself by a key which the accepted invitation pins.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import type { TrustDomain } from '../../api/values/trust-domain.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { AcceptanceRecord, Records } from './records.ts';
import { peeringError } from '../errors.ts';

/** Whether an invitation of `own` stands where one of `other` crosses it. */
export function stands(own: TrustDomain, other: string): boolean {
  return own.name < other;
}

/** Whether a site that proved itself by these keys, in hex, is the one whose keys an invitation pins. */
export function pins(pinned: readonly string[], proven: readonly string[] = []): boolean {
  return proven.some((key) => pinned.includes(key));
}

/** The acceptance under way by which an operator of this site wants exactly that site as a peer. */
export function acceptanceFor(
  acceptances: Records<AcceptanceRecord>,
  name: string,
  proven: readonly string[] | undefined,
): AcceptanceRecord | undefined {
  const record = acceptances.get(name)?.value;
  const isUnderWay = record?.step === 'redeeming' || record?.step === 'pending';
  return isUnderWay && pins(record.keys, proven) ? record : undefined;
}

/** The invitation by which this site is about to become a peer of the site that proved itself by these keys. */
export function acceptingFrom(
  acceptances: Records<AcceptanceRecord>,
  peer: FederationPeer | undefined,
  proven: readonly string[] | undefined,
): string | undefined {
  const { state, role, invitation } = peer?.status ?? {};
  if (peer === undefined || state !== 'proposed' || role !== 'acceptor') return undefined;
  const record = acceptanceFor(acceptances, peer.metadata.name, proven);
  return record?.invitation === invitation ? invitation : undefined;
}

/** Tells the site whose invitation does not stand to wait: it is about to be redeemed from. */
export function crossed(own: TrustDomain, other: string): HansaError {
  return peeringError(
    'HANSA_PEER_STATE',
    `Cannot accept the invitation now: ${own.name} is accepting an invitation of ${other} at the same time, and that one stands.`,
  );
}
