// Crossing invitations: two sites invite each other, and both accept at the same time. Both sites keep
// the invitation of the site whose trust domain sorts first. An acceptance counts only for a site that
// proves possession of a key that the accepted invitation pins.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import type { TrustDomain } from '../../api/values/trust-domain.ts';
import { type ApprovalMode, isAtLeast } from '../../core/approvals/policy.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { AcceptanceRecord, Records } from './records.ts';
import { peeringError } from '../errors.ts';

/** Whether the invitation of `own` wins over a crossing one of `other`. */
export function stands(own: TrustDomain, other: string): boolean {
  return own.name < other;
}

/** The keys of which a site proved possession (SHA-256, in hex). `unproven`: in a preview, it proves none. */
export type ProvenKeys = readonly string[] | 'unproven';

/** Whether the site proved possession of a pinned key. Digests in hex. */
export function pins(pinned: readonly string[], proven: readonly string[] = []): boolean {
  return proven.some((key) => pinned.includes(key));
}

/** The acceptance in progress for the site that proved possession of these keys. */
export function acceptanceFor(
  acceptances: Records<AcceptanceRecord>,
  name: string,
  proven: ProvenKeys | undefined,
): AcceptanceRecord | undefined {
  const record = acceptances.get(name)?.value;
  if (record?.state !== 'proposed') return undefined;
  return proven === 'unproven' || pins(record.keys, proven) ? record : undefined;
}

/**
 * Whether an acceptance counts as the confirmation of that site. It does not where the policy needs more
 * consent for a confirmation than the acceptance had.
 */
export function confirms({ consent = 'none' }: AcceptanceRecord, needed: ApprovalMode): boolean {
  return isAtLeast(consent, needed);
}

/** The id of the invitation that this site is redeeming at the site that proved possession of these keys. */
export function acceptingFrom(
  acceptances: Records<AcceptanceRecord>,
  peer: FederationPeer | undefined,
  proven: ProvenKeys | undefined,
): string | undefined {
  const { state, role, invitation } = peer?.status ?? {};
  if (peer === undefined || state !== 'proposed' || role !== 'acceptor') return undefined;
  const record = acceptanceFor(acceptances, peer.metadata.name, proven);
  return record?.invitation === invitation ? invitation : undefined;
}

/** Tells the site whose redemption lost to wait: this site redeems that site's invitation instead. */
export function crossed(own: TrustDomain, other: string): HansaError {
  return peeringError(
    'HANSA_PEER_STATE',
    `Cannot accept the invitation now: ${own.name} is accepting an invitation of ${other} at the same time, which takes precedence.`,
  );
}
