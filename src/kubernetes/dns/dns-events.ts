// Follows all members and names the federated Services whose DNS names a change may affect. Services that ask
// for no name cost one look for each change of theirs.

import type { NativeService } from '../../api/kinds/native-service.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import type { ObjectChange } from '../../core/kube/reflector/object-cache.ts';
import type { RunningSource } from '../../core/reconcile/source.ts';
import type { CopyRules } from '../copies/copy-rules.ts';
import { followUsage } from '../copies/follow-usage.ts';
import { changesPlan } from '../copies/slice-facts.ts';
import { followSources } from '../copies/slice-feed.ts';
import { sourceKeysOf } from '../copies/source-keys.ts';
import { type SyncedMember, usableOf } from '../copies/synced-member.ts';
import {
  dnsAnnotation,
  hostnameAnnotation,
  namedCondition,
  namesSinceAnnotation,
  sinceAnnotation,
} from '../names.ts';
import type { EndpointSlice, Node, ObjectMeta, Service } from '../objects.ts';
import { isCopy } from '../services/compile-copy.ts';
import {
  federatedRefOf,
  isRef,
  keyOfCopy,
  keyOfRef,
  refOfKey,
} from '../services/federated-name.ts';
import { addressesOfNode } from '../services/member-service.ts';
import { askedNames } from './asked-names.ts';
import { leftKey, limitsKey } from './dns-keys.ts';
import type { DnsTerm } from './dns-term.ts';
import { parts } from './name-annotations.ts';
import { heldNames } from './name-tenures.ts';
import { readyAddresses } from './name-targets.ts';

/** A Service or a NativeService. */
interface Watched {
  readonly metadata: ObjectMeta;
  readonly spec?: unknown;
  readonly status?: Service['status'];
}
const watched = ({ metadata, spec }: NativeService): Watched => ({
  metadata,
  spec,
});

type Change = { readonly old: Watched | undefined; readonly new: Watched | undefined };

/** Of copies. What they say about who came first counts for other names too. */
const marks = [dnsAnnotation, sinceAnnotation, namesSinceAnnotation];

interface Followed {
  readonly member: SyncedMember;
  readonly seen: readonly unknown[];
  readonly stop: () => void;
}

export class DnsEvents implements RunningSource {
  readonly #term: DnsTerm;
  readonly #rules: CopyRules;
  readonly #followed = new Map<string, Followed>();
  readonly #stopMembers: () => void;

  constructor(term: DnsTerm) {
    this.#term = term;
    this.#rules = term.rules;
    const { members } = term.options;
    this.#stopMembers = members.onChange((clusterID) => this.#memberChanged(clusterID));
    for (const { clusterID } of members.list()) this.#follow(clusterID);
    this.resync();
  }

