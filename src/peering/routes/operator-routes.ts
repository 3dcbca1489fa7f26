// The routes for operators that go beyond editing resources: list peers, preview and accept an
// invitation, confirm and revoke a peer. They need rights on FederationPeer.

import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { timestamp } from '../../api/object.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { actorOf, requestedBy, type Requester } from '../../core/access/audit-draft.ts';
import type { ApprovalGate, SpentApproval } from '../../core/approvals/approval-gate.ts';
import type { ApprovalMode } from '../../core/approvals/policy.ts';
import { withApproval } from '../../core/approvals/with-approval.ts';
import type { Audit } from '../../core/audit/log.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError, errorCatalog, toHansaError } from '../../core/errors/error.ts';
import { objectOf } from '../../core/json/json-body.ts';
import type { Bundle } from '../../core/identity/bundle/bundle.ts';
import { bundleLife } from '../../api/bundle-life.ts';
import {
  type ApiRequest,
  type PlaneResponse,
  type PlaneRoute,
  route,
} from '../../core/plane/route.ts';
import { requesterOf } from '../../core/plane/requester.ts';
import { findCondition } from '../../core/reconcile/conditions.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Sealer } from '../../core/store/sealing/sealer.ts';
import type { Store } from '../../core/store/store.ts';
import type { Acceptor } from '../handshake/acceptor.ts';
import type { EnforcementRow } from '../enforcement/reports.ts';
import type { Acceptance } from '../handshake/acceptance.ts';
import { secretPlace } from '../handshake/acceptances.ts';
import type { Handshake } from '../handshake/handshake.ts';
import {
  type Invitation,
  invitationId,
  parseInvitation,
  secretDigest,
} from '../handshake/invitation.ts';
import { invitationRoutes } from './invitation-routes.ts';
import { reenrolRoute } from './reenrol-route.ts';
import { emergencyOf, revokePeer } from './revoke-peer.ts';
import type { Inviter } from '../handshake/inviter.ts';
import {
  contestCondition,
  type PeerRepository,
  peersCollection,
} from '../peers/peer-repository.ts';
import type { PeerCause } from '../peers/peer-cause.ts';
import { initialState } from '../peers/peer-states.ts';
import type { PeerFederations } from '../peers/peer-federation.ts';
import { partOf } from '../handshake/redeemer.ts';
import { type AcceptanceRecord, acceptancesCollection } from '../handshake/records.ts';
import { acceptAgain, reenrolsHere } from '../handshake/reenrolment.ts';
import type { Peerings } from '../handshake/peerings.ts';
import { reportSummary, type ReportSummary } from '../peers/report-summary.ts';
import { acceptRequest, confirmRequest } from '../approval-actions.ts';
import { acceptWaitMs } from '../timing.ts';
import { waitFor } from '../wait-for.ts';
import { peeringError, peeringErrors, type PeeringErrorCode } from '../errors.ts';
import { peeringPaths } from '../paths.ts';

const peersReader = kindReader(federationPeerKind);

export interface OperatorRoutesParts {
  readonly trustDomain: TrustDomain;
  readonly own: { readonly bundle: Bundle };
  readonly store: Store;
  readonly clock: Clock;
  readonly sealer: Sealer;
  readonly audit: Pick<Audit, 'record' | 'deny'>;
  readonly approvals: Pick<ApprovalGate, 'allow' | 'review' | 'modeFor'>;
  readonly peers: PeerRepository;
  readonly federations: PeerFederations;
  readonly inviter: Inviter;
  readonly peerings: Peerings;
  readonly acceptor: Acceptor;
  readonly handshake: Handshake;
}

const maxBodyBytes = 16 * 1024;

/** A peer with its live status and the state of its bundle. */
export interface PeerSummary extends ReportSummary {
  readonly name: string;
  readonly state: string;
  readonly url: string;
  readonly since?: string;
  readonly reason?: string;
  readonly cause?: PeerCause;
  /** A contest that an operator must check, in any state. */
  readonly alert?: string;
  readonly lastSeen?: string;
  /** While it is suspended or revoked: which enforcement points already reject it. */
  readonly enforcement?: readonly EnforcementRow[];
  readonly role?: string;
  readonly fingerprint?: string;
  readonly contractVersion?: number;
  /** The steps with which it was accepted. */
  readonly acceptance?: Acceptance;
  /** How often it has started over with new keys. */
  readonly reenrolments?: number;
  readonly offers: readonly { readonly name: string; readonly grantedTo: readonly string[] }[];
  /** The clusters of the peer that this site may read; absent where the peer does not say. */
  readonly clusters?: readonly string[];
  readonly bundle?: {
    readonly fresh: boolean;
    readonly syncedAt?: string;
    /** When the bundle becomes stale: workloads do not get it from then on. */
    readonly staleAt?: string;
    readonly error?: string;
  };
}

