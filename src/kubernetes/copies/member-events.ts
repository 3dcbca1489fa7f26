// Follows all members and names the keys that a change affects. A change of one endpoint names only the
// slices that come from its slice.

import type { NativeService } from '../../api/kinds/native-service.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import type { ObjectChange } from '../../core/kube/reflector/object-cache.ts';
import type { RunningSource } from '../../core/reconcile/source.ts';
import { memberCondition, sinceAnnotation } from '../names.ts';
import type { EndpointSlice, Namespace, Node, ObjectMeta, Service } from '../objects.ts';
import { isCopy } from '../services/compile-copy.ts';
import { federatedRefOf, isRef, keyOfRef } from '../services/federated-name.ts';
import { addressesOfNode } from '../services/member-service.ts';
import { sourceID } from '../services/slice-source.ts';
import { changesPlan } from './slice-facts.ts';
import { isTrusted } from './find-tenancy.ts';
import { followUsage } from './follow-usage.ts';
import { followSources, type SliceListener } from './slice-feed.ts';
import { sourceKeysOf } from './source-keys.ts';
import { conditionKey, limitsKey, slicesKey } from './sync-keys.ts';
import type { SyncTerm } from './sync-term.ts';
import { type SyncedMember, usableOf } from './synced-member.ts';

interface Followed {
  readonly member: SyncedMember;
  /** What its keys depend on: settings, state, and whether it was read. */
  readonly seen: readonly unknown[];
  readonly isTrusted: boolean;
  readonly stop: () => void;
}

export class MemberEvents implements RunningSource {
  readonly #term: SyncTerm;
  readonly #followed = new Map<string, Followed>();
  readonly #stopMembers: () => void;

  constructor(term: SyncTerm) {
    this.#term = term;
    const { members } = term.options;
    this.#stopMembers = members.onChange((clusterID) => this.#memberChanged(clusterID));
    for (const { clusterID } of members.list()) this.#follow(clusterID);
    this.#follow(term.options.member.clusterID);
    this.resync();
  }

  resync(): void {
    const { states, slices, options } = this.#term;
    for (const [key, { done }] of states) {
      done.clear();
      this.#add(key);
    }
    for (const { member } of this.#followed.values()) this.#addServices(member);
    for (const service of options.member.services.objects()) {
      if (this.#term.rules.isOwn(service)) this.#add(this.#term.rules.keyOfService(service));
      if (this.#needsOwnCondition(service)) this.#add(conditionKey(nameOf(service.metadata)));
    }
    for (const copy of slices.copies()) this.#add(this.#term.rules.keyOfPlace(copy));
  }

  stop(): void {
    this.#stopMembers();
    for (const { stop } of this.#followed.values()) stop();
    this.#followed.clear();
    this.#term.stop();
  }

  #add(key: string): void {
    this.#term.sink.add(key);
  }

  /** Returns whether something changed that its keys depend on. */
  #follow(clusterID: string): boolean {
    const { member: target, members } = this.#term.options;
    const isTarget = clusterID === target.clusterID;
    const member = isTarget ? target : members.get(clusterID);
    const known = this.#followed.get(clusterID);
    const seen = [member?.settings, member?.state, member?.isRead];
    if (known?.member === member) {
      if (known === undefined || seen.every((part, at) => part === known.seen[at])) return false;
      this.#followed.set(clusterID, { ...known, seen, isTrusted: isTrusted(known.member) });
      this.#term.usages.get(clusterID)?.look();
      return true;
    }
    known?.stop();
    this.#followed.delete(clusterID);
    if (member === undefined) return true;
    const { usage, release } = followUsage(member, this.#term.rules);
    this.#term.usages.set(clusterID, usage);
    const stops = [
      release,
      () => void this.#term.usages.delete(clusterID),
      member.services.onChange((change) => {
        this.#serviceChanged(member, change, isTarget);
        this.#compareLimits(clusterID);
      }),
      member.nativeServices.onChange((change) => {
        this.#nativeServiceChanged(member, change);
        this.#compareLimits(clusterID);
      }),
      this.#followSlices(member, isTarget),
      member.nodes.onChange((change) => {
        this.#nodeChanged(member, change);
        this.#compareLimits(clusterID);
      }),
      ...this.#term.rules.followMembers(member, (service) => this.#memberDecided(member, service)),
      ...(isTarget
        ? [
            member.namespaces.onChange((change) => this.#namespaceChanged(change)),
            ...this.#term.rules.followTarget(member, (federated) => this.#add(federated)),
          ]
        : []),
    ];
    this.#followed.set(clusterID, {
      member,
      seen,
      isTrusted: isTrusted(member),
      stop: () => {
        for (const stop of stops) stop();
      },
    });
    return true;
  }

  /** Of its own member, it must also hear who changed what this site wrote. */
  #followSlices(member: SyncedMember, isTarget: boolean): () => void {
    const heard: SliceListener = (change) => {
      this.#sliceChanged(member, change, isTarget);
      this.#compareLimits(member.clusterID);
    };
    return isTarget ? member.slices.onChange(heard) : followSources(member, heard);
  }

  /** Costs nothing while the cluster is within its limits. */
  #compareLimits(clusterID: string): void {
    const { usages, leftOut } = this.#term;
    if (leftOut.has(clusterID) || usages.get(clusterID)?.isExceeded === true) {
      this.#add(limitsKey(clusterID));
    }
  }

