// Counts the federated policies of a member by what its leader told in their records. It costs a look at each record,
// and compares nothing.

import { findCondition } from '../../../core/reconcile/conditions.ts';
import type { OutcomeReason } from '../compile-policy.ts';
import type { CachedRecord } from '../policy-records.ts';
import { replicatedCondition } from '../tell-outcome.ts';

export interface PolicyCounts {
  /** It has the newest version. */
  readonly replicated: number;
  /** It cannot get the newest version until a user does something. */
  readonly conflicts: number;
  /** It has another version, or its leader has told nothing yet. */
  readonly pending: number;
}

/** Only a user can solve these. */
export const conflictReasons: ReadonlySet<string> = new Set<OutcomeReason | 'WrongScope'>([
  'UserPolicyInTheWay',
  'RejectedByServer',
  'TooLarge',
  'Stale',
  'ReceivesOnly',
  'TooMany',
  // Without a record.
  'WrongScope',
]);

/** A cluster without the namespace or the kind has nothing that the policy could hold for. */
export const absentReasons: ReadonlySet<string> = new Set<OutcomeReason>([
  'NamespaceMissing',
  'NotServed',
]);

/** Deleted policies, and those that the member cannot have, count nowhere. */
export function countPolicies(
  records: Iterable<Pick<CachedRecord, 'held' | 'status'>>,
): PolicyCounts {
  const counts = { replicated: 0, conflicts: 0, pending: 0 };
  for (const { held, status } of records) {
    if (held === undefined || held.state === 'Deleted' || held.state === 'Ended') continue;
    const told = findCondition(status?.conditions, replicatedCondition);
    if (told?.status === 'True') counts.replicated++;
    else if (conflictReasons.has(told?.reason ?? '')) counts.conflicts++;
    else if (!absentReasons.has(told?.reason ?? '')) counts.pending++;
  }
  return counts;
}
