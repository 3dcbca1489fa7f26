// The part of a member that federated policies use, and what a process knows of one policy in it. `Member` has
// all of it.

import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import type { Reflector } from '../../core/kube/reflector/reflector.ts';
import { syncRecordName } from '../../api/kinds/policy-record.ts';
import type { Member } from '../members/member.ts';
import type { Namespace } from '../objects.ts';
import { idOfKind } from './policy-kinds.ts';
import type { CachedRecord } from './policy-records.ts';
import { cacheKeyOf, keyOfPolicy, type PolicyRef, recordNameOf } from './policy-ref.ts';
import type { HeldRecord, PolicyView } from './policy-state.ts';
import type { CachedPolicy } from './read-policy.ts';
import { isForged } from './stamp.ts';

type Followed<T extends KubeObject> = Pick<
  Reflector<T>,
  'byKey' | 'objects' | 'isSynced' | 'onChange' | 'status'
>;

export interface PolicyMember extends Pick<Member, 'clusterID' | 'state' | 'isRead'> {
  readonly settings: Pick<Member['settings'], 'policies' | 'limits'>;
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace' | 'delete' | 'request'>;
  readonly namespaces: Pick<Reflector<Namespace>, 'byKey' | 'isSynced' | 'onChange'>;
  /** By `idOfKind`. */
  readonly policies: ReadonlyMap<string, Followed<CachedPolicy>>;
  readonly policyRecords: Followed<CachedRecord>;
}

export interface PolicyMembers<M extends PolicyMember = PolicyMember> {
  get(clusterID: string): M | undefined;
  list(): readonly M[];
  onChange(listener: (clusterID: string) => void): () => void;
}

/** Of wall time and of monotonic time. */
export interface Now {
  readonly nowMs: number;
  readonly monotonicMs: number;
}

/** Whether the member serves a kind. Undefined while that is not known. */
export function servesKind(
  { policies }: Pick<PolicyMember, 'policies'>,
  ref: Pick<PolicyRef, 'group' | 'plural'>,
): boolean | undefined {
  const found = policies.get(idOfKind(ref));
  if (found === undefined) return undefined;
  const { isSynced, failure } = found.status();
  if (failure?.reason === 'not-found') return false;
  return isSynced ? true : undefined;
}

/** A policy of a kind that is not served any more is still cached. */
export function policyIn(member: PolicyMember, ref: PolicyRef): CachedPolicy | undefined {
  return servesKind(member, ref) === true
    ? member.policies.get(idOfKind(ref))?.byKey(cacheKeyOf(ref))
    : undefined;
}

export function recordIn(member: PolicyMember, ref: PolicyRef): CachedRecord | undefined {
  return member.policyRecords.byKey(recordNameOf(ref));
}

/** Undefined also where it is forged. */
export function heldRecordIn(
  found: CachedRecord | undefined,
  ref: PolicyRef,
  nowMs: number,
): HeldRecord | undefined {
  if (found?.held === undefined || found.ref === undefined) return undefined;
  if (keyOfPolicy(found.ref) !== keyOfPolicy(ref)) return undefined;
  const { stamp } = found.held;
  return stamp !== undefined && isForged(stamp, nowMs) ? undefined : found.held;
}

/** Whether policies of this kind and all records are read. */
export function isRead(member: PolicyMember, ref: PolicyRef): boolean {
  return member.isRead && servesKind(member, ref) !== undefined && member.policyRecords.isSynced;
}

/** Whether the versions of the member count in others. */
export const isOrigin = ({ settings }: Pick<PolicyMember, 'settings'>): boolean =>
  settings.policies !== 'Receive';

/** A supervisor ignores what it knows of a member that it could not reach for half of the retention. */
export function isUsable(
  { state }: PolicyMember,
  { monotonicMs }: Now,
  retentionMs: number,
): boolean {
  return state.state === 'Ready' || monotonicMs - state.sinceMonotonicMs <= retentionMs / 2;
}

export function viewOf(
  member: PolicyMember,
  ref: PolicyRef,
  now: Now,
  retentionMs: number,
): PolicyView {
  const isKnown = isRead(member, ref);
  const object = policyIn(member, ref)?.held;
  return {
    clusterID: member.clusterID,
    isReady: isKnown && member.state.state === 'Ready' && isFollowed(member, ref),
    isUsable: isKnown && isUsable(member, now, retentionMs),
    isOrigin: isOrigin(member),
    syncedMs: syncedMsOf(member.policyRecords.byKey(syncRecordName)),
    object: object && { ...object, isAnswer: false },
    record: heldRecordIn(recordIn(member, ref), ref, now.nowMs),
  };
}

/**
 * Whether what is cached of policies of this kind is current. A collection that is over its limit, or that the site
 * may not read any more, keeps its last state, and policies may be missing in it.
 */
function isFollowed({ policies, policyRecords }: PolicyMember, ref: PolicyRef): boolean {
  const stale: readonly (string | undefined)[] = ['over-limit', 'forbidden'];
  const records = policyRecords.status().failure?.reason;
  // A kind that is not served is none that is not followed: the member has no policy of it.
  const policy = policies.get(idOfKind(ref))?.status().failure?.reason;
  return records !== 'not-found' && !stale.includes(records) && !stale.includes(policy);
}

export const syncedMsOf = (record: CachedRecord | undefined): number | undefined =>
  record?.metadata.name === syncRecordName ? record.spec.syncedMs : undefined;

/** All policies that have the annotation or a record in a member. */
export function* policiesIn(member: PolicyMember): Generator<PolicyRef, void> {
  for (const [id, reflector] of member.policies) {
    const dot = id.indexOf('.');
    const [plural, group] = [id.slice(0, dot), id.slice(dot + 1)];
    for (const { metadata, held } of reflector.objects()) {
      if (!held.isFederated) continue;
      const { namespace = '', name } = metadata;
      yield { group, plural, namespace, name };
    }
  }
  for (const { ref } of member.policyRecords.objects()) {
    if (ref !== undefined && member.policies.has(idOfKind(ref))) yield ref;
  }
}

/** All policies of all members, each once, by `keyOfPolicy`. */
export function knownPolicies(members: Pick<PolicyMembers, 'list'>): Map<string, PolicyRef> {
  const found = new Map<string, PolicyRef>();
  for (const member of members.list()) {
    for (const ref of policiesIn(member)) found.set(keyOfPolicy(ref), ref);
  }
  return found;
}
