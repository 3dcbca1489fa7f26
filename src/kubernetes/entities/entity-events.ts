// Follows all members and names the federated Services whose ExternalEntities a change may affect. Where the target
// does not serve them, it follows nothing but the members' states.

import type { NativeService } from '../../api/kinds/native-service.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import type { ObjectChange } from '../../core/kube/reflector/object-cache.ts';
import type { RunningSource } from '../../core/reconcile/source.ts';
import { annotatedCopies } from '../copies/annotated-copies.ts';
import { followUsage } from '../copies/follow-usage.ts';
import { followSources } from '../copies/slice-feed.ts';
import type { SyncedMember } from '../copies/synced-member.ts';
import { serviceNameLabel } from '../names.ts';
import type { EndpointSlice, Node, ObjectMeta, Service } from '../objects.ts';
import { isCopy } from '../services/compile-copy.ts';
import { federatedRefOf, isRef, keyOfCopy, keyOfRef } from '../services/federated-name.ts';
import { addressesOfNode } from '../services/member-service.ts';
import { isSource } from '../services/slice-source.ts';
import { type ExternalEntity, isOwnEntity } from './compile-external-entities.ts';
import { limitsKey } from './entity-keys.ts';
import { type EntityTerm, servesEntities } from './entity-term.ts';

interface Followed {
  readonly member: SyncedMember;
  readonly seen: readonly unknown[];
  readonly stop: () => void;
}

/** A Service or a NativeService. */
interface Watched {
  readonly metadata: ObjectMeta;
  readonly spec?: unknown;
  readonly status?: Service['status'];
}
type Change = { readonly old: Watched | undefined; readonly new: Watched | undefined };

const watched = ({ metadata, spec }: NativeService): Watched => ({ metadata, spec });

export class EntityEvents implements RunningSource {
  readonly #term: EntityTerm;
  readonly #followed = new Map<string, Followed>();
  readonly #stopMembers: () => void;

  constructor(term: EntityTerm) {
    this.#term = term;
    this.#stopMembers = term.options.members.onChange(() => this.#look());
    this.#look();
  }

  resync(): void {
    const { member, namespace } = this.#term.options;
    if (!servesEntities(member)) return;
    for (const service of member.services.objects()) {
      if (isCopy(service)) this.#term.sink.add(placeOf(service.metadata, namespace));
    }
    for (const entity of member.externalEntities.objects()) {
      if (isOwnEntity(entity)) this.#term.addOwnerOf(entity);
    }
  }

  stop(): void {
    this.#stopMembers();
    this.#unfollow();
    this.#term.stop();
  }

  #look(): void {
    const { member, members } = this.#term.options;
    if (!servesEntities(member)) return this.#unfollow();
    const all = new Map(members.list().map((each) => [each.clusterID, each]));
    const changed = [...new Set([...all.keys(), ...this.#followed.keys()])].filter((clusterID) =>
      this.#follow(clusterID, all.get(clusterID)),
    );
    if (changed.length > 0) this.resync();
  }

  #unfollow(): void {
    for (const { stop } of this.#followed.values()) stop();
    this.#followed.clear();
  }

  /** Returns whether something about the member is new. */
  #follow(clusterID: string, member: SyncedMember | undefined): boolean {
    const known = this.#followed.get(clusterID);
    const seen = [member?.settings, member?.state, member?.isRead];
    if (known !== undefined && known.member === member) {
      if (seen.every((part, at) => part === known.seen[at])) return false;
      this.#followed.set(clusterID, { ...known, seen });
      this.#term.usages.get(clusterID)?.look();
      return true;
    }
    known?.stop();
    this.#followed.delete(clusterID);
    if (member === undefined) return true;
    const stops = this.#listen(member);
    const stop = (): void => {
      for (const each of stops) each();
    };
    this.#followed.set(clusterID, { member, seen, stop });
    return true;
  }

