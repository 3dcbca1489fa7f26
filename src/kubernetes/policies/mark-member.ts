// Marks the target as in sync, every hour. After a restore of etcd the mark is old too, which tells that the member
// may have missed deletions that are forgotten.

import { syncRecordName } from '../../api/kinds/policy-record.ts';
import type { ReconcileContext, ReconcileResult } from '../../core/reconcile/controller.ts';
import { asConflict } from '../copies/sync-term.ts';
import { writerOf, type Written } from '../fencing/fenced-writer.ts';
import { isDoubtful, markEveryMs, versionOf } from './choose-version.ts';
import { isUsable, knownPolicies, policiesIn, syncedMsOf } from './policy-member.ts';
import { pathOfRecord, readRecord, recordsPath, sentRecord, syncRecord } from './policy-records.ts';
import type { PolicyTerm } from './policy-term.ts';
import { nextStep } from './sync-policy.ts';

/** Until then, the policies of the member may be in sync. */
const retryMs = 60_000;

export async function markMember(
  term: PolicyTerm,
  context: ReconcileContext,
): Promise<ReconcileResult | undefined> {
  const { member, settings } = term.options;
  if (!member.isRead || !member.policyRecords.isSynced) return undefined;
  const live = term.records.live(syncRecordName);
  const { nowMs } = term.now;
  const everyMs = markEveryMs(settings.retentionMs);
  const ageMs = nowMs - (syncedMsOf(live) ?? Number.NEGATIVE_INFINITY);
  // One from the future comes from a clock that was wrong.
  if (ageMs >= 0 && ageMs < everyMs) return { requeueAfterMs: everyMs - ageMs };
  if (!(await isInSync(term))) return { requeueAfterMs: retryMs };
  const writer = writerOf(member.client, context);
  const object = sentRecord(syncRecord(nowMs));
  try {
    const answer =
      live === undefined
        ? await writer.create<Written>(recordsPath, object)
        : await writer.replace<Written>(pathOfRecord(syncRecordName), object, sentRecord(live));
    term.records.wrote(syncRecordName, readRecord(answer), live);
  } catch (error) {
    term.records.forget(syncRecordName);
    throw asConflict(error);
  }
  return { requeueAfterMs: everyMs };
}

/**
 * All policies are as the compiler wants them, and none is doubtful. Only the marks of other members show that this
 * one was away, so one of them must have been read.
 */
async function isInSync(term: PolicyTerm): Promise<boolean> {
  const { member, members, settings } = term.options;
  const { retentionMs } = settings;
  const others = members.list().filter(({ clusterID }) => clusterID !== member.clusterID);
  const isComparable = others.some(
    (other) =>
      other.isRead && other.policyRecords.isSynced && isUsable(other, term.now, retentionMs),
  );
  if (others.length > 0 && !isComparable) return false;
  for (const kind of settings.kinds) await term.definitions.recent(kind);
  const refs = knownPolicies(members);
  for (const ref of policiesIn(member)) {
    const kind = term.kindOf(ref);
    if (kind === undefined) continue;
    const target = term.target(ref, kind);
    const version = versionOf(target.record);
    const all = [target, ...term.others(ref)];
    const options = { nowMs: term.now.nowMs, retentionMs };
    if (version !== undefined && isDoubtful(target, version, all, options)) return false;
  }
  for (const ref of refs.values()) {
    const kind = term.kindOf(ref);
    if (kind !== undefined && nextStep(term, ref, kind).do !== 'rest') return false;
  }
  return true;
}
