// Decides what the policy and the record of one member say together: the version of the record, an edit or a
// deletion by a user that must be recorded, or what a leader left behind. Pure, total and deterministic.

import { compareVersions, isResourceVersion } from '../../core/kube/reflector/resource-version.ts';
import type { HeldObject, HeldRecord, Place, TargetView } from './policy-state.ts';
import { allowedSkewMs, compareStamps, type Stamp, stampAfter, stampOfEdit } from './stamp.ts';

/**
 * - `none`: neither a policy nor a version. `held`: as the record says.
 * - `foreign`: a policy without the annotation that never had a version here. `oversized`: one that is too large
 *   to be a version. `terminating`: one that waits for its finalizers.
 * - `record`: a user edited the policy or removed the annotation, or a leader did not come to write the record.
 * - `deleted`: the policy is gone, and its place is not, so a user deleted it. Caches can be behind: read both
 *   again before this is recorded.
 * - `lost`: the policy went with its place, or the record is about an earlier place.
 * - `left`: a leader of an old term wrote the policy after the record was written.
 * - `behind`: the record is about a newer policy than the cache has.
 */
export type OwnVersion =
  | { readonly type: Simple }
  | { readonly type: 'record'; readonly record: HeldRecord; readonly why: RecordReason }
  | { readonly type: 'deleted'; readonly record: HeldRecord };

type Simple =
  | 'none'
  | 'held'
  | 'foreign'
  | 'oversized'
  | 'terminating'
  | 'lost'
  | 'left'
  | 'behind';

/** `refreshed` and `completed` have the stamp of a version that exists already. */
export type RecordReason = 'edited' | 'ended' | 'completed' | 'refreshed';

export function ownVersion(target: TargetView, nowMs: number): OwnVersion {
  const { object, record, place } = target;
  // The cache keeps the policies of a kind that is no longer served.
  if (!place.isServed) return { type: record === undefined ? 'none' : 'lost' };
  if (object === undefined) return withoutObject(target, nowMs);
  if (isBehind(target)) return { type: 'behind' };
  if (object.isTerminating) return { type: 'terminating' };
  if (!object.isFederated) return withoutAnnotation(target, object, nowMs);
  if (record === undefined) return edited(target, object, nowMs);
  switch (record.state) {
    case 'Absent':
      return edited(target, object, nowMs);
    case 'Deleted':
      return isLeft(object, record) || isRestored(object, record)
        ? { type: 'left' }
        : edited(target, object, nowMs, record.stamp);
    default:
      return compared(target, object, record, nowMs);
  }
}

/** Where versions cannot be compared, the cache counts as current. */
function isBehind({ object, record, isFresh }: TargetView): boolean {
  const [seen, recorded] = [object?.resourceVersion, record?.objectVersion];
  return (
    !isFresh &&
    isResourceVersion(seen) &&
    isResourceVersion(recorded) &&
    compareVersions(seen, recorded) < 0
  );
}

function withoutObject(target: TargetView, nowMs: number): OwnVersion {
  const { record, place, sighting } = target;
  if (record?.state === 'Stale') return { type: 'lost' };
  if (record?.state === 'Live') {
    return isSamePlace(record, place)
      ? { type: 'deleted', record: deletion(target, record, nowMs) }
      : { type: 'lost' };
  }
  // It went before it was recorded.
  if (sighting?.type === 'deleted' && isSamePlace(sighting.place, place)) {
    const { crdUID = '', namespaceUID } = sighting.place;
    const known = { ...(record ?? emptyRecord), crdUID, namespaceUID };
    return { type: 'deleted', record: deletion(target, known, nowMs) };
  }
  return { type: record === undefined ? 'none' : 'held' };
}

/** If the leader did not see it happen, an edit in another member may be newer. */
function deletion(
  { clusterID, sighting }: TargetView,
  record: HeldRecord,
  nowMs: number,
): HeldRecord {
  const { stamp: base } = record;
  const stamp =
    sighting?.type === 'deleted' || base === undefined
      ? stampOfEdit(Math.min(sighting?.atMs ?? 0, nowMs), base, clusterID)
      : stampAfter(base, clusterID);
  return endOf('Deleted', stamp, record);
}

/** A deleted namespace or CRD deletes its policies. */
function isSamePlace(
  before: Pick<Place, 'crdUID' | 'namespaceUID'>,
  { crdUID, namespace, namespaceUID }: Place,
): boolean {
  return namespace === 'open' && namespaceUID === before.namespaceUID && crdUID === before.crdUID;
}

function withoutAnnotation(
  { record, clusterID, sighting }: TargetView,
  object: HeldObject,
  nowMs: number,
): OwnVersion {
  if (record === undefined || record.stamp === undefined) return { type: 'foreign' };
  if (record.state === 'Deleted') return { type: 'held' };
  if (record.state === 'Ended') {
    const isKnown = record.storedHash === '';
    return isKnown ? { type: 'held' } : refreshed({ ...record, storedHash: '' });
  }
  const timeMs = timeOfEdit(object, sighting, nowMs, record.stamp.timeMs);
  const stamp = stampOfEdit(timeMs, record.stamp, clusterID);
  return { type: 'record', why: 'ended', record: endOf('Ended', stamp, record) };
}

