// Admits writes of Approvals by users: decisions, and nothing else. Computes the status of a decided Approval, so
// that decision and decider are in one commit.

import type { Approval } from '../../api/kinds/approval.ts';
import { timestamp } from '../../api/object.ts';
import type { Authorizer } from '../access/authorizer.ts';
import { forbidden, forbiddenObject } from '../access/denial.ts';
import type { Caller } from '../access/identity.ts';
import { isDeepStrictEqual } from 'node:util';
import { approvalsCollection } from './approval-object.ts';
import { approveVerb } from './approver-rights.ts';
import { decisionProblem, editProblem } from './decision-rules.ts';

type Readable = Pick<Approval, 'metadata' | 'spec' | 'status'>;

export interface Decided {
  readonly status: NonNullable<Approval['status']>;
  readonly verb: 'approval.approved' | 'approval.rejected';
  readonly reason: string;
}

/** Throws HANSA_FORBIDDEN. Undefined where the write decides nothing, such as a new label. */
export function decideApproval(
  authorizer: Pick<Authorizer, 'authorize'>,
  caller: Caller,
  next: Pick<Readable, 'spec'> | undefined,
  live: Readable | undefined,
  nowMs: number,
): Decided | undefined {
  if (caller.via === 'controller') return undefined;
  const name = live?.metadata.name;
  if (live === undefined) {
    throw refused(name, 'the site creates Approvals, when a caller tries an action that needs one');
  }
  if (next === undefined) {
    if (live.spec.review === true && live.status?.state === 'pending') {
      throw refused(name, 'it waits for a review. Decide it first');
    }
    return undefined;
  }
  if (isDeepStrictEqual(next.spec, live.spec)) return undefined;
  const asked = { verb: approveVerb, plural: approvalsCollection, name: name ?? '' };
  if (!authorizer.authorize(caller, asked).allowed) throw forbidden(caller, asked);
  const { decision, comment } = next.spec;
  const problem =
    editProblem(next.spec, live.spec) ??
    (decision && decisionProblem(live, decision, caller, nowMs));
  if (problem !== undefined || decision === undefined) throw refused(name, problem ?? '');
  const { user, origin, tokenId } = caller;
  return {
    status: {
      ...live.status,
      state: decision,
      reason: `${decision} by ${user}${comment === undefined ? '' : `: ${comment}`}`.slice(0, 1024),
      decidedBy: {
        user,
        ...(origin === undefined ? {} : { origin }),
        ...(tokenId === undefined ? {} : { tokenID: tokenId }),
      },
      decidedAt: timestamp(nowMs),
    },
    verb: `approval.${decision}`,
    reason: `${live.spec.summary}; requested by ${live.spec.requester.user}${comment === undefined ? '' : `; ${comment}`}`,
  };
}

function refused(name: string | undefined, why: string) {
  return forbiddenObject(approvalsCollection, name, why);
}
