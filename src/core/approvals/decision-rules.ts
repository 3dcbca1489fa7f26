// The rules of a decision: who may decide an Approval, and when an Approval allows an action. Pure.

import type { Approval } from '../../api/kinds/approval.ts';
import type { Caller } from '../access/identity.ts';
import { isDeepStrictEqual } from 'node:util';
import type { ApprovalMode } from './policy.ts';
import { hashOf } from './request-hash.ts';

type Spec = Approval['spec'];
type Status = NonNullable<Approval['status']>;

export interface Decider extends Pick<Caller, 'user' | 'origin'> {}

/** Whether hash and content agree. They always do, unless something other than the site wrote the Approval. */
export function isIntact(spec: Spec): boolean {
  const { action, verb, target, requester, change } = spec;
  return hashOf({ action, verb, target, requester: requester.user, change }) === spec.hash;
}

/** Why `next` is not a decision about `live`; undefined if it is one. Everything else in spec is immutable. */
export function editProblem(next: Spec, live: Spec): string | undefined {
  const { decision: _next, comment: _nextComment, ...nextRest } = next;
  const { decision: _live, comment: _liveComment, ...liveRest } = live;
  if (!isDeepStrictEqual(nextRest, liveRest)) {
    return 'only spec.decision and spec.comment of an Approval can be set: try the action again to request another';
  }
  if (live.decision !== undefined) return `it is already ${live.decision}, and a decision is final`;
  if (next.decision === undefined) return 'spec.comment needs a spec.decision';
  return undefined;
}

/** Why this caller, who has the right to approve, may not decide so; undefined if it may. */
export function decisionProblem(
  { spec, status }: Pick<Approval, 'spec' | 'status'>,
  decision: NonNullable<Spec['decision']>,
  by: Decider,
  nowMs: number,
): string | undefined {
  if (status?.state !== 'pending') return `it is ${status?.state ?? 'not pending'}`;
  if (hasExpired(spec, nowMs)) return `it expired at ${spec.expiresAt}`;
  if (!isIntact(spec)) return 'its hash does not match its content';
  const isReview = spec.review === true;
  // To reject is safe: it is how requesters withdraw. A review has no safe side.
  if (decision === 'rejected' && !isReview) return undefined;
  if (by.user === spec.requester.user) {
    return `${by.user} requested it, and another user must ${isReview ? 'review' : 'approve'} it`;
  }
  return originProblem(spec.mode, by);
}

function originProblem(mode: ApprovalMode, { origin }: Decider): string | undefined {
  if (origin === undefined) return 'this kind of credential cannot approve';
  if (mode !== 'two-person' || origin === 'token') return undefined;
  return 'under the two-person rule, neither the admin socket nor a certificate that it issued can approve. Use a token: --site URL --token-file FILE, or a context of `hansa login --token-file`';
}

export function hasExpired({ expiresAt }: Pick<Spec, 'expiresAt'>, nowMs: number): boolean {
  const atMs = Date.parse(expiresAt);
  return Number.isNaN(atMs) || nowMs >= atMs;
}

/** Whether the Approval allows the action with this hash to this user, where the policy now asks for `mode`. */
export function allowsUse(
  { spec, status }: { readonly spec: Spec; readonly status?: Status },
  use: { readonly hash: string; readonly user: string; readonly mode: ApprovalMode },
  nowMs: number,
): boolean {
  const by = status?.decidedBy;
  return (
    spec.review !== true &&
    spec.decision === 'approved' &&
    status?.state === 'approved' &&
    spec.hash === use.hash &&
    spec.requester.user === use.user &&
    isIntact(spec) &&
    !hasExpired(spec, nowMs) &&
    by !== undefined &&
    by.user !== use.user &&
    // The policy may be stronger now than when the request was made.
    originProblem(use.mode, by) === undefined
  );
}
