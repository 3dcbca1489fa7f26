// The actions of this plane that can need approval, and exactly what is approved. Pure.

import { type FederationPeer, federationPeerKind } from '../api/kinds/federation-peer.ts';
import type { ActionRequest } from '../core/approvals/approval-gate.ts';
import type { DeclaredAction } from '../core/approvals/policy.ts';
import type { Invitation } from './handshake/invitation.ts';
import type { InviteOptions } from './handshake/inviter.ts';
import type { Redemption } from './handshake/records.ts';
import type { Finding } from './witness/finding.ts';

const { kind } = federationPeerKind;

/**
 * The requirement wants approval to propose, accept and revoke a peer, so that no trust begins or ends unseen. To
 * resume or re-enrol a peer begins trust again, and so does cosigning a log again after a finding or a restore. To suspend a
 * peer is free: it only takes trust away, for now.
 */
export const peeringActions: readonly DeclaredAction[] = [
  { action: 'peer.invite', mode: 'approver', description: 'Create an invitation.' },
  { action: 'peer.accept', mode: 'approver', description: 'Accept an invitation.' },
  {
    action: 'peer.confirm',
    mode: 'approver',
    description:
      'Admit a site that redeemed an invitation, or clear the alert of a contested invitation.',
  },
  {
    action: 'peer.revoke',
    mode: 'approver',
    description: 'End a peering, also by deleting the FederationPeer.',
    write: { kind, operation: 'delete' },
  },
  {
    action: 'peer.resume',
    mode: 'approver',
    description: 'Trust a suspended peer again.',
    write: {
      kind,
      operation: 'update',
      when: (next, live) => isSuspended(live) && !isSuspended(next),
    },
  },
  {
    action: 'peer.reenrol',
    mode: 'approver',
    description:
      'Let a peer that lost its keys start over with a fresh invitation. It keeps its grants.',
  },
  {
    action: 'witness.acknowledge',
    mode: 'approver',
    description: 'End a finding about the audit log of a peer, so that this site cosigns it again.',
  },
  {
    action: 'witness.confirm',
    mode: 'approver',
    description:
      'Confirm the size of the audit log of a peer after a restore of this site, so that this site cosigns it again.',
  },
];

function isSuspended(peer: { readonly spec?: unknown } | undefined): boolean {
  const { desiredState } = (peer?.spec ?? {}) as Partial<FederationPeer['spec']>;
  return desiredState === 'suspended';
}

export function inviteRequest({ for: invited, forKeys, ttlSeconds }: InviteOptions): ActionRequest {
  const whom = invited?.name ?? 'any site';
  return {
    action: 'peer.invite',
    verb: 'invite',
    target: { kind, name: invited?.name ?? '' },
    change: { for: invited?.name, fingerprint: forKeys, ttlSeconds },
    summary: `invite ${whom}`,
  };
}

/** The approver sees which keys end, and whether the invitation names the new ones. */
export function reenrolRequest(
  peer: FederationPeer,
  { forKeys, ttlSeconds }: Pick<InviteOptions, 'forKeys' | 'ttlSeconds'>,
): ActionRequest {
  const { name } = peer.metadata;
  const { fingerprint, reenrolments = 0 } = peer.status ?? {};
  const keys = forKeys === undefined ? 'any new keys' : `the keys ${forKeys}`;
  return {
    action: 'peer.reenrol',
    verb: 'reenrol',
    target: targetOf(name, peer),
    change: { fingerprint: forKeys, ttlSeconds, before: fingerprint, reenrolments },
    summary: `let the peer ${name} start over with ${keys}, and keep its grants`,
  };
}

/** `id` is the public id of the invitation. Its secret must not be in an Approval. */
export function acceptRequest(
  { trustDomain, url, keys, expiresAtMs, reenrols }: Invitation,
  id: string,
  peer: FederationPeer | undefined,
): ActionRequest {
  const { name } = trustDomain;
  return {
    action: 'peer.accept',
    verb: 'accept',
    target: targetOf(name, peer),
    change: {
      invitation: id,
      url: url.href,
      keys: keys.map((key) => key.toString('hex')),
      reenrols,
    },
    summary: `accept the invitation of ${name}${reenrols === true ? ' to re-enrol this site' : ''}`,
    // The invitation is of no use after that.
    expiresAtMs,
  };
}

/** Undefined if nothing waits for a confirmation. `contest` is the alert of the peer. */
export function confirmRequest(
  name: string,
  redeemed: Redemption | undefined,
  peer: FederationPeer | undefined,
  contest: string | undefined,
): ActionRequest | undefined {
  if (redeemed?.state !== 'proposed' && contest === undefined) return undefined;
  const fingerprint = redeemed?.fingerprint ?? peer?.status?.fingerprint;
  return {
    action: 'peer.confirm',
    verb: 'confirm',
    target: targetOf(name, peer),
    change: { fingerprint, url: redeemed?.url ?? peer?.spec.url, contest },
    summary: `confirm the peer ${name} with the fingerprint ${fingerprint ?? 'unknown'}`,
  };
}

/** Undefined if there is no peering to end. `emergency` says why it cannot wait. */
export function revokeRequest(
  name: string,
  peer: FederationPeer | undefined,
  emergency?: string,
): ActionRequest | undefined {
  const state = peer?.status?.state;
  if (state === undefined || state === 'revoked') return undefined;
  return {
    action: 'peer.revoke',
    verb: 'revoke',
    target: targetOf(name, peer),
    change: { emergency },
    summary: `revoke the peer ${name}${emergency === undefined ? '' : ` in an emergency: ${emergency}`}`,
  };
}

/** The approver sees the finding with its proof. `id` is that of the finding. */
export function acknowledgeRequest(
  name: string,
  peer: FederationPeer | undefined,
  id: string,
  { reason, message, proof }: Finding,
): ActionRequest {
  return {
    action: 'witness.acknowledge',
    verb: 'acknowledge',
    target: targetOf(name, peer),
    change: { finding: id, reason, message, proof },
    summary: `acknowledge the finding ${reason} about the audit log of ${name}`,
  };
}

/** `restore` identifies the restore of this site. Not bound to the size, because the log goes on growing. */
export function confirmLogRequest(
  name: string,
  peer: FederationPeer | undefined,
  restore: string,
  key: string,
): ActionRequest {
  return {
    action: 'witness.confirm',
    verb: 'confirm',
    target: targetOf(name, peer),
    change: { restore, key },
    summary: `confirm the size of the audit log of ${name} after the restore of this site`,
  };
}

function targetOf(name: string, peer: FederationPeer | undefined): ActionRequest['target'] {
  if (peer === undefined) return { kind, name };
  const { uid, generation } = peer.metadata;
  return { kind, name, uid, generation };
}