  #memberChanged(clusterID: string): void {
    const before = this.#followed.get(clusterID)?.isTrusted;
    if (!this.#follow(clusterID)) return;
    this.#compareLimits(clusterID);
    const isOther = before !== this.#followed.get(clusterID)?.isTrusted;
    // What its copies say may concern any key.
    if (isOther || clusterID === this.#term.options.member.clusterID) return this.resync();
    for (const [key, { origins, done }] of this.#term.states) {
      if (!origins.has(clusterID)) continue;
      // Its address ranges may be others now.
      done.clear();
      this.#term.addFor(clusterID, key);
    }
    const member = this.#followed.get(clusterID)?.member;
    if (member !== undefined) this.#addServices(member);
  }

  #addServices(member: SyncedMember): void {
    for (const ref of this.#term.rules.refsIn(member)) {
      this.#term.addFor(member.clusterID, keyOfRef(ref));
    }
  }

  #federatedKey(service: Service | NativeService, member: SyncedMember): string | undefined {
    const ref = this.#term.rules.refOf(service, member);
    return ref && keyOfRef(ref);
  }

  /** Something else than a Service decides that it is a member, or is none. */
  #memberDecided(member: SyncedMember, service: string): void {
    const { rules, states } = this.#term;
    const slash = service.indexOf('/');
    const metadata = { namespace: service.slice(0, slash), name: service.slice(slash + 1) };
    const key = rules.keyOfMember(metadata);
    // Changes of its slices were not followed while it was no member.
    states.get(key)?.done.clear();
    this.#term.addFor(member.clusterID, key);
    this.#compareLimits(member.clusterID);
  }

  #serviceChanged(member: SyncedMember, change: ObjectChange<Service>, isTarget: boolean): void {
    const { clusterID } = member;
    if (isTarget && this.#term.services.isEcho(change)) return;
    const { key, old, new: now } = change;
    if (old !== undefined && now !== undefined && isAlike(old, now, isTarget)) return;
    const versions = [old, now].filter((version) => version !== undefined);
    const [before, after] = [old, now].map(
      (version) => version && this.#federatedKey(version, member),
    );
    for (const federated of [before, after]) {
      if (federated === undefined) continue;
      // Changes of its slices were not followed while it was no member.
      if (before !== after) this.#term.states.get(federated)?.done.clear();
      this.#term.addFor(clusterID, federated);
    }
    if (!isTarget && isTrusted(member)) this.#recordChanged(change);
    if (!isTarget) return;
    const [one] = versions;
    if (one === undefined) return;
    const { rules, states } = this.#term;
    const copyKey = rules.keyOfService(one);
    if (states.has(copyKey) || versions.some(rules.isOwn)) this.#add(copyKey);
    if (rules.name !== 'copies') return;
    if (versions.some((version) => this.#needsOwnCondition(version))) this.#add(conditionKey(key));
    // The annotation went.
    if (before !== undefined && after === undefined && now !== undefined) {
      this.#add(conditionKey(key));
    }
  }

  /** What copies of a home say about who came first counts in the target. */
  #recordChanged({ old, new: now }: ObjectChange<Service>): void {
    const { rules } = this.#term;
    const [before, after] = [old, now].map((one) => one?.metadata.annotations?.[sinceAnnotation]);
    const one = now ?? old;
    if (before !== after && one !== undefined) this.#add(rules.keyOfService(one));
  }

  #nativeServiceChanged(
    member: SyncedMember,
    { old, new: now }: ObjectChange<NativeService>,
  ): void {
    for (const version of [old, now]) {
      const key = version && this.#federatedKey(version, member);
      if (key !== undefined) this.#term.addFor(member.clusterID, key);
    }
  }

  #needsOwnCondition(service: Service): boolean {
    if (this.#term.rules.name !== 'copies') return false;
    const ref = isCopy(service)
      ? undefined
      : federatedRefOf(service.metadata, this.#term.options.namespace);
    if (ref !== undefined) return !isRef(ref);
    return (service.status?.conditions ?? []).some(({ type }) => type === memberCondition);
  }

  #sliceChanged(
    member: SyncedMember,
    change: ObjectChange<EndpointSlice>,
    isTarget: boolean,
  ): void {
    const { rules } = this.#term;
    const { old, new: now } = change;
    if (isTarget) {
      const isEcho = this.#term.slices.heard(change);
      for (const version of [old, now]) {
        // Somebody else changed a slice of a copy.
        if (version !== undefined && rules.isOwnSlice(version) && !isEcho) {
          this.#term.addSlice(rules.placeOf(version));
        }
      }
    }
    for (const { federated, slices } of sourceKeysOf(change, member, rules)) {
      this.#add(slices);
      if (isTarget && changesPlan(old, now, usableOf(member))) this.#add(federated);
    }
  }

  #nodeChanged({ clusterID }: SyncedMember, { old, new: now }: ObjectChange<Node>): void {
    const [before, after] = [old, now].map((node) => (node ? addressesOfNode(node) : []));
    if (jsonEquals(before, after)) return;
    for (const [key, { inputs }] of this.#term.states) {
      for (const { service } of inputs) {
        if (service.clusterID !== clusterID || service.exposure.by !== 'nodes') continue;
        this.#add(
          clusterID === this.#term.options.member.clusterID
            ? key
            : slicesKey(key, sourceID(service)),
        );
      }
    }
  }

  #namespaceChanged({ key: name }: ObjectChange<Namespace>): void {
    for (const [key, { plan }] of this.#term.states)
      if (plan.ref.namespace === name) this.#add(key);
  }
}

function nameOf({ namespace = '', name }: ObjectMeta): string {
  return `${namespace}/${name}`;
}

/** Whether two versions of a Service mean the same for all plans, and in the target for its condition too. */
function isAlike(old: Service, now: Service, isTarget: boolean): boolean {
  const partsOf = ({ metadata, spec, status }: Service): unknown => [
    metadata.uid,
    metadata.deletionTimestamp,
    metadata.annotations,
    metadata.labels,
    spec,
    status?.loadBalancer,
    isTarget ? status?.conditions : undefined,
  ];
  return jsonEquals(partsOf(old), partsOf(now));
}
