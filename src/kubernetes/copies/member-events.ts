// Follows all members and names the keys that a change affects. A change of one endpoint names only the
// slices that come from its slice.

import type { NativeService } from '../../api/kinds/native-service.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import type { ObjectChange } from '../../core/kube/reflector/object-cache.ts';
import type { RunningSource } from '../../core/reconcile/source.ts';
import { memberCondition, serviceNameLabel } from '../names.ts';
import type { EndpointSlice, Namespace, Node, ObjectMeta, Service } from '../objects.ts';
import { isCopy } from '../services/compile-copy.ts';
import { federatedRefOf, isRef, keyOfRef } from '../services/federated-name.ts';
import { addressesOfNode } from '../services/member-service.ts';
import { isOwnSlice, isSource, sourceID } from '../services/slice-source.ts';
import { placeOf } from './live-slices.ts';
import { changesPlan } from './slice-facts.ts';
import { followUsage } from './follow-usage.ts';
import { conditionKey, limitsKey, slicesKey } from './sync-keys.ts';
import type { SyncTerm } from './sync-term.ts';
import { type SyncedMember, usableOf } from './synced-member.ts';

interface Followed {
  readonly member: SyncedMember;
  /** What its keys depend on: settings, state, and whether it was read. */
  readonly seen: readonly unknown[];
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
      if (isCopy(service)) this.#add(this.#copyKey(service.metadata));
      if (this.#needsOwnCondition(service)) this.#add(conditionKey(nameOf(service.metadata)));
    }
    for (const copy of slices.copies()) this.#add(this.#term.keyOfCopy(copy));
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
      this.#followed.set(clusterID, { ...known, seen });
      this.#term.usages.get(clusterID)?.look();
      return true;
    }
    known?.stop();
    this.#followed.delete(clusterID);
    if (member === undefined) return true;
    const { usage, release } = followUsage(member, this.#term.options.namespace);
    this.#term.usages.set(clusterID, usage);
    const stops = [
      release,
      () => void this.#term.usages.delete(clusterID),
      member.services.onChange((change) => {
        this.#serviceChanged(clusterID, change, isTarget);
        this.#compareLimits(clusterID);
      }),
      member.nativeServices.onChange((change) => {
        this.#nativeServiceChanged(clusterID, change);
        this.#compareLimits(clusterID);
      }),
      member.slices.onChange((change) => {
        this.#sliceChanged(member, change, isTarget);
        this.#compareLimits(clusterID);
      }),
      member.nodes.onChange((change) => {
        this.#nodeChanged(member, change);
        this.#compareLimits(clusterID);
      }),
      ...(isTarget ? [member.namespaces.onChange((change) => this.#namespaceChanged(change))] : []),
    ];
    this.#followed.set(clusterID, {
      member,
      seen,
      stop: () => {
        for (const stop of stops) stop();
      },
    });
    return true;
  }

  /** Costs nothing while the cluster is within its limits. */
  #compareLimits(clusterID: string): void {
    const { usages, leftOut } = this.#term;
    if (usages.get(clusterID)?.isExceeded === true || leftOut.has(clusterID)) {
      this.#add(limitsKey(clusterID));
    }
  }

  #memberChanged(clusterID: string): void {
    if (!this.#follow(clusterID)) return;
    this.#compareLimits(clusterID);
    if (clusterID === this.#term.options.member.clusterID) return this.resync();
    for (const [key, { origins, done }] of this.#term.states) {
      if (!origins.has(clusterID)) continue;
      // Its address ranges may be others now.
      done.clear();
      this.#term.addFor(clusterID, key);
    }
    const member = this.#followed.get(clusterID)?.member;
    if (member !== undefined) this.#addServices(member);
  }

  #addServices({ clusterID, services, nativeServices }: SyncedMember): void {
    for (const service of services.objects()) this.#addFederated(clusterID, service);
    for (const service of nativeServices.objects()) this.#addFederated(clusterID, service);
  }

  #addFederated(clusterID: string, service: Service | NativeService): void {
    const key = this.#federatedKey(service);
    if (key !== undefined) this.#term.addFor(clusterID, key);
  }

  #federatedKey({ metadata }: Pick<Service, 'metadata'> | NativeService): string | undefined {
    const meta = metadata as ObjectMeta;
    if (isCopy({ metadata: meta })) return undefined;
    const ref = federatedRefOf(meta, this.#term.options.namespace);
    return isRef(ref) ? keyOfRef(ref) : undefined;
  }

  #copyKey(metadata: ObjectMeta): string {
    return this.#term.keyOfCopy(nameOf(metadata));
  }

  #serviceChanged(clusterID: string, change: ObjectChange<Service>, isTarget: boolean): void {
    if (isTarget && this.#term.services.isEcho(change)) return;
    const { key, old, new: now } = change;
    if (old !== undefined && now !== undefined && isAlike(old, now, isTarget)) return;
    const versions = [old, now].filter((version) => version !== undefined);
    const [before, after] = [old, now].map((version) => version && this.#federatedKey(version));
    for (const federated of [before, after]) {
      if (federated === undefined) continue;
      // Changes of its slices were not followed while it was no member.
      if (before !== after) this.#term.states.get(federated)?.done.clear();
      this.#term.addFor(clusterID, federated);
    }
    if (!isTarget) return;
    const [one] = versions;
    if (one === undefined) return;
    const copyKey = this.#copyKey(one.metadata);
    if (this.#term.states.has(copyKey) || versions.some(isCopy)) this.#add(copyKey);
    if (versions.some((version) => this.#needsOwnCondition(version))) this.#add(conditionKey(key));
    // The annotation went.
    if (before !== undefined && after === undefined && now !== undefined) {
      this.#add(conditionKey(key));
    }
  }

  #nativeServiceChanged(clusterID: string, { old, new: now }: ObjectChange<NativeService>): void {
    for (const version of [old, now]) {
      if (version !== undefined) this.#addFederated(clusterID, version);
    }
  }

  #needsOwnCondition(service: Service): boolean {
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
    const { old, new: now } = change;
    const isEcho = isTarget && this.#term.slices.heard(change);
    for (const version of [old, now]) {
      if (version === undefined) continue;
      if (isTarget && isOwnSlice(version)) {
        // Somebody else changed a slice of a copy.
        if (!isEcho) this.#term.addSlice(placeOf(version));
      } else if (isSource(version)) {
        this.#addSource(member, version, isTarget && changesPlan(old, now, usableOf(member)));
      }
    }
  }

  #addSource(member: SyncedMember, slice: EndpointSlice, isPlanChanged: boolean): void {
    const { namespace = '', labels, name: sliceName } = slice.metadata;
    const name = labels?.[serviceNameLabel] ?? '';
    const service = member.services.byKey(`${namespace}/${name}`);
    const federated = service && this.#federatedKey(service);
    if (federated === undefined) return;
    const { clusterID } = member;
    const source = sourceID({ clusterID, kind: 'Service', namespace, name }, sliceName);
    this.#add(slicesKey(federated, source));
    if (isPlanChanged) this.#add(federated);
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