  #listen(member: SyncedMember): readonly (() => void)[] {
    const { options, usages } = this.#term;
    const { clusterID } = member;
    const isTarget = clusterID === options.member.clusterID;
    const { usage, release } = followUsage(member, annotatedCopies(options.namespace));
    usages.set(clusterID, usage);
    const heard = (): void => this.#compareLimits(clusterID);
    return [
      release,
      () => void usages.delete(clusterID),
      member.services.onChange((change) => {
        this.#serviceChanged(change, isTarget);
        heard();
      }),
      member.nativeServices.onChange(({ old, new: now }) => {
        this.#serviceChanged({ old: old && watched(old), new: now && watched(now) }, false);
        heard();
      }),
      followSources(member, (change) => {
        this.#sliceChanged(member, change);
        heard();
      }),
      member.nodes.onChange((change) => {
        this.#nodeChanged(clusterID, change);
        heard();
      }),
      ...(isTarget
        ? [
            member.namespaces.onChange(({ key }) => this.#namespaceChanged(key)),
            options.member.externalEntities.onChange((change) => this.#entityChanged(change)),
          ]
        : []),
    ];
  }

  /** Costs nothing while the cluster is within its limits. */
  #compareLimits(clusterID: string): void {
    const { usages, leftOut, sink } = this.#term;
    if (usages.get(clusterID)?.isExceeded === true || leftOut.has(clusterID)) {
      sink.add(limitsKey(clusterID));
    }
  }

  #serviceChanged({ old, new: now }: Change, isTarget: boolean): void {
    if (old !== undefined && now !== undefined && jsonEquals(usedOf(old), usedOf(now))) return;
    const { sink, options } = this.#term;
    for (const version of [old, now]) {
      if (version === undefined) continue;
      const { metadata } = version;
      const key = this.#federatedKey(version);
      if (key !== undefined) sink.add(key);
      // A copy, or what has its place.
      if (isTarget) sink.add(placeOf(metadata, options.namespace));
    }
  }

  #federatedKey({ metadata }: Watched): string | undefined {
    if (isCopy({ metadata })) return undefined;
    const ref = federatedRefOf(metadata, this.#term.options.namespace);
    return isRef(ref) ? keyOfRef(ref) : undefined;
  }

  #sliceChanged(member: SyncedMember, { old, new: now }: ObjectChange<EndpointSlice>): void {
    if (old !== undefined && now !== undefined && jsonEquals(partsOf(old), partsOf(now))) return;
    for (const slice of [old, now]) {
      if (slice === undefined || !isSource(slice)) continue;
      const { namespace = '', labels } = slice.metadata;
      const service = member.services.byKey(`${namespace}/${labels?.[serviceNameLabel] ?? ''}`);
      const key = service && this.#federatedKey(service);
      if (key !== undefined) this.#term.sink.add(key);
    }
  }

  #nodeChanged(clusterID: string, { old, new: now }: ObjectChange<Node>): void {
    const [before, after] = [old, now].map((node) => (node ? addressesOfNode(node) : []));
    if (jsonEquals(before, after)) return;
    for (const [key, clusters] of this.#term.nodeClusters) {
      if (clusters.has(clusterID)) this.#term.sink.add(key);
    }
  }

  /** Copies may be known before their namespace. */
  #namespaceChanged(name: string): void {
    const { member, namespace } = this.#term.options;
    for (const service of member.services.objects()) {
      const { metadata } = service;
      if (metadata.namespace === name && isCopy(service)) {
        this.#term.sink.add(placeOf(metadata, namespace));
      }
    }
    for (const entity of member.externalEntities.objects()) {
      if (entity.metadata.namespace === name && isOwnEntity(entity)) this.#term.addOwnerOf(entity);
    }
  }

  #entityChanged(change: ObjectChange<ExternalEntity>): void {
    const { old, new: now } = change;
    const isEcho = this.#term.entities.isEcho(change);
    // One that was created may be unwanted by now, and was not in the cache at the last look.
    if (isEcho && old !== undefined && now !== undefined) return;
    const entity = now ?? old;
    if (entity !== undefined) this.#term.addOwnerOf(entity);
  }
}

const placeOf = ({ namespace = '', name }: ObjectMeta, systemNamespace: string): string =>
  keyOfCopy(namespace, name, systemNamespace);

/** What the endpoints of a federated Service depend on. */
function usedOf({ metadata, spec, status }: Watched): unknown {
  const { uid, creationTimestamp, deletionTimestamp, annotations, labels } = metadata;
  const marks = isCopy({ metadata }) ? undefined : annotations;
  return [uid, creationTimestamp, deletionTimestamp, marks, labels, spec, status?.loadBalancer];
}

/** Readiness does not count. */
function partsOf({ metadata, addressType, ports, endpoints }: EndpointSlice): unknown {
  const addresses = (endpoints ?? []).map(({ addresses: [first], hostname }) => [first, hostname]);
  return [metadata.labels, addressType, ports, addresses];
}
