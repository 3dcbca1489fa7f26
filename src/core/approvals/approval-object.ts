// Builds the Approval objects that the site itself writes: new requests and spent ones. Pure.

import type { Approval } from '../../api/kinds/approval.ts';
import { apiVersion, timestamp } from '../../api/object.ts';
import { peerNamedIn } from '../audit/concerned-peer.ts';
import { namedAfterPeer } from '../audit/query.ts';
import type { Caller } from '../access/identity.ts';
import type { Entry, Put } from '../store/store.ts';
import type { ApprovalMode } from './policy.ts';
import type { ApprovalTarget } from './request-hash.ts';

export const approvalsCollection = 'approvals';

/** The requirement: who does not decide within four hours has rejected. */
export const approvalTtlMs = 4 * 60 * 60 * 1000;

/** A review is about something that already happened. It stays open until somebody looks. */
export const reviewTtlMs = 30 * 24 * 60 * 60 * 1000;

/** Also in the schema of the kind. */
export const maxChangeLength = 65_536;

export interface NewApproval {
  readonly name: string;
  readonly uid: string;
  readonly nowMs: number;
  readonly expiresAtMs: number;
  readonly action: string;
  readonly verb: string;
  readonly mode: Exclude<ApprovalMode, 'none'>;
  readonly target: ApprovalTarget;
  readonly requester: Pick<Caller, 'user' | 'origin'>;
  readonly summary: string;
  readonly change: string;
  readonly hash: string;
  readonly review: boolean;
}

export function newApproval(made: NewApproval): Approval {
  const { user, origin } = made.requester;
  return {
    apiVersion,
    kind: 'Approval',
    metadata: {
      name: made.name,
      uid: made.uid,
      resourceVersion: '',
      generation: 1,
      creationTimestamp: timestamp(made.nowMs),
    },
    spec: {
      action: made.action,
      verb: made.verb,
      mode: made.mode,
      target: made.target,
      requester: { user, ...(origin === undefined ? {} : { origin }) },
      summary: made.summary,
      change: made.change,
      hash: made.hash,
      expiresAt: timestamp(made.expiresAtMs),
      ...(made.review ? { review: true } : {}),
    },
    status: { state: 'pending' },
  };
}

/** The same object after its action. */
export function spentApproval(approval: Approval, nowMs: number): Approval {
  return {
    ...approval,
    status: { ...approval.status, state: 'spent', spentAt: timestamp(nowMs) },
  };
}

export function putApproval(approval: Approval): Put {
  const { metadata } = approval;
  return {
    collection: approvalsCollection,
    name: metadata.name,
    encode: (revision) =>
      Buffer.from(
        JSON.stringify({
          ...approval,
          metadata: { ...metadata, resourceVersion: String(revision) },
        }),
      ),
  };
}

/** The peer that the action concerns, for the audit log: its object, or an object that names it. */
export function peerOfApproval({
  target,
  change,
}: Pick<Approval['spec'], 'target' | 'change'>): string | undefined {
  if (namedAfterPeer.has(target.kind)) return target.name === '' ? undefined : target.name;
  const { spec } = (parsed(change) ?? {}) as { readonly spec?: unknown };
  return peerNamedIn(spec).peer;
}

/** Undefined for text that the site did not write. */
function parsed(change: string): unknown {
  try {
    return JSON.parse(change);
  } catch {
    return undefined;
  }
}

export function expectedAt({ collection, name, revision }: Entry) {
  return { collection, name, at: revision };
}

/** `peer-confirm-3f2a9c1b7d4e`: the action and the start of the hash. A number follows where it is taken. */
export function approvalName(action: string, hash: string, attempt: number): string {
  const base = `${action.toLowerCase().replaceAll('.', '-')}-${hash.slice(0, 12)}`;
  return attempt === 1 ? base : `${base}-${attempt}`;
}