export function operatorRoutes(parts: OperatorRoutesParts): readonly PlaneRoute[] {
  const { acceptor, handshake } = parts;
  return [
    route({
      listener: 'api',
      method: 'GET',
      path: peeringPaths.peers,
      allow: 'rights',
      rights: [{ verb: 'list', kind: federationPeerKind }],
      handle: async () => json(await summaries(parts)),
    }),
    ...invitationRoutes(parts),
    route({
      listener: 'api',
      method: 'POST',
      path: peeringPaths.preview,
      allow: 'rights',
      rights: [{ verb: 'create', kind: federationPeerKind }],
      handle: async (request) => {
        const { invitation: line } = await bodyOf(request);
        const by = requesterOf(request);
        return json(await audited(parts, by, line, (read) => acceptor.preview(read)));
      },
    }),
    route({
      listener: 'api',
      method: 'POST',
      path: peeringPaths.accept,
      allow: 'rights',
      rights: [{ verb: 'create', kind: federationPeerKind }],
      handle: async (request) => {
        const { invitation: line } = await bodyOf(request);
        const by = requesterOf(request);
        return json(await audited(parts, by, line, (read) => accept(parts, read, by)));
      },
    }),
    route({
      listener: 'api',
      method: 'POST',
      path: peeringPaths.confirm,
      allow: 'rights',
      rights: [{ verb: 'update', kind: federationPeerKind, nameFrom: 'name' }],
      handle: async (request) => {
        const { name } = request.params;
        const by = requesterOf(request);
        await confirm(parts, name, by);
        await handshake.admit(name);
        return json(await summary(parts, name));
      },
    }),
    route({
      listener: 'api',
      method: 'POST',
      path: peeringPaths.retry,
      allow: 'rights',
      rights: [{ verb: 'update', kind: federationPeerKind, nameFrom: 'name' }],
      handle: async (request) => {
        const { name } = request.params;
        await handshake.retry(name, requesterOf(request));
        return json(await summary(parts, name));
      },
    }),
    reenrolRoute(parts),
    route({
      listener: 'api',
      method: 'POST',
      path: peeringPaths.revoke,
      allow: 'rights',
      rights: [{ verb: 'delete', kind: federationPeerKind, nameFrom: 'name' }],
      handle: async (request) => {
        const { name } = request.params;
        const emergency = await request.json(maxBodyBytes, emergencyOf);
        const review = await revokePeer(parts, name, emergency, requesterOf(request));
        return json({ name, state: 'revoked', ...(review === undefined ? {} : { review }) });
      },
    }),
  ];
}

/** Admits a site that waits, or ends the alert of a contest, or both. */
async function confirm(parts: OperatorRoutesParts, name: string, by: Requester): Promise<void> {
  const { approvals, peers, inviter } = parts;
  const look = async () => {
    const peer = await peers.get(name);
    const contest = findCondition(peer?.status?.conditions, contestCondition);
    return {
      peer,
      contest: contest?.status === 'True' ? contest.message : undefined,
      redeemed: inviter.redemptionOf(name, peer?.status?.invitation)?.value.redeemed,
    };
  };
  await withApproval(
    approvals,
    by,
    async () => {
      const { peer, contest, redeemed } = await look();
      return confirmRequest(name, redeemed, peer, contest);
    },
    async (spent) => {
      const { contest, redeemed } = await look();
      const isProposed = redeemed?.state === 'proposed';
      // The first of the two steps spends the Approval.
      if (isProposed || contest === undefined) await inviter.confirm(name, by, spent);
      if (contest !== undefined) {
        await peers.dismissContest(name, by, isProposed ? undefined : spent);
      }
    },
  );
}

function bodyOf(request: ApiRequest): Promise<Readonly<Record<string, unknown>>> {
  return request.json(maxBodyBytes, objectOf);
}

/**
 * Parses the line and checks everything that needs no call to the inviting site. The result has only the keys by
 * which that site may prove itself.
 */
