// Tells users in the status of a record what became of the policy in this member.

import type { ReconcileContext } from '../../core/reconcile/controller.ts';
import { findCondition, setCondition } from '../../core/reconcile/conditions.ts';
import { bounded } from '../copies/sync-conditions.ts';
import { asConflict } from '../copies/sync-term.ts';
import { writerOf, type Written } from '../fencing/fenced-writer.ts';
import type { Condition } from '../objects.ts';
import type { PolicyOutcome } from './compile-policy.ts';
import { policyKey } from './policy-keys.ts';
import { pathOfRecord, readRecord, sentRecord } from './policy-records.ts';
import { type PolicyRef, recordNameOf } from './policy-ref.ts';
import type { PolicyTerm } from './policy-term.ts';
import type { Selection } from './view/selected-services.ts';

/** The conditions of records. The second one warns users, and is only in clusters that hold a version. */
export const replicatedCondition = 'Replicated';
export const selectsCondition = 'SelectsFederatedService';

/** Between two writes for one record, so that a flapping policy does not become a flood of writes. */
const pauseMs = 1000;

/** Returns after how long it must be called again, if at all. */
export async function tellOutcome(
  term: PolicyTerm,
  ref: PolicyRef,
  outcome: PolicyOutcome,
  context: ReconcileContext,
): Promise<number | undefined> {
  const name = recordNameOf(ref);
  const live = term.records.live(name);
  if (live === undefined) return undefined;
  const { nowMs, monotonicMs } = term.now;
  const known = live.status?.conditions;
  const update = {
    type: replicatedCondition,
    status: outcome.status,
    reason: outcome.reason,
    message: bounded(explainOutcome(ref, outcome)),
  };
  const told = setCondition(known, update, nowMs);
  const conditions = withSelection(told, selectionOf(term, ref, outcome), nowMs);
  if (conditions === known) return undefined;
  const readyMs = (term.toldMs.get(name) ?? monotonicMs - pauseMs) + pauseMs;
  const leftMs = readyMs - monotonicMs;
  const waitMs = told === known ? Math.max(leftMs, term.selection.pauseOf(name)) : leftMs;
  if (waitMs > 0) return waitMs;
  context.signal.throwIfAborted();
  term.toldMs.set(name, monotonicMs);
  if (conditions !== told) term.selection.told(name);
  const object: Written = { ...sentRecord(live), status: { conditions } } as Written;
  try {
    const writer = writerOf(term.options.member.client, context);
    const answer = await writer.replaceStatus(pathOfRecord(name), object);
    term.records.wrote(name, readRecord(answer), live);
    return undefined;
  } catch (error) {
    term.records.forget(name);
    throw asConflict(error);
  }
}

/** Undefined: what is known stays. None: the target holds no version. */
function selectionOf(
  term: PolicyTerm,
  ref: PolicyRef,
  { reason }: PolicyOutcome,
): Selection | 'none' | undefined {
  if (reason !== 'Replicated' && reason !== 'StoredDifferently') return 'none';
  return term.selection.of(ref, term.policies.live(policyKey(ref))?.content);
}

/** Returns the same array if nothing changes. */
function withSelection(
  conditions: readonly Condition[],
  selection: Selection | 'none' | undefined,
  nowMs: number,
): readonly Condition[] {
  if (selection === undefined) return conditions;
  if (selection !== 'none') {
    return setCondition(conditions, { type: selectsCondition, ...selection }, nowMs);
  }
  return findCondition(conditions, selectsCondition) === undefined
    ? conditions
    : conditions.filter(({ type }) => type !== selectsCondition);
}

/** What happened, and what a user can do. */
export function explainOutcome(
  { namespace, name }: PolicyRef,
  { reason, detail = '' }: PolicyOutcome,
): string {
  const policy = namespace === '' ? name : `${namespace}/${name}`;
  switch (reason) {
    case 'Replicated':
      return `This cluster has the newest version of ${policy}.`;
    case 'StoredDifferently':
      return `This cluster has the newest version of ${policy}, but its API server stores it in another way: it has other defaults, or an older schema without some of the fields. Other clusters do not copy it from here.`;
    case 'NamespaceMissing':
      return `This cluster has no namespace ${namespace}. It gets the policy when the namespace is created.`;
    case 'NotServed':
      return 'This cluster does not serve the kind of the policy. It gets the policy when the CRD is installed.';
    case 'UserPolicyInTheWay':
      return `This cluster has a policy ${policy} without the annotation, which is not changed. Add the annotation to federate it, or delete or rename it to get the federated policy.`;
    case 'RejectedByServer':
      return `The API server of this cluster rejects the newest version: ${detail}`;
    case 'TooLarge':
      return 'The policy of this cluster has more than 512 KiB, so it is not federated. Make it smaller.';
    case 'Terminating':
      return 'The policy is being deleted and waits for its finalizers.';
    case 'NoSource':
      return 'No cluster that can be read has the content of the newest version. This cluster gets it when one of them can be read.';
    case 'Stale':
      return 'This cluster was away for longer than deletions are remembered, and no other cluster knows the policy, so it is not federated. Edit it to federate it again, or delete it.';
    case 'ReceivesOnly':
      return 'Federation says that this cluster only receives policies, and no other cluster has this one, so it is not federated. Create it in another cluster, or remove the annotation.';
    case 'TooMany':
      return detail;
    case 'Deleted':
      return 'A user deleted the policy. The record goes when all clusters have known it for long enough.';
    case 'FederationEnded':
      return 'A user removed the annotation, so the policy is no longer federated. Policies of users stay where they are.';
  }
}