  /** All claims are known before the first name is written. */
  resync(): void {
    const { claims, options, leftOutOf } = this.#term;
    const { settings } = options;
    const members = options.members.list();
    const keys = new Set(claims.keys());
    for (const { member } of this.#followed.values()) {
      const isTarget = member.clusterID === options.member.clusterID;
      for (const service of member.services.objects()) this.#collect(service, isTarget, keys);
      for (const service of member.nativeServices.objects()) {
        this.#collect(watched(service), false, keys);
      }
    }
    const monotonicMs = options.clock.monotonic();
    for (const key of keys) {
      const ref = refOfKey(key, options.namespace);
      const asked =
        ref &&
        askedNames(ref, key, {
          members,
          settings,
          monotonicMs,
          leftOutOf,
          ...heldNames(this.#term, ref),
        });
      claims.set(key, asked?.claims ?? []);
    }
    for (const key of keys) this.#term.sink.add(key);
  }

  stop(): void {
    this.#stopMembers();
    for (const { stop } of this.#followed.values()) stop();
    this.#followed.clear();
    this.#term.stop();
  }

  #follow(clusterID: string): boolean {
    const member = this.#term.options.members.get(clusterID);
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
    const { options, usages } = this.#term;
    const isTarget = clusterID === options.member.clusterID;
    const { usage, release } = followUsage(member, this.#rules);
    usages.set(clusterID, usage);
    const stops = [
      release,
      () => void usages.delete(clusterID),
      member.services.onChange((change) => {
        this.#serviceChanged(change, isTarget);
        this.#compareLimits(clusterID);
      }),
      member.nativeServices.onChange(({ old, new: now }) => {
        this.#serviceChanged({ old: old && watched(old), new: now && watched(now) }, false);
        this.#compareLimits(clusterID);
      }),
      followSources(member, (change) => {
        this.#sliceChanged(member, change);
        this.#compareLimits(clusterID);
      }),
      member.nodes.onChange((change) => {
        this.#nodeChanged(clusterID, change);
        this.#compareLimits(clusterID);
      }),
      member.namespaces.onChange(({ key }) => this.#namespaceChanged(key)),
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
    if (leftOut.has(clusterID) || usages.get(clusterID)?.isExceeded === true) {
      this.#add(limitsKey(clusterID));
    }
  }

  #memberChanged(clusterID: string): void {
    if (this.#follow(clusterID)) this.resync();
  }

  #add(key: string): void {
    this.#term.sink.add(key);
  }

  /** Adds the keys that a Service may have a name for, or a mark of one. */
  #collect(service: Watched, isTarget: boolean, keys: Set<string>): void {
    const { namespace } = this.#term.options;
    const { metadata } = service;
    const own = `${metadata.namespace ?? ''}/${metadata.name}`;
    const federated = this.#federatedKey(service);
    if (isCopy(service)) {
      if (this.#hasNames(metadata) || this.#isTold(service)) {
        keys.add(keyOfCopy(metadata.namespace ?? '', metadata.name, namespace));
      }
    } else if (federated !== undefined) {
      if (this.#isNamed(metadata) || this.#isTold(service)) keys.add(federated);
    } else if (isTarget && this.#isTold(service)) {
      this.#add(leftKey(own));
    }
  }

  #federatedKey({ metadata }: Watched): string | undefined {
    if (isCopy({ metadata })) return undefined;
    const ref = federatedRefOf(metadata, this.#term.options.namespace);
    return isRef(ref) ? keyOfRef(ref) : undefined;
  }

  #isNamed({ annotations }: ObjectMeta): boolean {
    const { template } = this.#term.options.settings;
    return template !== undefined || annotations?.[hostnameAnnotation] !== undefined;
  }

  #hasNames({ annotations = {} }: ObjectMeta): boolean {
    const { prefix } = this.#term.options.settings;
    return [dnsAnnotation, namesSinceAnnotation, `${prefix}/hostname`].some(
      (key) => annotations[key] !== undefined,
    );
  }

  #isTold({ status }: Watched): boolean {
    return (status?.conditions ?? []).some(({ type }) => type === namedCondition);
  }

  #serviceChanged({ old, new: now }: Change, isTarget: boolean): void {
    if (old !== undefined && now !== undefined && this.#isAlike(old, now, isTarget)) return;
    const { claims, options } = this.#term;
    const keys = new Set<string>();
    for (const version of [old, now]) {
      if (version === undefined) continue;
      this.#collect(version, isTarget && version === now, keys);
      const { namespace = '', name } = version.metadata;
      // A Service of a user may have taken the place of a copy, or given it back.
      const place = keyOfCopy(namespace, name, options.namespace);
      const federated = this.#federatedKey(version);
      for (const key of [place, federated]) {
        if (key !== undefined && claims.has(key)) keys.add(key);
      }
    }
    for (const key of keys) this.#add(key);
  }

  /** Whether two versions of a Service mean the same for all names. */
  #isAlike(old: Watched, now: Watched, isTarget: boolean): boolean {
    const { prefix } = this.#term.options.settings;
    const used = (service: Watched): unknown => {
      const { uid, creationTimestamp, deletionTimestamp, annotations = {} } = service.metadata;
      const names = parts.map((part) => annotations[`${prefix}/${part}`]);
      return [
        uid,
        creationTimestamp,
        deletionTimestamp,
        isCopy(service) ? [...names, ...marks.map((mark) => annotations[mark])] : annotations,
        service.spec,
        service.status?.loadBalancer,
        isTarget ? service.status?.conditions : undefined,
      ];
    };
    return jsonEquals(used(old), used(now));
  }

  #sliceChanged(member: SyncedMember, change: ObjectChange<EndpointSlice>): void {
    const { claims } = this.#term;
    for (const { federated } of sourceKeysOf(change, member, this.#rules)) {
      if (claims.has(federated) && this.#changesNames(member, change)) this.#add(federated);
    }
  }

  #changesNames(member: SyncedMember, { old, new: now }: ObjectChange<EndpointSlice>): boolean {
    const usable = usableOf(member);
    const [before, after] = [old, now].map((one) => (one ? readyAddresses(one, usable) : []));
    return changesPlan(old, now, usable) || !jsonEquals(before, after);
  }

  #nodeChanged(clusterID: string, { old, new: now }: ObjectChange<Node>): void {
    const [before, after] = [old, now].map((node) => (node ? addressesOfNode(node) : []));
    if (jsonEquals(before, after)) return;
    for (const [key, clusters] of this.#term.nodeClusters) {
      if (clusters.has(clusterID)) this.#add(key);
    }
  }

  #namespaceChanged(name: string): void {
    const { claims, options } = this.#term;
    for (const key of claims.keys()) {
      if (refOfKey(key, options.namespace)?.namespace === name) this.#add(key);
    }
  }
}
