// A contest: a second site presents the secret of an invitation that was already redeemed, so one of
// the two stole it. This file records the contest and writes the texts for both operators.

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

/** The name and the keys that the second site claims. */
export type Claim = Pick<Contest, 'trustDomain' | 'fingerprint'>;

/**
 * Records that a second site presented the secret after `redeemed`. The first attempt goes into the
 * invitation's record, with its own audit record, and from there into the status of the peer. Later
 * attempts are ordinary denials. Resolves to the error for the second site.
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
  const isFirst = await keepContest();
  if (!isFirst) {
    audit.deny({
      actor,
      verb: 'invitation.replay',
      kind: 'FederationPeer',
      name: other.trustDomain,
      outcome: 'deny',
      code,
      reason: `replay: ${redeemed.trustDomain} already redeemed the invitation`,
    });
  }
  return peeringError(code, contestRefusal(trustDomain.name, redeemed, other, nowMs));

  /** False if another attempt was first, also one that arrived at the same moment. */
  async function keepContest(): Promise<boolean> {
    if (kept.value.contested !== undefined) return false;
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
    let isKept = false;
    await invitations.change(
      kept.name,
      (record) => {
        isKept = record.contested === undefined;
        return isKept ? { ...record, contested } : undefined;
      },
      [row],
    );
    return isKept;
  }
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

/** For the operator of the second site. */
function contestRefusal(
  inviter: string,
  redeemed: Redemption,
  { trustDomain }: Claim,
  nowMs: number,
): string {
  const when = ago(nowMs - redeemed.atMs);
  if (trustDomain !== redeemed.trustDomain) {
    return `Cannot accept the invitation: ${redeemed.trustDomain} already redeemed it ${when}. Ask ${inviter} for a new one.`;
  }
  return `Cannot accept the invitation: a ${trustDomain} with other keys (fingerprint ${redeemed.fingerprint}) already redeemed it ${when}. If that was not your site, ask the operator of ${inviter} to revoke ${trustDomain} and to invite you again with --for ${trustDomain}@FINGERPRINT.`;
}

export function ago(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 1) return 'less than a minute ago';
  return minutes === 1 ? 'a minute ago' : `${minutes} minutes ago`;
}
