// Asks for approval before an action, and spends it in the commit of the action. Every path that does something
// which can need approval calls the gate: writes of resources, tokens, and the routes of planes.

import type { Approval } from '../../api/kinds/approval.ts';
import { type AccessAudit, type Requester, requestedBy } from '../access/audit-draft.ts';
import type { Authorizer } from '../access/authorizer.ts';
import type { Caller } from '../access/identity.ts';
import type { Clock, Random } from '../clock/clock.ts';
import { HansaError, hasCode } from '../errors/error.ts';
import { recordReader } from '../store/reader.ts';
import type { AuditRow, Entry, Expectation, Put, Store } from '../store/store.ts';
import { group } from '../../api/object.ts';
import { commitFenced } from '../lease/current-fence.ts';
import {
  approvalName,
  approvalsCollection,
  approvalTtlMs,
  expectedAt,
  maxChangeLength,
  newApproval,
  peerOfApproval,
  putApproval,
  reviewTtlMs,
  spentApproval,
} from './approval-object.ts';
import { ApprovalRoom, isPendingRequest, maxApprovals } from './approval-room.ts';
import { mayDecide, standingOf } from './approver-standing.ts';
import { allowsUse, isIntact } from './decision-rules.ts';
import {
  type ApprovalMode,
  type ApprovalPolicy,
  compilePolicy,
  type DeclaredAction,
} from './policy.ts';
import { type ApprovalTarget, canonicalJson, hashOf } from './request-hash.ts';

export interface ApprovalGateParts {
  readonly store: Pick<Store, 'get' | 'list' | 'count' | 'commit'>;
  readonly clock: Clock;
  readonly random: Random;
  readonly audit: AccessAudit;
  readonly authorizer: Pick<Authorizer, 'authorize' | 'policy'>;
  readonly actions: readonly DeclaredAction[];
  /** How long a request waits for its decision and its use. The default is the requirement's. */
  readonly ttlMs?: number;
}

/** What will be done. The Approval is bound to all of it except `summary`. */
export interface ActionRequest {
  readonly action: string;
  readonly verb: string;
  readonly target: ApprovalTarget;
  /** Everything that will be written. Never contains a secret: approvers read it. */
  readonly change: unknown;
  /** What will be done, in a sentence without a full stop. */
  readonly summary: string;
  /** Instead of the mode that the policy has for the action. */
  readonly mode?: ApprovalMode;
  /** The Approval expires no later than this. */
  readonly expiresAtMs?: number;
}

/** Goes into the very commit that does the action, or into its first one. */
export interface SpentApproval {
  /** Of the Approval. Later steps of the same action carry it. */
  readonly uid: string;
  readonly name: string;
  /** The mode in which it was approved. */
  readonly mode: Exclude<ApprovalMode, 'none'>;
  readonly expect: readonly Expectation[];
  readonly put: readonly Put[];
  readonly audit: readonly AuditRow[];
}

const maxAttempts = 16;

const approvals = recordReader<Approval>(approvalsCollection);
const sites = recordReader<{ readonly spec?: { readonly approvals?: unknown } }>('sites');
const siteName = 'site';

export class ApprovalGate {
  readonly #parts: ApprovalGateParts;
  readonly #room: ApprovalRoom;
  /** Requests that this process writes at this moment, by hash: equal ones wait, and are not counted. */
  readonly #requesting = new Map<string, Promise<Approval>>();
  #compiled: { readonly from: unknown; readonly policy: ApprovalPolicy } | undefined;

  constructor(parts: ApprovalGateParts) {
    this.#parts = parts;
    this.#room = new ApprovalRoom(parts.clock);
  }

  get actions(): readonly DeclaredAction[] {
    return this.#parts.actions;
  }

