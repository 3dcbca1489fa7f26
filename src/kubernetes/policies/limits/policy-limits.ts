// Counts the policies that each member asks others to hold, and says which of them exceed its limits. It follows each
// change, so that a change costs O(members) while all members are within their limits.

import type { Clock, Timer } from '../../../core/clock/clock.ts';
import { policyLimits } from '../../members/member-collections.ts';
import { costOf } from '../../../core/kube/reflector/object-cost.ts';
import type { ObjectChange } from '../../../core/kube/reflector/object-cache.ts';
import {
  isOrigin,
  knownPolicies,
  policyIn,
  type PolicyMember,
  type PolicyMembers,
  servesKind,
} from '../policy-member.ts';
import { keyOfPolicy, policyOfKey, type PolicyRef } from '../policy-ref.ts';
import type { CachedPolicy } from '../read-policy.ts';
import {
  choosePolicies,
  defaultPolicyLimit,
  explainPolicyLimit,
  type PolicyClaim,
  type PolicyLimit,
} from './choose-policies.ts';

/** Why a member does not get a version of a policy. */
export interface SpreadLimit {
  /** The members that the policy belongs to, if they have too many. */
  readonly owners: readonly string[];
  /** Whether only a policy that the member does not have is meant. */
  readonly isForNew: boolean;
  readonly message: string;
}

/** Between two looks at a member that exceeds its limits, because each costs time for all of its policies. */
const lookMs = 1000;

interface Usage {
  readonly clusterID: string;
  /** By `keyOfPolicy`. */
  readonly claims: Map<string, PolicyClaim>;
  bytes: number;
  /** Those that others get. Undefined: all. */
  chosen: ReadonlySet<string> | undefined;
  timer: Timer | undefined;
}

export interface PolicyLimitsOptions {
  readonly members: PolicyMembers;
  readonly clock: Pick<Clock, 'timer'>;
}

/** Of the cache of a member. The rest is for policies of its own users. */
const roomForOthers = 3 / 4;

/**
 * Whether a member has so many policies and records that it gets no more. All other members together must not fill its
 * cache, because then no site follows its policies any more.
 */
export function fullnessOf({
  clusterID,
  policies,
  policyRecords,
}: PolicyMember): SpreadLimit | undefined {
  let [objects, bytes] = [0, 0];
  for (const reflector of [...policies.values(), policyRecords]) {
    const status = reflector.status();
    objects += status.objects;
    bytes += status.bytes;
  }
  const isLarge = bytes > policyLimits.maxBytes * roomForOthers;
  if (objects <= policyLimits.maxObjects * roomForOthers && !isLarge) return undefined;
  const message = `${clusterID} has so many policies and records (${objects}, ${Math.ceil(bytes / 1024)} KiB) that it gets no more of other clusters. Delete policies that are not needed there.`;
  return { owners: [], isForNew: !isLarge, message };
}

/**
 * A policy belongs to the members where no site created it. If sites created it in all members, it belongs to all of
 * them: a hostile member can mark its own policies as created by a site. A policy is within the limits if it is
 * so for one of the members that it belongs to.
 */
export class PolicyLimits {
  readonly #options: PolicyLimitsOptions;
  readonly #listeners = new Set<(key: string) => void>();
  readonly #usages = new Map<string, Usage>();
  readonly #owners = new Map<string, ReadonlyMap<string, PolicyClaim>>();
  #stops: (() => void)[] = [];
  #stopMembers: (() => void) | undefined;
  #counted = '';
  #members: readonly PolicyMember[] = [];

  constructor(options: PolicyLimitsOptions) {
    this.#options = options;
  }

