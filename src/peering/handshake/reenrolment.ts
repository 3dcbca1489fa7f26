// Re-enrolment: a peer whose known keys are all lost starts over with a fresh invitation, and keeps its
// object, its grants and its history. The side that kept its keys invites, and the other side accepts.
// One commit begins it: trust in the peer ends with the commit that stores the handshake record.

import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Requester } from '../../core/access/audit-draft.ts';
import type { SpentApproval } from '../../core/approvals/approval-gate.ts';
import { endingApprovals } from '../../core/approvals/end-approvals.ts';
import type { Audit } from '../../core/audit/log.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { AuditRow, Commit, Store } from '../../core/store/store.ts';
import { peeringError } from '../errors.ts';
import type { PeerFederations } from '../peers/peer-federation.ts';
import type { NewEnrolment, PeerRepository } from '../peers/peer-repository.ts';
import { isReenrolling, nextState } from '../peers/peer-states.ts';
import type { Handshake } from './handshake.ts';
import type { Invitation } from './invitation.ts';
import type { Inviter, InviteOptions, MadeInvitation } from './inviter.ts';
import type { Peerings } from './peerings.ts';
import type { AcceptanceRecord, Kept } from './records.ts';

export interface ReenrolmentParts {
  readonly store: Pick<Store, 'list'>;
  readonly audit: Pick<Audit, 'record'>;
  readonly peers: Pick<PeerRepository, 'get' | 'reenrol'>;
  readonly federations: Pick<PeerFederations, 'keysOf'>;
  readonly inviter: Pick<Inviter, 'prepare' | 'invitations'>;
  readonly peerings: Pick<Peerings, 'acceptances'>;
  readonly handshake: Pick<Handshake, 'distrust'>;
}

/** Throws HANSA_NOT_FOUND if there is no peer of this name. */
export async function peerToReenrol(
  { peers }: Pick<ReenrolmentParts, 'peers'>,
  name: string,
): Promise<FederationPeer> {
  const peer = await peers.get(name);
  if (peer?.status?.state !== undefined && peer.metadata.deletionTimestamp === undefined)
    return peer;
  throw new HansaError(
    'HANSA_NOT_FOUND',
    `Cannot re-enrol ${name}: it is not a peer. To invite it: hansa peer invite --for ${name}`,
  );
}

/** Ends the trust in the peer, and makes the only invitation by which it starts over. */
export async function inviteAgain(
  parts: ReenrolmentParts,
  peer: FederationPeer,
  options: Pick<InviteOptions, 'forKeys' | 'ttlSeconds'>,
  by: Requester,
  spent: SpentApproval | undefined,
): Promise<MadeInvitation> {
  const { inviter, federations } = parts;
  const { name, uid } = peer.metadata;
  const { made, record, words } = await inviter.prepare(
    by,
    { ...options, for: TrustDomain.parse(name), reenrols: uid },
    spent,
  );
  const change = inviter.invitations.written(made.id, undefined, record);
  const begun = {
    peer,
    role: 'inviter',
    invitation: made.id,
    lostKeys: (await federations.keysOf(name)).all,
    reason: `${by.caller.user} lets it start over with new keys: invited ${words}`,
  } as const;
  await begin(parts, begun, change, [], by, spent);
  return made;
}

/** This site, which has new keys, accepts the invitation by which a peer re-enrols it. */
export async function acceptAgain(
  parts: ReenrolmentParts,
  peer: FederationPeer,
  before: Kept<AcceptanceRecord> | undefined,
  record: AcceptanceRecord,
  audit: readonly AuditRow[],
  by: Requester,
  spent: SpentApproval | undefined,
): Promise<void> {
  const { name, uid } = peer.metadata;
  const change = parts.peerings.acceptances.written(name, before, { ...record, madeUid: uid });
  const begun = {
    peer,
    role: 'acceptor',
    invitation: record.invitation,
    // The peer proves with a key that it has had, so its keys are not lost.
    lostKeys: [],
    reason: `${by.caller.user} accepted its invitation to re-enrol this site`,
  } as const;
  await begin(parts, begun, change, audit, by, spent);
}

/** The commit spends the Approval, and ends those from before: they were about a peer with other keys. */
async function begin(
  parts: ReenrolmentParts,
  begun: Omit<NewEnrolment, 'also' | 'expect'>,
  change: Required<Pick<Commit, 'expect' | 'put'>>,
  audit: readonly AuditRow[],
  by: Requester,
  spent: SpentApproval | undefined,
): Promise<void> {
  const { name, uid } = begun.peer.metadata;
  const target = { kind: federationPeerKind.kind, name, uid };
  const ended = endingApprovals(parts, target, `${name} was re-enrolled`, by, spent?.name);
  const enrolment: NewEnrolment = {
    ...begun,
    expect: [...change.expect, ...ended.expect],
    also: { put: [...change.put, ...ended.put], audit: [...audit, ...ended.audit] },
  };
  await parts.peers.reenrol(enrolment, by, spent);
  // The state has ended the trust already. This also removes the keys, before the caller gets an answer.
  await parts.handshake.distrust(name);
}

/**
 * The invitation with only the keys by which its site may prove itself; undefined if it does not re-enrol this
 * site at a peer that this site still has. Throws if it does not come from that very peer: it must pin a key that
 * this site knows of the peer, unless an operator said that all of them are lost. An invitation can pin known keys
 * beside others, because they are public, so the others do not count. So nobody takes the place of a peer with an
 * invitation.
 */
export async function reenrolsHere(
  parts: Pick<ReenrolmentParts, 'federations' | 'peerings'>,
  peer: FederationPeer | undefined,
  invitation: Invitation,
): Promise<Invitation | undefined> {
  if (invitation.reenrols !== true || peer?.status?.state === undefined) return undefined;
  const { name } = peer.metadata;
  const { state, role, lostKeys = [] } = peer.status;
  const pinned = (known: readonly string[]): readonly Buffer[] =>
    invitation.keys.filter((key) => known.includes(key.toString('hex')));
  const isAgain = isReenrolling(peer.status);
  if (isAgain && pinned(lostKeys).length > 0) {
    throw peeringError(
      'HANSA_INVITATION_REFUSED',
      `Cannot accept the invitation: it pins a key of ${name} that is lost, as an operator of this site said (hansa peer reenrol). Ask ${name} for an invitation with its new keys.`,
    );
  }
  if (isAgain && role === 'inviter') return invitation;
  if (!isAgain && nextState({ state }, 'reenrol') === undefined) return undefined;
  const keys = pinned(await knownKeys(parts, peer, isAgain));
  if (keys.length > 0) return { ...invitation, keys };
  throw peeringError(
    'HANSA_INVITATION_REFUSED',
    `Cannot accept the invitation: ${name} is a peer (${state}), and the invitation pins none of the keys that this site knows of it. If ${name} has lost its keys too, let it start over first: hansa peer reenrol ${name}. Otherwise the invitation is not from ${name}.`,
  );
}

/** In hex. After an acceptance without success, the peer has no bundle here, but the record has its keys. */
async function knownKeys(
  { federations, peerings }: Pick<ReenrolmentParts, 'federations' | 'peerings'>,
  { metadata: { name, uid } }: FederationPeer,
  isAgain: boolean,
): Promise<readonly string[]> {
  if (!isAgain) return (await federations.keysOf(name)).current;
  const record = peerings.acceptances.get(name)?.value;
  return record?.madeUid === uid ? record.keys : [];
}