  /** According to the Site as it is stored now. */
  get policy(): ApprovalPolicy {
    const from = sites.get(this.#parts.store, siteName)?.spec?.approvals;
    if (this.#compiled === undefined || this.#compiled.from !== from) {
      this.#compiled = { from, policy: compilePolicy(from, this.#parts.actions) };
    }
    return this.#compiled.policy;
  }

  /** The mode in which this caller needs approval. Quick and without I/O. */
  modeFor(caller: Caller, mode: ApprovalMode): ApprovalMode {
    // Controllers do what users asked for and what was approved then.
    if (mode === 'none' || caller.via === 'controller') return 'none';
    // A caller without an origin cannot approve, whatever its role.
    if (mode !== 'approver' || caller.origin === undefined) return mode;
    // Without a name: a rule that names single Approvals is not enough.
    return mayDecide(this.#parts.authorizer, caller) ? 'none' : mode;
  }

  /**
   * Resolves to undefined where the caller needs no approval, and to what the commit must contain where there is
   * one. Otherwise requests an approval, unless one is pending, and throws HANSA_APPROVAL_REQUIRED with its name.
   * Call it again after a conflict of the commit.
   */
  async allow(request: ActionRequest, by: Requester): Promise<SpentApproval | undefined> {
    const mode = this.modeFor(by.caller, request.mode ?? this.policy.modeOf(request.action));
    if (mode === 'none') return undefined;
    const { change, hash } = this.#hashed(request, by);
    for (let attempt = 1; ; attempt += 1) {
      const nowMs = this.#parts.clock.now();
      const { user } = by.caller;
      const same = this.#of(hash, user);
      for (const entry of same) {
        const approval = approvals.of(entry);
        if (!allowsUse(approval, { hash, user, mode }, nowMs)) continue;
        const standing = standingOf(this.#parts, approval, nowMs);
        if (standing.counts) return this.#spend(entry, standing.expect, by, nowMs);
      }
      const pending = same
        .map((entry) => approvals.of(entry))
        .find((one) => isPendingRequest(one, nowMs) && isIntact(one.spec));
      if (pending !== undefined) throw approvalRequired(pending);
      try {
        const requested = this.#requesting.get(hash);
        if (requested !== undefined) throw approvalRequired(await requested);
        this.#room.takeRequest(approvals.list(this.#parts.store), user, nowMs);
        const requesting = this.#request(request, mode, change, hash, by, hash);
        this.#requesting.set(hash, requesting);
        throw approvalRequired(await requesting.finally(() => this.#requesting.delete(hash)));
      } catch (error) {
        // Another request for the same was faster, or the room is full: look again.
        if (!hasCode(error, 'HANSA_CONFLICT') || attempt >= maxAttempts) throw error;
      }
    }
  }

  /**
   * For an emergency: the caller acts now, and another user reviews it afterwards. Resolves to the Approval, which
   * is durable then, or to undefined where the caller needs no approval. Call it before the action, so that no
   * crash can lose the review. A user has one open review per action and target, whatever the reasons, and a limited
   * number of them: then it throws HANSA_TOO_MANY_REQUESTS.
   */
  async review(request: ActionRequest, by: Requester): Promise<Approval | undefined> {
    const mode = this.modeFor(by.caller, request.mode ?? this.policy.modeOf(request.action));
    if (mode === 'none') return undefined;
    const { change, hash } = this.#hashed(request, by);
    const { user } = by.caller;
    // Neither the reason nor the generation: a caller could vary both to fill the store.
    const subject = subjectOf(request, user);
    for (let attempt = 1; ; attempt += 1) {
      const all = approvals.list(this.#parts.store);
      const open = all.find(
        ({ spec, status }) =>
          spec.review === true &&
          status?.state === 'pending' &&
          spec.requester.user === user &&
          subjectOf(spec, user) === subject,
      );
      if (open !== undefined) return open;
      this.#room.checkReview(all, user);
      try {
        return await this.#request(request, mode, change, hash, by, subject, true);
      } catch (error) {
        if (!hasCode(error, 'HANSA_CONFLICT') || attempt >= maxAttempts) throw error;
      }
    }
  }

  #hashed({ action, verb, target, change: value, summary }: ActionRequest, by: Requester) {
    const change = canonicalJson(value);
    if (change.length > maxChangeLength) {
      throw new HansaError(
        'HANSA_TOO_LARGE',
        `Cannot request approval to ${summary}: the change has ${change.length} characters, and approvers read at most ${maxChangeLength}. Split it.`,
      );
    }
    return { change, hash: hashOf({ action, verb, target, requester: by.caller.user, change }) };
  }

  #of(hash: string, user: string): readonly Entry[] {
    return this.#parts.store.list(approvalsCollection).entries.filter((entry) => {
      const { spec } = approvals.of(entry);
      return spec.hash === hash && spec.requester.user === user;
    });
  }

  #spend(
    entry: Entry,
    standing: readonly Expectation[],
    by: Requester,
    nowMs: number,
  ): SpentApproval {
    const approval = approvals.of(entry);
    const { name, uid } = approval.metadata;
    const approver = approval.status?.decidedBy?.user ?? '';
    return {
      uid,
      name,
      mode: approval.spec.mode,
      expect: [expectedAt(entry), ...standing],
      put: [putApproval(spentApproval(approval, nowMs))],
      audit: [
        this.#parts.audit.record({
          ...requestedBy(by),
          verb: 'approval.spent',
          kind: 'Approval',
          name,
          uid,
          ...peerField(approval),
          outcome: 'allow',
          reason: `${approval.spec.summary}; approved by ${approver}`,
        }),
      ],
    };
  }

  /**
   * Rejects with HANSA_CONFLICT where another process took the name or the last place. `label` is the hash that the
   * name begins with: two concurrent requests of the same label conflict.
   */
  async #request(
    request: ActionRequest,
    mode: Exclude<ApprovalMode, 'none'>,
    change: string,
    hash: string,
    by: Requester,
    label: string,
    review = false,
  ): Promise<Approval> {
    const { store, clock, random, audit, ttlMs = approvalTtlMs } = this.#parts;
    const nowMs = clock.now();
    let number = 1;
    while (store.get(approvalsCollection, approvalName(request.action, label, number))) number += 1;
    const latestMs = nowMs + (review ? reviewTtlMs : ttlMs);
    const approval = newApproval({
      name: approvalName(request.action, label, number),
      uid: random.uuid(),
      nowMs,
      expiresAtMs: Math.min(latestMs, review ? latestMs : (request.expiresAtMs ?? latestMs)),
      action: request.action,
      verb: request.verb,
      mode,
      target: request.target,
      requester: by.caller,
      summary: request.summary.slice(0, 1024),
      change,
      hash,
      review,
    });
    const { name, uid } = approval.metadata;
    const { entries } = await commitFenced(store, {
      expect: [
        { collection: approvalsCollection, name, at: 'absent' },
        { collection: approvalsCollection, below: maxApprovals },
      ],
      put: [putApproval(approval)],
      audit: [
        audit.record({
          ...requestedBy(by),
          verb: 'approval.requested',
          kind: 'Approval',
          name,
          uid,
          ...peerField(approval),
          outcome: 'allow',
          reason: `${request.summary}${review ? '; done in an emergency, for review' : ''}`,
        }),
      ],
    });
    return approvals.of(entries[0] as Entry);
  }
}

function peerField({ spec }: Approval): { readonly peer?: string } {
  const peer = peerOfApproval(spec);
  return peer === undefined ? {} : { peer };
}

/** What a review is about. */
function subjectOf(
  { action, verb, target }: Pick<ActionRequest, 'action' | 'verb' | 'target'>,
  requester: string,
) {
  const { kind, name, uid } = target;
  const subject = { kind, name, ...(uid === undefined ? {} : { uid }) };
  return hashOf({ action, verb, target: subject, requester, change: '' });
}

function approvalRequired({ metadata, spec }: Approval): HansaError {
  const { name } = metadata;
  const who =
    spec.mode === 'two-person'
      ? 'another user with a token and the role approver'
      : 'another user with the role approver';
  return new HansaError(
    'HANSA_APPROVAL_REQUIRED',
    `This needs approval: ${spec.summary}. The Approval ${name} waits for ${who}, until ${spec.expiresAt}: hansa approval approve ${name}. Then try again.`,
    { details: { group, kind: approvalsCollection, name } },
  );
}