async function invitationOf(parts: OperatorRoutesParts, line: unknown): Promise<Invitation> {
  const { trustDomain, own, clock, peers, peerings } = parts;
  if (typeof line !== 'string') {
    throw peeringError(
      'HANSA_INVITATION_INVALID',
      'Cannot read the invitation: the request contains none.',
    );
  }
  const invitation = parseInvitation(line, clock.now());
  const { name } = invitation.trustDomain;
  if (invitation.trustDomain.equals(trustDomain)) {
    throw peeringError(
      'HANSA_INVITATION_REFUSED',
      `Cannot accept the invitation: ${name} is this site. Accept it at the invited site.`,
    );
  }
  if (invitation.for !== undefined && !invitation.for.equals(trustDomain)) {
    throw peeringError(
      'HANSA_INVITATION_REFUSED',
      `Cannot accept the invitation: it is for ${invitation.for.name}, but this site is ${trustDomain.name}.`,
    );
  }
  const { forKeys } = invitation;
  if (forKeys !== undefined && partOf(own.bundle, forKeys) === undefined) {
    throw peeringError(
      'HANSA_INVITATION_REFUSED',
      `Cannot accept the invitation: it is for other keys of ${trustDomain.name} (fingerprint ${forKeys}). Send the operator of ${name} the fingerprint from hansa status, and ask for a new invitation.`,
    );
  }
  const peer = await peers.get(name);
  const state = peer?.status?.state;
  if (state === undefined || state === 'revoked') return invitation;
  const keys = invitation.keys.map((key) => key.toString('hex'));
  const { role, invitation: ofPeer } = peer?.status ?? {};
  // The peer waits for confirmation, and accepting its invitation confirms it.
  if (state === 'proposed' && role === 'inviter' && peerings.hasRedeemed(name, keys, ofPeer)) {
    return invitation;
  }
  const isSame = peer?.status?.invitation === invitationId(secretDigest(invitation.secret));
  if (isSame && (state === 'proposed' || state === 'accepted')) return invitation;
  const again = isSame ? undefined : await reenrolsHere(parts, peer, invitation);
  if (again !== undefined) return again;
  throw isSame
    ? peeringError(
        'HANSA_INVITATION_REDEEMED',
        `Cannot accept the invitation: this site (${trustDomain.name}) already redeemed it, and ${name} is ${state}. To start again, ask ${name} for a new one.`,
      )
    : peeringError(
        'HANSA_PEER_STATE',
        `Cannot accept the invitation: ${name} is already a peer (${state}). Revoke it first: hansa peer revoke ${name}. If it was rebuilt with new keys, let it start over instead: hansa peer reenrol ${name}`,
      );
}

/** Writes a failed preview or acceptance to the audit log, with the user who tried. */
async function audited<T>(
  parts: OperatorRoutesParts,
  by: Requester,
  line: unknown,
  work: (invitation: Invitation) => Promise<T>,
): Promise<T> {
  let name: string | undefined;
  try {
    const invitation = await invitationOf(parts, line);
    ({ name } = invitation.trustDomain);
    return await work(invitation);
  } catch (error) {
    const { code, message } = toHansaError(error);
    parts.audit.deny({
      actor: actorOf(by.caller, by.origin),
      verb: 'peer.accept',
      kind: 'FederationPeer',
      ...(name === undefined ? {} : { name }),
      outcome: 'deny',
      code,
      reason: message,
    });
    throw error;
  }
}

/** The acceptance is durable when this resolves. The controller continues if the other site is slow. */
async function accept(
  parts: OperatorRoutesParts,
  invitation: Invitation,
  by: Requester,
): Promise<PeerSummary> {
  const { store, clock, sealer, audit, acceptor, handshake, peerings } = parts;
  const { name } = invitation.trustDomain;
  // Finds errors before the first write.
  await acceptor.preview(invitation);
  const id = invitationId(secretDigest(invitation.secret));
  const known = handshake.acceptances.get(name);
  const isUnderWay =
    known?.value.state === 'proposed' &&
    (known.value.waits === true || clock.now() < known.value.expiresAtMs);
  if (isUnderWay && known.value.invitation !== id) {
    throw peeringError(
      'HANSA_PEER_STATE',
      `Cannot accept the invitation: this site is redeeming another invitation of ${name}. Wait, or give up that one: hansa peer revoke ${name}`,
    );
  }
  if (known?.value.invitation !== id || known.value.state === 'revoked') {
    const sealed = await sealer.seal(secretPlace(name, id), invitation.secret);
    const before = await parts.peers.get(name);
    const spent = await parts.approvals.allow(acceptRequest(invitation, id, before), by);
    // Checked again: the peer may have changed since the invitation was read.
    const again = await reenrolsHere(parts, before, invitation);
    const row = audit.record({
      ...requestedBy(by),
      verb: 'peer.accept',
      kind: 'FederationPeer',
      name,
      outcome: 'allow',
      reason: `accepted an invitation of ${name}`,
    });
    const record: AcceptanceRecord = {
      invitation: id,
      url: invitation.url.href,
      keys: (again ?? invitation).keys.map((key) => key.toString('hex')),
      expiresAtMs: invitation.expiresAtMs,
      atMs: clock.now(),
      ...(before?.status?.state === 'revoked' ? { replaces: before.metadata.uid } : {}),
      ...(spent === undefined ? {} : { approval: spent.uid }),
      consent: consentOf(parts, by, spent),
      state: initialState,
      secret: sealed.toString('base64'),
    };
    if (before !== undefined && again !== undefined) {
      await acceptAgain(parts, before, known, record, [row], by, spent);
    } else await handshake.acceptances.put(name, known, record, [row], spent);
  }
  const kept = handshake.acceptances.get(name)?.value;
  if (kept?.invitation === id) await handshake.propose(name, kept);
  await waitFor(store, clock, [peersCollection, acceptancesCollection], acceptWaitMs, () => {
    const record = handshake.acceptances.get(name)?.value;
    if (record?.invitation === id && (record.waits === true || record.state === 'revoked')) {
      return true;
    }
    const peer = peersReader.get(store, name);
    // It crossed a redemption of the other site, which an operator of this site must confirm.
    const waits = record === undefined && peer && peerings.of(peer)?.state === 'proposed';
    return waits === true || peer?.status?.state === 'active';
  });
  const record = handshake.acceptances.get(name)?.value;
  if (record?.invitation === id && record.failure !== undefined) {
    throw peeringError(codeOf(record.failure.code), record.failure.message);
  }
  return summary(parts, name);
}

