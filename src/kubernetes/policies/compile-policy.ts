// Decides the next step for one federated policy in one member, the target: which write brings it nearer to the
// newest version. Each step can be the last one before a crash, and the next leader goes on from what is stored.
// Pure, total and deterministic.

import {
  type ChoiceOptions,
  chooseVersion,
  compareVersionsOf,
  isDoubtful,
  isSameVersion,
  versionOf,
} from './choose-version.ts';
import type { SpreadLimit } from './limits/policy-limits.ts';
import type { HeldObject, HeldRecord, PolicyView, TargetView, Version } from './policy-state.ts';
import {
  emptyRecord,
  endOf,
  type OwnVersion,
  ownVersion,
  placeOf,
  type RecordReason,
} from './policy-version.ts';
import { compareStamps, stampAfter } from './stamp.ts';

/** What users are told in the condition of the record. */
export interface PolicyOutcome {
  readonly status: 'True' | 'False';
  readonly reason: OutcomeReason;
  /** Of the API server, or which limit is exceeded. */
  readonly detail?: string;
}

export type OutcomeReason =
  | 'Replicated'
  | 'StoredDifferently'
  | 'NamespaceMissing'
  | 'NotServed'
  | 'UserPolicyInTheWay'
  | 'RejectedByServer'
  | 'TooLarge'
  | 'Terminating'
  | 'NoSource'
  | 'Stale'
  | 'ReceivesOnly'
  | 'TooMany'
  | 'Deleted'
  | 'FederationEnded';

/**
 * - `read`: read object and place from the API server, because the cache may be behind, and decide again.
 * - `create`, `replace`: write the content of `version`, which the member `source` has.
 * - `remove`: delete the object. `record`: write the record. `forget`: delete the record.
 * - `rest`: nothing to do. `outcome` is undefined where there is no record to tell it.
 */
export type Step =
  | { readonly do: 'read' | 'remove' | 'forget' }
  | {
      readonly do: 'create' | 'replace';
      readonly version: Version;
      readonly source: string;
    }
  | { readonly do: 'record'; readonly record: HeldRecord }
  | { readonly do: 'rest'; readonly outcome: PolicyOutcome | undefined };

export interface CompileInput extends ChoiceOptions {
  readonly target: TargetView;
  /** All other members that are listed. */
  readonly others: readonly PolicyView[];
  /** Why the target does not get a version that it does not have. It never deletes anything. */
  readonly limit?: SpreadLimit | undefined;
}

interface Plan extends CompileInput {
  readonly own: OwnVersion;
  readonly all: readonly PolicyView[];
}

export function compilePolicy(input: CompileInput): Step {
  const step = decide(input);
  return step.do === 'record' && mustBeRead(input.target, step.record) ? { do: 'read' } : step;
}

/**
 * After a restore of etcd, the cache of policies can be behind that of records. A record of a policy that is not there
 * any more would make the restore count as an edit or a deletion of a user. The same holds for a namespace that was
 * deleted and created again: with the UID of the new one, the absence of the policy would be a deletion by a user.
 */
function mustBeRead({ isFresh, isWritten, record }: TargetView, next: HeldRecord): boolean {
  if (isFresh || isWritten || next.state === 'Absent') return false;
  const isSame =
    record !== undefined &&
    isSameVersion(versionOf(record), versionOf(next)) &&
    record.state === next.state &&
    record.objectUID === next.objectUID &&
    record.namespaceUID === next.namespaceUID &&
    record.crdUID === next.crdUID &&
    record.storedHash === next.storedHash;
  return !isSame;
}

function decide(input: CompileInput): Step {
  const { target, others, nowMs } = input;
  const own = ownVersion(target, nowMs);
  const plan: Plan = { ...input, own, all: [target, ...others] };
  const theirs = chooseVersion(others, input);
  switch (own.type) {
    case 'behind':
      return { do: 'read' };
    case 'terminating':
      return rest('False', 'Terminating');
    case 'record':
      if (isOfGuest(target, own.why)) break;
      // One that is older than the newest version is not worth a write.
      if (!isBeaten(own.record, theirs)) return { do: 'record', record: own.record };
      break;
    case 'deleted':
      if (!target.isOrigin) break;
      if (!isLiveAnywhere(target, theirs) || isExplained(target, theirs)) break;
      if (!isBeaten(own.record, theirs)) return { do: 'record', record: own.record };
      break;
    default:
  }
  const version = chooseVersion(plan.all, input);
  if (version === undefined) return withoutVersion(plan);
  return version.state === 'Live' ? live(plan, version) : ended(plan, version);
}

/** Whether a user changed the policy of a member that only receives policies. */
const isOfGuest = ({ isOrigin }: TargetView, why: RecordReason): boolean =>
  !isOrigin && (why === 'edited' || why === 'ended');

