// Test fixture of this folder: a gate on a real store, with a few users.

import type { Approval } from '../../api/kinds/approval.ts';
import { timestamp } from '../../api/object.ts';
import { type Caller, socketOwner, tokenCaller } from '../access/identity.ts';
import { openScene, type Scene } from '../access/test-scene.ts';
import { type TokenRecord, tokensCollection } from '../access/token-register.ts';
import { recordReader } from '../store/reader.ts';
import { type ActionRequest, ApprovalGate } from './approval-gate.ts';
import { approvalsCollection, expectedAt, putApproval } from './approval-object.ts';
import { decideApproval } from './decide-approval.ts';
import type { ApprovalMode, DeclaredAction } from './policy.ts';

export const actions: readonly DeclaredAction[] = [
  { action: 'peer.confirm', mode: 'approver', description: 'admit a site' },
];

/** May do much, but not approve. */
export const ci = tokenCaller('ci');
/** Have the role approver. */
export const ada = tokenCaller('ada', 'token', 'ada', 'ada-1');
export const bob = tokenCaller('bob', 'token', 'bob', 'bob-1');
/** Has the role admin. */
export const owner = socketOwner;

export const confirmBruges: ActionRequest = {
  action: 'peer.confirm',
  verb: 'confirm',
  target: { kind: 'FederationPeer', name: 'bruges.example', uid: 'u-1', generation: 1 },
  change: { fingerprint: 'ab' },
  summary: 'confirm the peer bruges.example',
};

export interface ApprovalScene extends Scene {
  readonly gate: ApprovalGate;
  readonly approvals: () => readonly Approval[];
  /** Tries the action, and writes the record `done` in the same commit. */
  readonly act: (by: Caller, request?: ActionRequest) => Promise<void>;
  readonly decide: (by: Caller, name: string, decision: 'approved' | 'rejected') => Promise<void>;
  readonly setPolicy: (rules: Readonly<Record<string, ApprovalMode>>) => Promise<void>;
  /** A token without a binding of its own, until the time given. */
  readonly putToken: (name: string, id: string, untilMs?: number) => Promise<void>;
  readonly revoke: (collection: string, name: string) => Promise<void>;
  /** The last part of the verbs of audit records about Approvals, in order. */
  readonly events: () => readonly string[];
}

const tokenTtlMs = 30 * 24 * 60 * 60 * 1000;

const reader = recordReader<Approval>(approvalsCollection);

/** The tokens of ada and bob exist, unless `tokens` names others. */
export async function openApprovals(tokens = ['ada', 'bob']): Promise<ApprovalScene> {
  const scene = await openScene('approvals');
  const { store, clock, random, audit, authorizer, drafts } = scene;
  await scene.bind('approvers', {
    role: 'approver',
    subjects: [
      { kind: 'Token', name: 'ada' },
      { kind: 'Token', name: 'bob' },
    ],
  });
  const gate = new ApprovalGate({ store, clock, random, audit, authorizer, actions });
  const putToken = async (name: string, id: string, untilMs = clock.now() + tokenTtlMs) => {
    const times = { createdAt: timestamp(clock.now()), expiresAt: timestamp(untilMs) };
    const record: TokenRecord = { name, id, digest: '', role: 'viewer', createdBy: 'x', ...times };
    const encode = () => Buffer.from(JSON.stringify(record));
    await store.commit({ put: [{ collection: tokensCollection, name, encode }] });
  };
  for (const name of tokens) await putToken(name, `${name}-1`);
  return {
    ...scene,
    gate,
    approvals: () => reader.list(store),
    act: async (caller, request = confirmBruges) => {
      const spent = await gate.allow(request, { caller, origin: { requestId: 'r' } });
      await store.commit({
        expect: spent?.expect ?? [],
        put: [
          { collection: 'test.done', name: 'done', encode: () => Buffer.from('{}') },
          ...(spent?.put ?? []),
        ],
        audit: spent?.audit ?? [],
      });
    },
    decide: (caller, name, decision) => decideIn(scene, caller, name, decision),
    setPolicy: async (modes) => {
      const rules = Object.entries(modes).map(([action, mode]) => ({ action, mode }));
      const site = { spec: { approvals: { rules } } };
      const encode = () => Buffer.from(JSON.stringify(site));
      await store.commit({ put: [{ collection: 'sites', name: 'site', encode }] });
    },
    putToken,
    revoke: async (collection, name) => {
      await store.commit({ delete: [{ collection, name }] });
    },
    events: () =>
      drafts.filter(({ kind }) => kind === 'Approval').map(({ verb }) => verb.split('.')[1] ?? ''),
  };
}

/** Decides as the API does. */
export async function decideIn(
  { store, clock, authorizer }: Pick<Scene, 'store' | 'clock' | 'authorizer'>,
  caller: Caller,
  name: string,
  decision: 'approved' | 'rejected',
): Promise<void> {
  const entry = store.get(approvalsCollection, name);
  const live = entry && reader.of(entry);
  if (entry === undefined || live === undefined) throw new Error(`no Approval ${name}`);
  const spec = { ...live.spec, decision };
  const decided = decideApproval(authorizer, caller, { spec }, live, clock.now());
  await store.commit({
    expect: [expectedAt(entry)],
    put: [putApproval({ ...live, spec, status: decided?.status ?? {} })],
  });
}
