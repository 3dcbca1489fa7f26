// What the part for policies knows in one term of the leader: what it wrote itself, what it saw happen, and what the
// API server refused. It is forgotten when the term ends.

import type { Clock } from '../../core/clock/clock.ts';
import type { SourceSink } from '../../core/reconcile/source.ts';
import { MemberPacer, type PartPacer } from '../copies/member-pacer.ts';
import { RecentWrites } from '../copies/recent-writes.ts';
import { isOpen } from '../copies/synced-member.ts';
import type { PolicySettings } from '../settings.ts';
import { Definitions } from './definitions.ts';
import { fullnessOf, PolicyLimits, type SpreadLimit } from './limits/policy-limits.ts';
import { policyKey, selectionKey } from './policy-keys.ts';
import { idOfKind, type PolicyKind } from './policy-kinds.ts';
import {
  heldRecordIn,
  isOrigin,
  type Now,
  policyIn,
  type PolicyMembers,
  servesKind,
  syncedMsOf,
  viewOf,
} from './policy-member.ts';
import type { CachedRecord } from './policy-records.ts';
import { PolicySelection, type SelectingMember } from './policy-selection.ts';
import { policyOfKey, type PolicyRef, recordNameOf } from './policy-ref.ts';
import type { Place, PolicyView, Sighting, TargetView } from './policy-state.ts';
import type { CachedPolicy } from './read-policy.ts';
import { JointReads } from './joint-reads.ts';
import type { Stamp } from './stamp.ts';
import { syncRecordName } from '../../api/kinds/policy-record.ts';

export interface PolicyOptions {
  /** The target: the member whose policies this part writes. */
  readonly member: SelectingMember;
  readonly members: PolicyMembers<SelectingMember>;
  readonly clock: Clock;
  readonly settings: PolicySettings;
  /** Of the annotations for ExternalDNS. */
  readonly dnsPrefix: string;
  /** Of all members. Default: counted for this part. A process with several parts shares them. */
  readonly limits?: PolicyLimits | undefined;
  /** Of all parts of this member. Default: one for this part. */
  readonly pacer?: Pick<MemberPacer, 'join'> | undefined;
}

/** Why the API server refused a version. */
export interface Refusal {
  readonly stamp: Stamp;
  readonly message: string;
  /** Monotonic. */
  readonly atMs: number;
}

/** A server that got another schema or webhook may accept it. */
export const refusedForMs = 300_000;

/** What was read from the API server for one decision. */
export interface FreshState {
  readonly object: CachedPolicy | undefined;
  readonly place: Place;
}

export class PolicyTerm {
  readonly options: PolicyOptions;
  readonly sink: Pick<SourceSink, 'add'>;
  readonly definitions: Definitions;
  readonly limits: PolicyLimits;
  /** Of the places of policies. */
  readonly reads = new JointReads();
  readonly policies: RecentWrites<CachedPolicy>;
  readonly records: RecentWrites<CachedRecord>;
  /** These by `policyKey`. */
  readonly sightings = new Map<string, Sighting>();
  readonly refusals = new Map<string, Refusal>();
  /** Where each federated policy was when it was first seen. */
  readonly places = new Map<string, Pick<Place, 'crdUID' | 'namespaceUID'>>();
  /** The versions that the API server answered to writes of this leader. */
  readonly answers = new Map<string, string>();
  /** When the condition of a record was last written, in monotonic time. */
  readonly toldMs = new Map<string, number>();
  /** By the member that has the content. The stamp does not count: its cluster can be forged. */
  readonly pacer: PartPacer;
  readonly selection: PolicySelection;
  readonly #kinds: ReadonlyMap<string, PolicyKind>;