/** Otherwise there is nothing to delete. */
function isLiveAnywhere({ record }: TargetView, theirs: Version | undefined): boolean {
  const own = versionOf(record);
  if (own?.state === 'Live') return true;
  return theirs?.state === 'Live' && (own === undefined || compareVersionsOf(theirs, own) > 0);
}

/**
 * The newest version is an end, so a leader may have removed the policy. Without a sighting, the stamp of a deletion by
 * a user could be equal to that of the end.
 */
function isExplained({ record, sighting }: TargetView, theirs: Version | undefined): boolean {
  const own = versionOf(record);
  const isEnd = theirs !== undefined && theirs.state !== 'Live';
  return (
    isEnd && sighting?.type !== 'deleted' && own !== undefined && compareVersionsOf(theirs, own) > 0
  );
}

/** Whether another member has a newer version than the one to be recorded. */
function isBeaten(record: HeldRecord, theirs: Version | undefined): boolean {
  const version = versionOf(record);
  return version !== undefined && theirs !== undefined && compareVersionsOf(theirs, version) > 0;
}

const rest = (status: PolicyOutcome['status'], reason: OutcomeReason, detail?: string): Step => ({
  do: 'rest',
  outcome: detail === undefined ? { status, reason } : { status, reason, detail },
});

const nothing: Step = { do: 'rest', outcome: undefined };

/** No member has a version that counts. The target may have one that does not. */
function withoutVersion({ target, others, all, own, ...options }: Plan): Step {
  const { record, object } = target;
  if (own.type === 'oversized') return inTheWay(target, 'TooLarge');
  if (!target.isOrigin) return withoutOrigin(target, others);
  if (record === undefined) return nothing;
  if (record.state === 'Absent' || own.type === 'lost') return { do: 'forget' };
  // As long as another member may still have it, nothing is decided.
  const isDecided = others.every(({ isReady }) => isReady);
  if (record.state === 'Stale') {
    return isDecided && object?.isReplica === true ? { do: 'remove' } : rest('False', 'Stale');
  }
  const version = versionOf(record);
  if (version === undefined || !isDoubtful(target, version, all, options)) return nothing;
  return isDecided
    ? { do: 'record', record: { ...record, state: 'Stale' } }
    : rest('False', 'Stale');
}

/** No member whose versions count has one, and this one only receives policies. Nothing that it has is deleted. */
function withoutOrigin(target: TargetView, others: readonly PolicyView[]): Step {
  const { record, object, place } = target;
  // As long as another member may still have it, nothing is decided.
  if (versionOf(record) !== undefined && !others.every(({ isReady }) => isReady)) return nothing;
  if (object?.isFederated === true && place.isServed) return inTheWay(target, 'ReceivesOnly');
  return record === undefined ? nothing : { do: 'forget' };
}

function live(plan: Plan, version: Version): Step {
  const { target, own, limit } = plan;
  const { object, record, place, refusal } = target;
  const isCurrent = isSameVersion(versionOf(record), version);
  const source = sourceOf(plan.others, version);
  // It went with the last namespace or CRD that had it.
  if (own.type === 'lost' && source === undefined && plan.others.every(({ isReady }) => isReady)) {
    return { do: 'forget' };
  }
  if (!place.isServed) return told(target, 'NotServed');
  if (place.namespace !== 'open') return told(target, 'NamespaceMissing');
  if (object?.isFederated === false) return inTheWay(target, 'UserPolicyInTheWay');
  if (own.type === 'oversized') return inTheWay(target, 'TooLarge');
  if (isCurrent && own.type === 'held' && object !== undefined) {
    if (limit?.owners.includes(target.clusterID) === true) {
      return rest('False', 'TooMany', limit.message);
    }
    if (record?.storedHash === record?.versionHash) return rest('True', 'Replicated');
    return onlyContent(plan, version) ?? rest('True', 'StoredDifferently');
  }
  if (object?.isFederated === true && object.hash === version.versionHash) {
    return { do: 'record', record: recordOf(target, version, object) };
  }
  if (refusal !== undefined && compareStamps(refusal.stamp, version.stamp) === 0) {
    return record === undefined
      ? { do: 'record', record: emptyRecord }
      : rest('False', 'RejectedByServer', refusal.message);
  }
  if (source === undefined) return withoutSource(plan, version);
  if (limit !== undefined && (object === undefined || !limit.isForNew)) {
    return told(target, 'TooMany', limit.message);
  }
  return { do: object === undefined ? 'create' : 'replace', version, source };
}

/** The newest version is known, and no member that can be read has its content. */
function withoutSource(plan: Plan, version: Version): Step {
  const isLeft = plan.own.type === 'left';
  return (isLeft ? onlyContent(plan, version) : undefined) ?? told(plan.target, 'NoSource');
}

/**
 * If no member has the content of the newest version any more, what the target has takes its place: the schema of
 * a server changed, or an old leader left it. Members whose policy and record do not agree yet may still have it.
 */