/** The record is live, stale or ended, and the policy has the annotation. */
function compared(
  target: TargetView,
  object: HeldObject,
  record: HeldRecord,
  nowMs: number,
): OwnVersion {
  const { hash } = object;
  const completed = completedRecord(target, object, record.stamp);
  if (completed !== undefined) return completed;
  if (hash !== undefined && hash === record.storedHash) {
    if (isMadeAgain(object, record)) return edited(target, object, nowMs, record.stamp);
    return isOfObject(target, object, record)
      ? { type: 'held' }
      : refreshed({ ...record, ...placeOf(target, object) });
  }
  if (isLeft(object, record)) {
    return target.sighting?.type === 'deleted' && record.state === 'Live'
      ? { type: 'deleted', record: deletion(target, record, nowMs) }
      : { type: 'left' };
  }
  if (record.state === 'Live' && object.resourceVersion === record.objectVersion) {
    // Nobody wrote it. The server has got other defaults or another schema.
    return hash === undefined
      ? { type: 'oversized' }
      : refreshed({ ...record, ...placeOf(target, object), storedHash: hash });
  }
  return edited(target, object, nowMs, record.stamp);
}

/** A user deleted the policy that had stayed, and made another one with the same content. */
function isMadeAgain({ uid, isReplica }: HeldObject, { state, objectUID }: HeldRecord): boolean {
  return state === 'Ended' && uid !== objectUID && !isReplica;
}

/** Whether the record says where the object is. A CRD of our own time is never replaced by a built-in kind. */
function isOfObject({ place }: TargetView, { uid }: HeldObject, record: HeldRecord): boolean {
  const { crdUID = '', namespaceUID } = place;
  const isOfCrd = record.crdUID === crdUID || crdUID === '';
  return record.objectUID === uid && record.namespaceUID === namespaceUID && isOfCrd;
}

/**
 * A site wrote it, and its version is older than that of the record. A leader of an old term can only create:
 * all other writes need the version that was read. In the same object, a user went back to an old content.
 */
function isLeft(object: HeldObject, record: HeldRecord): boolean {
  const { written } = object;
  return (
    written !== undefined &&
    record.stamp !== undefined &&
    isOfSite(object) &&
    compareStamps(written.stamp, record.stamp) < 0 &&
    object.uid !== record.objectUID
  );
}

/** A deleted object does not come back, unless etcd is restored. The record can be from after the restore. */
function isRestored({ uid, userMs = 0 }: HeldObject, { objectUID, stamp }: HeldRecord): boolean {
  return uid === objectUID && userMs <= (stamp?.timeMs ?? 0);
}

/**
 * Whether the content is what a site wrote. It can differ from what the site sent, because servers have their own
 * defaults. Then times decide. They have whole seconds, and in the same second a user counts.
 */
function isOfSite({ written, hash, siteMs, userMs = 0, isAnswer }: HeldObject): boolean {
  if (written === undefined) return false;
  if (isAnswer) return true;
  return siteMs !== undefined && (hash === written.versionHash || siteMs > userMs);
}

/** A leader wrote the policy, and did not come to write the record. */
function completedRecord(
  target: TargetView,
  object: HeldObject,
  base: Stamp | undefined,
): OwnVersion | undefined {
  const { written, hash } = object;
  const isNewer =
    written !== undefined && (base === undefined || compareStamps(written.stamp, base) > 0);
  if (!isNewer || hash === undefined || !isOfSite(object)) return undefined;
  const record: HeldRecord = {
    ...emptyRecord,
    ...placeOf(target, object),
    ...written,
    state: 'Live',
    storedHash: hash,
  };
  return { type: 'record', why: 'completed', record };
}

/** `base` is the stamp of the version that the user changed. */
function edited(target: TargetView, object: HeldObject, nowMs: number, base?: Stamp): OwnVersion {
  const { clusterID, sighting } = target;
  const { hash } = object;
  if (hash === undefined) return { type: 'oversized' };
  const completed = completedRecord(target, object, base);
  if (completed !== undefined) return completed;
  const timeMs = timeOfEdit(object, sighting, nowMs, base?.timeMs ?? object.createdMs);
  const record: HeldRecord = {
    ...emptyRecord,
    ...placeOf(target, object),
    state: 'Live',
    stamp: stampOfEdit(timeMs, base, clusterID),
    versionHash: hash,
    storedHash: hash,
  };
  return { type: 'record', why: 'edited', record };
}

/** The clock of the leader corrects that of the API server where the leader saw the edit happen. */
function timeOfEdit(
  { userMs, resourceVersion }: HeldObject,
  sighting: TargetView['sighting'],
  nowMs: number,
  otherwiseMs: number,
): number {
  const timeMs = userMs ?? otherwiseMs;
  const isSeen = sighting?.type === 'changed' && sighting.resourceVersion === resourceVersion;
  if (isSeen && Math.abs(timeMs - sighting.atMs) > allowedSkewMs) return sighting.atMs;
  return Math.min(timeMs, nowMs + allowedSkewMs);
}

const refreshed = (record: HeldRecord): OwnVersion => ({
  type: 'record',
  why: 'refreshed',
  record,
});

export const emptyRecord: HeldRecord = {
  state: 'Absent',
  stamp: undefined,
  versionHash: '',
  storedHash: '',
  objectUID: '',
  objectVersion: '',
  namespaceUID: '',
  crdUID: '',
  settledMs: undefined,
};

/** The fields of a record that say which object it was made from. */
export function placeOf({ place }: TargetView, { uid, resourceVersion }: HeldObject) {
  return {
    objectUID: uid,
    objectVersion: resourceVersion,
    namespaceUID: place.namespaceUID,
    crdUID: place.crdUID ?? '',
  };
}

/** A record of the end of a policy keeps what is known of the object. */
export function endOf(state: 'Deleted' | 'Ended', stamp: Stamp, known: HeldRecord): HeldRecord {
  return { ...known, state, stamp, versionHash: '', storedHash: '', settledMs: undefined };
}