  constructor(options: PolicyOptions, sink: Pick<SourceSink, 'add'>) {
    const { member, members, clock, settings, dnsPrefix } = options;
    const { pacer = new MemberPacer(clock) } = options;
    this.options = options;
    this.sink = sink;
    this.limits = options.limits ?? new PolicyLimits(options);
    this.#kinds = new Map(settings.kinds.map((kind) => [idOfKind(kind), kind]));
    this.definitions = new Definitions(member.client, clock);
    this.pacer = pacer.join((key) => sink.add(key));
    const changed = (): void => sink.add(selectionKey);
    this.selection = new PolicySelection({ members, clock, dnsPrefix, changed });
    this.policies = new RecentWrites(
      clock,
      (key) => {
        const ref = policyOfKey(key);
        return ref && policyIn(member, ref);
      },
      (key) => sink.add(key),
    );
    this.records = new RecentWrites(
      clock,
      (name) => member.policyRecords.byKey(name),
      (_name, { ref }) => {
        if (ref !== undefined) sink.add(policyKey(ref));
      },
    );
  }

  /** Ends its timers. */
  stop(): void {
    this.policies.stop();
    this.records.stop();
    this.pacer.stop();
  }

  /**
   * Undefined for a kind that is not configured, and for a policy with another scope than its kind: a hostile member
   * could name one policy of the whole cluster once for each namespace.
   */
  kindOf(ref: Pick<PolicyRef, 'group' | 'plural' | 'namespace'>): PolicyKind | undefined {
    const kind = this.#kinds.get(idOfKind(ref));
    return kind?.isNamespaced === (ref.namespace !== '') ? kind : undefined;
  }

  get now(): Now {
    const { clock } = this.options;
    return { nowMs: clock.now(), monotonicMs: clock.monotonic() };
  }

  /** All other members that are listed. */
  others(ref: PolicyRef): readonly PolicyView[] {
    const { member, members, settings } = this.options;
    const { now } = this;
    return members
      .list()
      .filter(({ clusterID }) => clusterID !== member.clusterID)
      .map((other) => viewOf(other, ref, now, settings.retentionMs));
  }

  /** Why the target does not get a version that it does not have. */
  limitOf(ref: PolicyRef): SpreadLimit | undefined {
    return this.limits.limitOf(ref) ?? fullnessOf(this.options.member);
  }

  record(ref: PolicyRef): CachedRecord | undefined {
    return this.records.live(recordNameOf(ref));
  }

  /** The target as the caches and the own writes show it, or as it was read. */
  target(ref: PolicyRef, kind: PolicyKind, fresh?: FreshState, isWritten = false): TargetView {
    const key = policyKey(ref);
    const { clusterID } = this.options.member;
    const { nowMs, monotonicMs } = this.now;
    const object = fresh === undefined ? this.policies.live(key) : fresh.object;
    const refusal = this.refusals.get(key);
    const isRefused = refusal !== undefined && monotonicMs - refusal.atMs < refusedForMs;
    const answered = this.answers.get(key);
    return {
      clusterID,
      isReady: true,
      isUsable: true,
      isOrigin: isOrigin(this.options.member),
      syncedMs: syncedMsOf(this.records.live(syncRecordName)),
      object: object && {
        ...object.held,
        isAnswer: object.held.resourceVersion === answered,
      },
      record: heldRecordIn(this.record(ref), ref, nowMs),
      place: fresh?.place ?? this.placeOf(ref, kind),
      isFresh: fresh !== undefined,
      isWritten,
      sighting: this.sightings.get(key),
      refusal: isRefused ? refusal : undefined,
    };
  }

  /** As the caches show it. */
  placeOf({ namespace }: PolicyRef, kind: PolicyKind): Place {
    const { member } = this.options;
    const definition = this.definitions.known(kind);
    const isServed = servesKind(member, kind) === true && definition?.state !== 'deleting';
    const crdUID = definition?.state === 'served' ? definition.uid : undefined;
    if (!kind.isNamespaced) return { isServed, crdUID, namespace: 'open', namespaceUID: '' };
    const found = member.namespaces.byKey(namespace);
    if (found === undefined) return { isServed, crdUID, namespace: 'missing', namespaceUID: '' };
    return {
      isServed,
      crdUID,
      namespace: isOpen(member, namespace) ? 'open' : 'closing',
      namespaceUID: found.metadata.uid ?? '',
    };
  }
}
