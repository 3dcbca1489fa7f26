// Follows the policies and records of all members, and the namespaces of the target, and names the policies that a
// change affects. It also notes what the leader saw happen in the target.

import type { ObjectChange } from '../../core/kube/reflector/object-cache.ts';
import type { RunningSource } from '../../core/reconcile/source.ts';
import type { Namespace } from '../objects.ts';
import { markKey, policyKey } from './policy-keys.ts';
import type { PolicyKind } from './policy-kinds.ts';
import { knownPolicies } from './policy-member.ts';
import type { CachedRecord } from './policy-records.ts';
import { refOf } from './policy-ref.ts';
import { isGroup, type SelectingMember } from './policy-selection.ts';
import type { PolicyTerm } from './policy-term.ts';
import type { CachedPolicy } from './read-policy.ts';

interface FollowedMember {
  readonly member: SelectingMember;
  readonly stops: readonly (() => void)[];
}

export class PolicyEvents implements RunningSource {
  readonly #term: PolicyTerm;
  readonly #stops: readonly (() => void)[];
  readonly #followed = new Map<string, FollowedMember>();

  constructor(term: PolicyTerm) {
    this.#term = term;
    const { member, members, settings } = term.options;
    this.#stops = [
      term.limits.follow((key) => term.sink.add(key)),
      members.onChange((clusterID) => this.#memberChanged(clusterID)),
      member.namespaces.onChange((change) => this.#namespaceChanged(change)),
      member.policyRecords.onChange((change) => this.#ownRecordChanged(change)),
      ...term.selection.follow(member),
      ...settings.kinds.flatMap((kind) => {
        const found = member.policies.get(idOf(kind));
        return found === undefined
          ? []
          : [found.onChange((change, isSeen) => this.#ownPolicyChanged(kind, change, isSeen))];
      }),
    ];
    for (const other of members.list()) this.#follow(other.clusterID);
    for (const [key, ref] of knownPolicies({ list: () => [member] })) {
      const kind = term.kindOf(ref);
      if (kind !== undefined) this.#notePlace(key, kind, ref.namespace);
    }
    this.resync();
  }

  resync(): void {
    const { options, sink } = this.#term;
    for (const key of knownPolicies(options.members).keys()) sink.add(key);
    // A member that is no longer listed, or not listed yet, still has its own.
    for (const key of knownPolicies({ list: () => [options.member] }).keys()) sink.add(key);
    sink.add(markKey);
  }

  stop(): void {
    for (const stop of this.#stops) stop();
    for (const { stops } of this.#followed.values()) for (const stop of stops) stop();
    this.#term.stop();
  }

  /** Whether a member can be read decides about all policies. */
  #memberChanged(clusterID: string): void {
    this.#follow(clusterID);
    this.#term.selection.outdate();
    if (clusterID === this.#term.options.member.clusterID) this.#term.definitions.forget();
    this.resync();
  }

  #follow(clusterID: string): void {
    const { member: target, members, settings } = this.#term.options;
    const member = clusterID === target.clusterID ? undefined : members.get(clusterID);
    const known = this.#followed.get(clusterID);
    if (known?.member === member) return;
    for (const stop of known?.stops ?? []) stop();
    this.#followed.delete(clusterID);
    if (member === undefined) return;
    this.#followed.set(clusterID, {
      member,
      stops: [
        member.policyRecords.onChange((change) => this.#recordChanged(change)),
        ...this.#term.selection.follow(member),
        ...settings.kinds.flatMap((kind) => {
          const found = member.policies.get(idOf(kind));
          return found === undefined
            ? []
            : [found.onChange((change) => this.#policyChanged(kind, change))];
        }),
      ],
    });
  }

  #recordChanged({ old, new: now }: ObjectChange<CachedRecord>): void {
    for (const record of [old, now]) {
      if (record?.ref !== undefined) this.#term.sink.add(policyKey(record.ref));
    }
  }

  #policyChanged(kind: PolicyKind, { old, new: now }: ObjectChange<CachedPolicy>): void {
    const isUsed = old?.held.isFederated === true || now?.held.isFederated === true;
    const one = now ?? old;
    if (isUsed && one !== undefined) this.#term.sink.add(policyKey(refOf(kind, one.metadata)));
    if (isUsed && isGroup(kind)) this.#term.selection.outdate();
  }

  #ownRecordChanged(change: ObjectChange<CachedRecord>): void {
    const isEcho = this.#term.records.isEcho({ ...change, key: change.key });
    if (!isEcho) this.#recordChanged(change);
  }

  #ownPolicyChanged(kind: PolicyKind, change: ObjectChange<CachedPolicy>, isSeen: boolean): void {
    const { old, new: now } = change;
    const one = now ?? old;
    if (one === undefined) return;
    const ref = refOf(kind, one.metadata);
    const key = policyKey(ref);
    const isEcho = this.#term.policies.isEcho({ ...change, key });
    if (old === undefined) this.#notePlace(key, kind, ref.namespace);
    if (isGroup(kind)) this.#term.selection.outdate();
    if (!isEcho) this.#noteSighting(key, change, isSeen);
    if (now === undefined) this.#term.places.delete(key);
    // A version that the API server refused can be edited here.
    if (!isEcho) this.#term.refusals.delete(key);
    if (!isEcho) this.#term.sink.add(key);
  }

  /** The namespace can be deleted and created again before the watch tells that the policy is gone. */
  #notePlace(key: string, kind: PolicyKind, namespace: string): void {
    const found = this.#term.placeOf({ ...kind, namespace, name: '' }, kind);
    const { crdUID, namespaceUID } = found;
    if (found.namespace === 'open') this.#term.places.set(key, { crdUID, namespaceUID });
    else this.#term.places.delete(key);
  }

  #noteSighting(key: string, { old, new: now }: ObjectChange<CachedPolicy>, isSeen: boolean): void {
    const { sightings, places, now: time } = this.#term;
    const wasFederated = old?.held.isFederated === true;
    sightings.delete(key);
    if (!isSeen) return;
    const atMs = time.nowMs;
    if (now !== undefined) {
      const { resourceVersion } = now.held;
      if (wasFederated || now.held.isFederated) {
        sightings.set(key, { type: 'changed', resourceVersion, atMs });
      }
      return;
    }
    const place = places.get(key);
    if (wasFederated && place !== undefined) sightings.set(key, { type: 'deleted', atMs, place });
  }

  #namespaceChanged({ key: namespace }: ObjectChange<Namespace>): void {
    const { options, sink, refusals } = this.#term;
    for (const [key, ref] of knownPolicies(options.members)) {
      if (ref.namespace !== namespace) continue;
      refusals.delete(key);
      sink.add(key);
    }
  }
}

const idOf = ({ group, plural }: PolicyKind): string => `${plural}.${group}`;