  /** Calls `listener` with `keyOfPolicy` of each policy about which the answer changed. Returns how to stop. */
  follow(listener: (key: string) => void): () => void {
    const own = (key: string): void => listener(key);
    this.#listeners.add(own);
    if (this.#listeners.size === 1) {
      this.#stopMembers = this.#options.members.onChange(() => this.#memberChanged());
      this.#memberChanged();
    }
    return () => {
      if (this.#listeners.delete(own) && this.#listeners.size === 0) this.#stop();
    };
  }

  /** Undefined where members get it. It may be a second late for policies of a member that exceeds its limits. */
  limitOf(ref: PolicyRef): SpreadLimit | undefined {
    const key = keyOfPolicy(ref);
    const owners = [...(this.#owners.get(key)?.keys() ?? [])];
    const [first] = owners;
    const isWithin = owners.some((id) => this.#usages.get(id)?.chosen?.has(key) ?? true);
    if (first === undefined || isWithin) return undefined;
    return { owners, isForNew: false, message: explainPolicyLimit(first, this.#limitOf(first)) };
  }

  #stop(): void {
    this.#stopMembers?.();
    for (const stop of this.#stops) stop();
    for (const { timer } of this.#usages.values()) timer?.cancel();
    this.#stops = [];
    this.#usages.clear();
    this.#owners.clear();
    this.#counted = '';
    this.#members = [];
  }

  #limitOf(clusterID: string): PolicyLimit {
    const limits = this.#options.members.get(clusterID)?.settings.limits;
    return {
      policies: limits?.policies ?? defaultPolicyLimit.policies,
      policyBytes: limits?.policyBytes ?? defaultPolicyLimit.policyBytes,
    };
  }

  /** Counts all policies again where other members count, or other kinds of them. */
  #memberChanged(): void {
    const members = this.#options.members
      .list()
      .filter((member) => member.isRead && isOrigin(member));
    const counted = members.map((member) => `${member.clusterID} ${servedIn(member)}`).join(';');
    const isSame = members.every((member, at) => member === this.#members[at]);
    // Their limits may have changed.
    if (isSame && counted === this.#counted) {
      for (const usage of this.#usages.values()) this.#changed(usage);
      return;
    }
    this.#counted = counted;
    this.#members = members;
    for (const stop of this.#stops) stop();
    this.#stops = members.flatMap(({ policies }) =>
      [...policies].map(([id, reflector]) =>
        reflector.onChange((change) => this.#policyChanged(id, change)),
      ),
    );
    const refs = knownPolicies({ list: () => members });
    for (const [key, ref] of refs) this.#count(key, ref);
    for (const key of this.#owners.keys()) {
      const ref = policyOfKey(key);
      if (ref !== undefined && !refs.has(key)) this.#count(key, ref);
    }
    for (const usage of this.#usages.values()) this.#changed(usage);
  }

  #policyChanged(id: string, { old, new: now }: ObjectChange<CachedPolicy>): void {
    const isCounted = old?.held.isFederated === true || now?.held.isFederated === true;
    const one = now ?? old;
    if (!isCounted || one === undefined) return;
    const dot = id.indexOf('.');
    const { namespace = '', name } = one.metadata;
    const ref = { group: id.slice(dot + 1), plural: id.slice(0, dot), namespace, name };
    for (const usage of this.#count(keyOfPolicy(ref), ref)) this.#changed(usage);
  }

  /** Returns the usages that changed. */
  #count(key: string, ref: PolicyRef): readonly Usage[] {
    const held = this.#members.flatMap((member): [PolicyMember, CachedPolicy][] => {
      const found = policyIn(member, ref);
      return found?.content === undefined ? [] : [[member, found]];
    });
    const own = held.filter(([, { held: object }]) => !object.isReplica);
    const owners = new Map(
      (own.length === 0 ? held : own).map(([{ clusterID }, { held: object, content }]) => [
        clusterID,
        { createdMs: object.createdMs, bytes: sizeOf(content) },
      ]),
    );
    const before = this.#owners.get(key) ?? new Map<string, PolicyClaim>();
    if (owners.size === 0) this.#owners.delete(key);
    else this.#owners.set(key, owners);
    return [...new Set([...before.keys(), ...owners.keys()])].flatMap((clusterID) => {
      const [old, now] = [before.get(clusterID), owners.get(clusterID)];
      if (old?.createdMs === now?.createdMs && old?.bytes === now?.bytes) return [];
      const usage = this.#usageOf(clusterID);
      usage.bytes += (now?.bytes ?? 0) - (old?.bytes ?? 0);
      if (now === undefined) usage.claims.delete(key);
      else usage.claims.set(key, now);
      return [usage];
    });
  }

  #usageOf(clusterID: string): Usage {
    const known = this.#usages.get(clusterID);
    if (known !== undefined) return known;
    const usage: Usage = {
      clusterID,
      claims: new Map(),
      bytes: 0,
      chosen: undefined,
      timer: undefined,
    };
    this.#usages.set(clusterID, usage);
    return usage;
  }

  #isExceeded({ clusterID, claims, bytes }: Usage): boolean {
    const { policies, policyBytes } = this.#limitOf(clusterID);
    return claims.size > policies || bytes > policyBytes;
  }

  /** More changes may follow at once, as those of a list do. Until then, others get nothing new of this member. */
  #changed(usage: Usage): void {
    const isFirst = usage.chosen === undefined;
    if (isFirst && !this.#isExceeded(usage)) return;
    usage.chosen ??= new Set();
    usage.timer ??= this.#options.clock.timer(isFirst ? 0 : lookMs, () => {
      usage.timer = undefined;
      this.#look(usage);
    });
  }

  #look(usage: Usage): void {
    const { chosen: before, claims } = usage;
    const now = this.#isExceeded(usage)
      ? choosePolicies(claims, this.#limitOf(usage.clusterID))
      : undefined;
    usage.chosen = now;
    for (const key of claims.keys()) {
      if ((before?.has(key) ?? true) === (now?.has(key) ?? true)) continue;
      for (const listener of this.#listeners) listener(key);
    }
  }
}

/** An item of a list can have one character, and costs far more memory. */
const bytesOfValue = 32;

function sizeOf(content: CachedPolicy['content']): number {
  const { bytes, values } = costOf(content);
  return Math.max(bytes, values * bytesOfValue);
}

const servedIn = (member: PolicyMember): string =>
  [...member.policies.keys()]
    .map((id) => {
      const dot = id.indexOf('.');
      return servesKind(member, { group: id.slice(dot + 1), plural: id.slice(0, dot) });
    })
    .join();