function onlyContent({ target, others }: Plan, version: Version): Step | undefined {
  const { object, clusterID } = target;
  if (!target.isOrigin) return undefined;
  const isGone = others.every(
    (other) =>
      other.isReady &&
      (!isSameVersion(versionOf(other.record), version) ||
        (other.object?.hash !== version.versionHash &&
          other.object?.hash === other.record?.storedHash)),
  );
  if (!isGone || object?.hash === undefined) return undefined;
  const stamp = stampAfter(version.stamp, clusterID);
  const next = { ...version, stamp, versionHash: object.hash };
  return { do: 'record', record: recordOf(target, next, object) };
}

/** A version can be copied from a member that stores it as it was written. */
function sourceOf(others: readonly PolicyView[], version: Version): string | undefined {
  const found = others.filter(
    ({ isUsable, object, record }) =>
      isUsable &&
      object?.isFederated === true &&
      object.hash === version.versionHash &&
      isSameVersion(versionOf(record), version),
  );
  const { clusterID } = version.stamp;
  const best = found.find((each) => each.clusterID === clusterID) ?? found[0];
  return best?.clusterID;
}

function recordOf(target: TargetView, version: Version, object: HeldObject): HeldRecord {
  const { hash = '' } = object;
  return { ...emptyRecord, ...version, ...placeOf(target, object), storedHash: hash };
}

/** Only where there is a record to tell it. */
function told({ record }: TargetView, reason: OutcomeReason, detail?: string): Step {
  return record === undefined ? nothing : rest('False', reason, detail);
}

/** The member gives up its version. Users find out why by a record without one. */
function inTheWay(
  { record }: TargetView,
  reason: 'UserPolicyInTheWay' | 'TooLarge' | 'ReceivesOnly',
): Step {
  return record?.state === 'Absent' ? rest('False', reason) : { do: 'record', record: emptyRecord };
}

/** The newest version is that a user deleted the policy, or removed the annotation. */
function ended(plan: Plan, version: Version): Step {
  const { target, own } = plan;
  const { object, record, place } = target;
  const isOurs =
    object?.isFederated === true &&
    place.isServed &&
    own.type !== 'oversized' &&
    !isKept(plan, version);
  // A user made it after the end. In other members it would be a new version.
  const isNew =
    own.type === 'record' && isOfGuest(target, own.why) && !isBeaten(own.record, version);
  if (isOurs && isNew && !object.isReplica) return inTheWay(target, 'ReceivesOnly');
  if (isOurs && (version.state === 'Deleted' || object.isReplica)) {
    return place.namespace === 'open' ? { do: 'remove' } : nothing;
  }
  const isKnown = isSameVersion(versionOf(record), version);
  if (isKnown) return settled(plan, version);
  if (record === undefined && object?.isFederated !== true) return nothing;
  const state = version.state as 'Deleted' | 'Ended';
  const known = object === undefined || !place.isServed ? record : undefined;
  const base = known ?? { ...emptyRecord, ...(object && placeOf(target, object)) };
  const storedHash = (object?.isFederated === true && place.isServed && object.hash) || '';
  return { do: 'record', record: { ...endOf(state, version.stamp, base), storedHash } };
}

/**
 * Whether it stayed when the federation ended. Only a policy of a user does: where the record is about one, a leader
 * that did not see that record yet may have created a replica with the same content in its place.
 */
const isKept = ({ target, own }: Plan, version: Version): boolean =>
  own.type === 'held' &&
  target.object?.isReplica !== true &&
  isSameVersion(versionOf(target.record), version);

/** The target knows of the end. Its record goes when all members have known of it for long enough. */
function settled({ target, others, nowMs, retentionMs }: Plan, version: Version): Step {
  const record = target.record as HeldRecord;
  const { settledMs } = record;
  const reason = version.state === 'Deleted' ? 'Deleted' : 'FederationEnded';
  const isUnaware = (view: PolicyView): boolean => view.isReady && !knowsOf(view, version);
  if (others.some(isUnaware)) {
    return settledMs === undefined
      ? rest('True', reason)
      : { do: 'record', record: { ...record, settledMs: undefined } };
  }
  if (!others.every(({ isReady }) => isReady)) return rest('True', reason);
  // A time in the future comes from a clock that was wrong.
  if (settledMs === undefined || settledMs > nowMs + retentionMs) {
    return { do: 'record', record: { ...record, settledMs: nowMs } };
  }
  const isOver = nowMs - settledMs >= retentionMs;
  // Without the record, a policy that still has the annotation would be new.
  return isOver && target.object?.isFederated !== true ? { do: 'forget' } : rest('True', reason);
}

/** Whether a member has the end of a policy, or has neither policy nor record. */
function knowsOf({ record, object, isOrigin }: PolicyView, version: Version): boolean {
  // What such a member has of its own does not spread.
  if (!isOrigin && record?.state === 'Absent') return true;
  if (record === undefined || record.state === 'Absent') return object?.isFederated !== true;
  const theirs = versionOf(record);
  return theirs !== undefined && theirs.state !== 'Live' && isSameVersion(theirs, version);
}
