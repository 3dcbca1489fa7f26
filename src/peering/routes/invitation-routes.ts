// The routes for invitations of this site: create, list and cancel. They need rights on FederationPeer:
// a user who may invite may also cancel.

import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { timestamp } from '../../api/object.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { requestedBy, type Requester } from '../../core/access/audit-draft.ts';
import type { ApprovalGate } from '../../core/approvals/approval-gate.ts';
import { withApproval } from '../../core/approvals/with-approval.ts';
import type { Audit } from '../../core/audit/log.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { objectOf } from '../../core/json/json-body.ts';
import { requesterOf } from '../../core/plane/requester.ts';
import { type PlaneResponse, type PlaneRoute, route } from '../../core/plane/route.ts';
import { inviteRequest } from '../approval-actions.ts';
import { ago } from '../handshake/contest.ts';
import { parseFingerprint } from '../../core/identity/bundle/fingerprint.ts';
import { shortId } from '../handshake/invitation.ts';
import type { Inviter, InviteOptions } from '../handshake/inviter.ts';
import type { InvitationRecord, Kept } from '../handshake/records.ts';
import { peeringError } from '../errors.ts';
import { peeringPaths } from '../paths.ts';

export interface InvitationRoutesParts {
  readonly clock: Clock;
  readonly audit: Pick<Audit, 'record'>;
  readonly approvals: Pick<ApprovalGate, 'allow'>;
  readonly inviter: Pick<Inviter, 'invite' | 'invitations'>;
}

type InvitationState = 'open' | 'redeemed' | 'expired' | 'cancelled';

/** An invitation as operators see it. The site does not store the secret. */
export interface InvitationSummary {
  readonly id: string;
  readonly state: InvitationState;
  readonly for?: string;
  /** The fingerprint of the only keys that may redeem it. */
  readonly forKeys?: string;
  readonly createdAt: string;
  readonly createdBy?: string;
  readonly expiresAt: string;
  readonly redeemedBy?: string;
  readonly redeemedAt?: string;
  /** The fingerprint of the site that redeemed it. */
  readonly fingerprint?: string;
  readonly cancelledBy?: string;
  /** Another site that tried to redeem it afterwards. */
  readonly contestedBy?: string;
}

/** A trust domain and a fingerprint are much smaller. */
const maxBodyBytes = 16 * 1024;

export function invitationRoutes(parts: InvitationRoutesParts): readonly PlaneRoute[] {
  const { clock, inviter } = parts;
  return [
    route({
      listener: 'api',
      method: 'POST',
      path: peeringPaths.invite,
      allow: 'rights',
      rights: [{ verb: 'create', kind: federationPeerKind }],
      handle: async (request) => {
        const options = await request.json(maxBodyBytes, (body) => inviteOptions(objectOf(body)));
        const by = requesterOf(request);
        const { expiresAtMs, ...shown } = await withApproval(
          parts.approvals,
          by,
          async () => inviteRequest(options),
          (spent) => inviter.invite(by, options, spent),
        );
        return json({ ...shown, expiresAt: timestamp(expiresAtMs) });
      },
    }),
    route({
      listener: 'api',
      method: 'GET',
      path: peeringPaths.invitations,
      allow: 'rights',
      rights: [{ verb: 'list', kind: federationPeerKind }],
      handle: () =>
        json({
          invitations: inviter.invitations
            .list()
            .toSorted((a, b) => b.value.createdAtMs - a.value.createdAtMs)
            .map((kept) => invitationSummary(kept, clock.now())),
        }),
    }),
    route({
      listener: 'api',
      method: 'DELETE',
      path: peeringPaths.invitation,
      allow: 'rights',
      rights: [{ verb: 'create', kind: federationPeerKind, nameFrom: 'id' }],
      handle: async (request) => {
        const { id } = request.params;
        await cancel(parts, id, requesterOf(request));
        const kept = inviter.invitations.get(id);
        return json(
          kept === undefined ? { id, state: 'cancelled' } : invitationSummary(kept, clock.now()),
        );
      },
    }),
  ];
}

function json(value: unknown): PlaneResponse {
  return { status: 200, contentType: 'application/json', body: JSON.stringify(value) };
}

