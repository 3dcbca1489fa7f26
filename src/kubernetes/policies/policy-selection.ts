// Whether the policies of the target select federated Services, as their records tell users. What can be selected is
// read from the caches of all members, which takes long, so it is kept for some time.

import type { Clock } from '../../core/clock/clock.ts';
import { isRecord, type JsonRecord } from '../../core/json/is-record.ts';
import type { Reflector } from '../../core/kube/reflector/reflector.ts';
import { type ExternalEntity, isOwnEntity } from '../entities/compile-external-entities.ts';
import { isCopy } from '../services/compile-copy.ts';
import { isOwnSlice } from '../services/slice-source.ts';
import type { PolicyContent } from './policy-content.ts';
import { policyIn, type PolicyMember } from './policy-member.ts';
import type { PolicyRef } from './policy-ref.ts';
import { type SelectableMember, selectableServices } from './view/selectable-services.ts';
import {
  type SelectableServices,
  selectedServices,
  type Selection,
} from './view/selected-services.ts';

/** A member whose federated Services policies can select. */
export interface SelectingMember extends PolicyMember, SelectableMember {
  readonly externalEntities: SelectableMember['externalEntities'] &
    Pick<Reflector<ExternalEntity>, 'status'>;
}

export interface SelectionOptions {
  readonly members: { list(): readonly SelectingMember[] };
  readonly clock: Clock;
  /** Of the annotations for ExternalDNS. */
  readonly dnsPrefix: string;
  /** Called when what can be selected changed: `renew` must be called. */
  readonly changed: () => void;
}

/** Between two looks at all federated Services. Their endpoints may change many times in a second. */
const lookEveryMs = 10_000;
/** Between two changes of one record, so that a Service that flaps does not become a flood of writes. */
const pauseMs = 30_000;
/** So many are remembered. */
const mostTold = 10_000;

interface Copies {
  readonly users: Set<PolicySelection>;
  /** Those that have not heard of a change since they looked. */
  readonly waiting: Set<PolicySelection>;
  readonly stop: () => void;
}

/**
 * One listener for all targets of a site. A change of one endpoint changes a slice in each member, and each of these
 * would otherwise be told to all targets.
 */
const copiesIn = new WeakMap<SelectingMember['slices'], Copies>();

export class PolicySelection {
  readonly #options: SelectionOptions;
  /** In monotonic time, by the name of the record. */
  readonly #toldMs = new Map<string, number>();
  #services: SelectableServices | undefined;
  #lookedMs = Number.NEGATIVE_INFINITY;
  #isStale = false;
  readonly #awaited = new Set<Set<PolicySelection>>();

  constructor(options: SelectionOptions) {
    this.#options = options;
  }

  /** Undefined where it cannot be told yet. */
  of(ref: PolicyRef, content: PolicyContent | undefined): Selection | undefined {
    const members = this.#options.members.list();
    if (content === undefined || members.some(isUnread)) return undefined;
    return selectedServices({
      kind: ref,
      namespace: ref.namespace,
      spec: content.fields['spec'],
      services: this.#selectable(members),
      groupOf: (namespace, name) => groupIn(members, namespace, name),
    });
  }

  /** Listens to what policies can select of a member. Returns how to stop. */
  follow({ services, slices, externalEntities }: SelectingMember): readonly (() => void)[] {
    return [
      services.onChange(({ old, new: now }) => {
        if ([old, now].some((one) => one !== undefined && isCopy(one))) this.outdate();
      }),
      this.#awaitCopies(slices),
      externalEntities.onChange(({ old, new: now }) => {
        if ([old, now].some((one) => one !== undefined && isOwnEntity(one))) this.outdate();
      }),
    ];
  }

  #awaitCopies(slices: SelectingMember['slices']): () => void {
    let copies = copiesIn.get(slices);
    if (copies === undefined) {
      const waiting = new Set<PolicySelection>();
      const stop = slices.onChange(({ old, new: now }) => {
        if (![old, now].some((one) => one !== undefined && isOwnSlice(one))) return;
        for (const selection of waiting) selection.outdate();
        waiting.clear();
      });
      copies = { waiting, users: new Set(), stop };
      copiesIn.set(slices, copies);
    }
    const { waiting, users, stop } = copies;
    users.add(this);
    waiting.add(this);
    this.#awaited.add(waiting);
    return () => {
      users.delete(this);
      waiting.delete(this);
      this.#awaited.delete(waiting);
      if (users.size > 0) return;
      stop();
      copiesIn.delete(slices);
    };
  }

  /** What can be selected changed. */
  outdate(): void {
    if (this.#isStale) return;
    this.#isStale = true;
    this.#options.changed();
  }

  /** After how long it must be called again; undefined: all policies must be looked at. */
  renew(): number | undefined {
    const nowMs = this.#options.clock.monotonic();
    const leftMs = this.#lookedMs + lookEveryMs - nowMs;
    if (leftMs > 0) return leftMs;
    // Also where no policy asks afterwards.
    this.#lookedMs = nowMs;
    this.#services = undefined;
    this.#isStale = false;
    for (const waiting of this.#awaited) waiting.add(this);
    return undefined;
  }

  /** How long a record must wait until it can be changed again. */
  pauseOf(record: string): number {
    const nowMs = this.#options.clock.monotonic();
    return Math.max(0, (this.#toldMs.get(record) ?? nowMs - pauseMs) + pauseMs - nowMs);
  }

  told(record: string): void {
    if (this.#toldMs.size >= mostTold) this.#toldMs.clear();
    this.#toldMs.set(record, this.#options.clock.monotonic());
  }

  #selectable(members: readonly SelectingMember[]): SelectableServices {
    if (this.#services === undefined) {
      this.#services = selectableServices(members, this.#options.dnsPrefix);
      this.#lookedMs = this.#options.clock.monotonic();
    }
    return this.#services;
  }
}

/** A new leader must not tell users that a Service is missing which it has not read yet. */
function isUnread({ state, externalEntities }: SelectingMember): boolean {
  if (state.state === 'Connecting') return true;
  const { isSynced, failure } = externalEntities.status();
  return state.state === 'Ready' && !isSynced && failure === undefined;
}

/** Known only where groups are federated too. */
function groupIn(
  members: readonly PolicyMember[],
  namespace: string,
  name: string,
): JsonRecord | undefined {
  const plural = namespace === '' ? 'clustergroups' : 'groups';
  for (const member of members) {
    const found = policyIn(member, { group: antrea, plural, namespace, name });
    const spec = found?.content?.fields['spec'];
    if (isRecord(spec)) return spec;
  }
  return undefined;
}

const antrea = 'crd.antrea.io';

/** Whether policies can name objects of this kind in their rules. */
export const isGroup = ({ group, plural }: Pick<PolicyRef, 'group' | 'plural'>): boolean =>
  group === antrea && (plural === 'groups' || plural === 'clustergroups');
