// Two sites show the secret of one invitation: one of them is not the invited one. The operators of
// both are told.

import { timestamp } from '../../api/object.ts';
import type { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Audit } from '../../core/audit/log.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { Contest, InvitationRecord, Kept, Records, Redemption } from './records.ts';
import { refusedActor, type Stranger } from './redeemer.ts';
import { peeringError } from '../errors.ts';

export interface ContestParts {
  readonly trustDomain: TrustDomain;
  readonly clock: Clock;
  readonly audit: Pick<Audit, 'record' | 'deny'>;
  readonly invitations: Records<InvitationRecord>;
}

/** What the site that came second says of itself. */
export type Claim = Pick<Contest, 'trustDomain' | 'fingerprint'>;

/**
 * Records that a second site showed the secret of an invitation that `redeemed` used up. The first
 * attempt becomes part of the invitation's record with an audit row of its own, from which the
 * status of the peer follows; later ones are denials like any other. Resolves to the refusal.
 */
export async function recordContest(
  { trustDomain, clock, audit, invitations }: ContestParts,
  kept: Kept<InvitationRecord>,
  redeemed: Redemption,
  other: Claim,
  stranger: Stranger,
): Promise<HansaError> {
  const nowMs = clock.now();
  const code = 'HANSA_INVITATION_REDEEMED';
  const actor = refusedActor(stranger);
  if (kept.value.contested === undefined) {
    const { address } = stranger;
    const contested: Contest = {
      ...other,
      ...(address === undefined ? {} : { address }),
      atMs: nowMs,
    };
    const row = audit.record({
      actor,
      verb: 'invitation.contest',
      kind: 'FederationPeer',
      name: redeemed.trustDomain,
      outcome: 'deny',
      code,
      reason: contestText(contested, redeemed),
    });
    await invitations.change(
      kept.name,
      (record) => (record.contested === undefined ? { ...record, contested } : undefined),
      [row],
    );
  } else {
    audit.deny({
      actor,
      verb: 'invitation.replay',
      kind: 'FederationPeer',
      name: other.trustDomain,
      outcome: 'deny',
      code,
      reason: `replay: it was redeemed by ${redeemed.trustDomain}`,
    });
  }
  return peeringError(code, contestRefusal(trustDomain.name, redeemed, other, nowMs));
}

/** For the operator of the inviting site: in the audit log, and in the status of the peer. */
export function contestText(contest: Contest, redeemed: Redemption): string {
  const { trustDomain, address, atMs } = contest;
  const isNamesake = trustDomain === redeemed.trustDomain;
  const other = isNamesake ? `another site that calls itself ${trustDomain}` : trustDomain;
  const keys =
    contest.fingerprint === undefined ? '' : ` with the fingerprint ${contest.fingerprint}`;
  const from = address === undefined ? '' : ` from ${address}`;
  return `${other}${keys} tried to redeem the same invitation at ${timestamp(atMs)}${from}; the peer has the fingerprint ${redeemed.fingerprint}`;
}

/** For the operator of the site that came second. */
function contestRefusal(
  inviter: string,
  redeemed: Redemption,
  { trustDomain }: Claim,
  nowMs: number,
): string {
  const when = ago(nowMs - redeemed.atMs);
  if (trustDomain !== redeemed.trustDomain) {
    return `Cannot accept the invitation: it was already redeemed ${when} by ${redeemed.trustDomain}. Ask ${inviter} for a new one.`;
  }
  return `Cannot accept the invitation: it was already redeemed ${when} by a ${trustDomain} with other keys (fingerprint ${redeemed.fingerprint}). If that was not your site, ask the operator of ${inviter} to revoke ${trustDomain} and to invite you again with --for ${trustDomain}@FINGERPRINT.`;
}

export function ago(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 1) return 'less than a minute ago';
  return minutes === 1 ? 'a minute ago' : `${minutes} minutes ago`;
}