/** How much consent this acceptance has. */
function consentOf(
  { approvals }: Pick<OperatorRoutesParts, 'approvals'>,
  { caller }: Requester,
  spent: SpentApproval | undefined,
): ApprovalMode {
  // A caller who needs nobody else where an approver is needed is one.
  return spent?.mode ?? (approvals.modeFor(caller, 'approver') === 'none' ? 'approver' : 'none');
}

function codeOf(code: string): PeeringErrorCode {
  return Object.hasOwn(errorCatalog, code) || Object.hasOwn(peeringErrors, code)
    ? (code as PeeringErrorCode)
    : 'HANSA_INVITATION_REFUSED';
}

async function summaries(
  parts: OperatorRoutesParts,
): Promise<{ readonly peers: readonly PeerSummary[] }> {
  const peers = await parts.peers.list();
  return { peers: await Promise.all(peers.map(({ metadata }) => summary(parts, metadata.name))) };
}

async function summary(parts: OperatorRoutesParts, name: string): Promise<PeerSummary> {
  const { peers, federations } = parts;
  const peer = await peers.get(name);
  if (peer === undefined) {
    throw new HansaError('HANSA_NOT_FOUND', `There is no peer ${name}.`);
  }
  const { status } = peer;
  const contest = findCondition(status?.conditions, contestCondition);
  const stored = await federations.get(name);
  // The site does not trust a federation that is being deleted.
  const found = stored?.metadata.deletionTimestamp === undefined ? stored : undefined;
  const federation = found?.status;
  const staleAtMs = found && bundleLife(found).staleAtMs;
  const fresh = federation?.conditions?.find(({ type }) => type === 'Fresh')?.status === 'True';
  return {
    name,
    state: status?.state ?? 'unknown',
    url: peer.spec.url,
    ...(status?.since === undefined ? {} : { since: status.since }),
    ...(status?.reason === undefined ? {} : { reason: status.reason }),
    ...(status?.cause === undefined ? {} : { cause: status.cause }),
    ...(contest?.status === 'True' ? { alert: contest.message } : {}),
    ...(status?.lastHeartbeatAt === undefined ? {} : { lastSeen: status.lastHeartbeatAt }),
    ...(status?.enforcement === undefined ? {} : { enforcement: status.enforcement }),
    ...(status?.role === undefined ? {} : { role: status.role }),
    ...(status?.fingerprint === undefined ? {} : { fingerprint: status.fingerprint }),
    ...(status?.contractVersion === undefined ? {} : { contractVersion: status.contractVersion }),
    ...(status?.acceptance === undefined ? {} : { acceptance: status.acceptance }),
    ...(status?.reenrolments === undefined ? {} : { reenrolments: status.reenrolments }),
    ...reportSummary(status),
    ...(status?.clusters === undefined ? {} : { clusters: status.clusters }),
    offers: (status?.offers ?? []).map((offer) => ({
      name: offer.name,
      grantedTo: offer.grantedTo,
    })),
    ...(federation === undefined
      ? {}
      : {
          bundle: {
            fresh,
            ...(federation.syncedAt === undefined ? {} : { syncedAt: federation.syncedAt }),
            ...(staleAtMs === undefined ? {} : { staleAt: timestamp(staleAtMs) }),
            ...(federation.lastError === undefined ? {} : { error: federation.lastError.message }),
          },
        }),
  };
}

function json(value: unknown): PlaneResponse {
  return { status: 200, contentType: 'application/json', body: JSON.stringify(value) };
}