/** Strict, so that a mistake in a field does not create an invitation for any site. */
export function inviteOptions(body: Readonly<Record<string, unknown>>): InviteOptions {
  const { for: whom, fingerprint, ttlSeconds } = body;
  if (whom !== undefined && typeof whom !== 'string') throw wrongType('for', 'a trust domain');
  const forKeys = typeof fingerprint === 'string' ? parseFingerprint(fingerprint) : undefined;
  if (fingerprint !== undefined && forKeys === undefined) {
    throw wrongType('fingerprint', 'a fingerprint from hansa status (64 hexadecimal digits)');
  }
  if (forKeys !== undefined && whom === undefined) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      'Cannot create an invitation: a fingerprint needs a trust domain.',
    );
  }
  if (ttlSeconds !== undefined && typeof ttlSeconds !== 'number') {
    throw wrongType('ttlSeconds', 'a number');
  }
  return {
    ...(whom === undefined ? {} : { for: TrustDomain.parse(whom) }),
    ...(forKeys === undefined ? {} : { forKeys }),
    ...(ttlSeconds === undefined ? {} : { ttlSeconds }),
  };
}

function wrongType(field: string, expected: string): HansaError {
  return new HansaError(
    'HANSA_BAD_REQUEST',
    `Cannot create an invitation: ${field} is not ${expected}.`,
  );
}

/** Cancels an invitation at once. A site that tries to redeem it gets the reason. Idempotent. */
async function cancel(
  { clock, audit, inviter }: InvitationRoutesParts,
  id: string,
  by: Requester,
): Promise<void> {
  const kept = inviter.invitations.get(id);
  if (kept === undefined) {
    throw new HansaError(
      'HANSA_NOT_FOUND',
      `Cannot cancel the invitation ${shortId(id)}: there is no invitation with this id. To list the invitations: hansa peer invitation list`,
    );
  }
  const row = audit.record({
    ...requestedBy(by),
    verb: 'invitation.cancel',
    kind: 'FederationPeer',
    ...(kept.value.for === undefined ? {} : { name: kept.value.for }),
    outcome: 'allow',
    reason: `cancelled the invitation ${shortId(id)} for ${kept.value.for ?? 'any site'}`,
  });
  await inviter.invitations.change(
    id,
    (record) => {
      refuseRedeemed(id, record, clock.now());
      return record.cancelled === undefined
        ? { ...record, cancelled: { atMs: clock.now(), by: by.caller.user } }
        : undefined;
    },
    [row],
  );
}

function refuseRedeemed(id: string, { redeemed }: InvitationRecord, nowMs: number): void {
  if (redeemed === undefined) return;
  const { trustDomain, atMs } = redeemed;
  throw peeringError(
    'HANSA_INVITATION_REDEEMED',
    `Cannot cancel the invitation ${shortId(id)}: ${trustDomain} redeemed it ${ago(nowMs - atMs)}. To end the peering: hansa peer revoke ${trustDomain}`,
  );
}

function invitationSummary(
  { name, value }: Pick<Kept<InvitationRecord>, 'name' | 'value'>,
  nowMs: number,
): InvitationSummary {
  const { redeemed, cancelled, contested, createdBy, forKeys } = value;
  return {
    id: name,
    state: stateOf(value, nowMs),
    ...(value.for === undefined ? {} : { for: value.for }),
    ...(forKeys === undefined ? {} : { forKeys }),
    createdAt: timestamp(value.createdAtMs),
    ...(createdBy === undefined ? {} : { createdBy }),
    expiresAt: timestamp(value.expiresAtMs),
    ...(redeemed === undefined
      ? {}
      : {
          redeemedBy: redeemed.trustDomain,
          redeemedAt: timestamp(redeemed.atMs),
          fingerprint: redeemed.fingerprint,
        }),
    ...(cancelled === undefined ? {} : { cancelledBy: cancelled.by }),
    ...(contested === undefined ? {} : { contestedBy: contested.trustDomain }),
  };
}

function stateOf(
  { redeemed, cancelled, expiresAtMs }: InvitationRecord,
  nowMs: number,
): InvitationState {
  if (redeemed !== undefined) return 'redeemed';
  if (cancelled !== undefined) return 'cancelled';
  return nowMs >= expiresAtMs ? 'expired' : 'open';
}
