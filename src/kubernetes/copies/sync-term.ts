// What the member controller knows in one term: the last plan of each federated Service, and what it
// wrote itself. It is forgotten when the term ends.

import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import type { Log } from '../../core/log/log.ts';
import type { SourceSink } from '../../core/reconcile/source.ts';
import type { Service } from '../objects.ts';
import type { MemberInput, Plan } from '../services/compile-plan.ts';
import type { CopyRules } from './copy-rules.ts';
import { HostNames } from './host-names.ts';
import { LiveSlices, type SlicePlace } from './live-slices.ts';
import { MemberPacer, type PartPacer } from './member-pacer.ts';
import { type LeftOut, nothingLeftOut, type OriginUsage } from './origin-usage.ts';
import { RecentWrites } from './recent-writes.ts';
import { slicesKey } from './sync-keys.ts';
import type { SyncedMember, SyncedMembers } from './synced-member.ts';

export interface SyncOptions {
  /** The target: the member that gets the copies. */
  readonly member: SyncedMember;
  readonly members: SyncedMembers;
  readonly clock: Clock;
  readonly log: Log;
  /** The system namespace, for global copies. */
  readonly namespace: string;
  /** The addresses of a name. Must end in bounded time. */
  readonly lookUp: (name: string) => Promise<readonly string[]>;
  /** Of all parts of this member. Default: one for this part. */
  readonly pacer?: Pick<MemberPacer, 'join'> | undefined;
}

/** Why the target has no copy that is right, although there are member Services. */
export type CopyProblem = 'CopyConflict' | 'CopyHasSelector' | 'ImportConflict';

/** The outcome of the last run for a federated Service. */
export interface FederatedState {
  readonly plan: Plan;
  readonly inputs: readonly MemberInput[];
  readonly origins: ReadonlySet<string>;
  readonly held: ReadonlyMap<string, MemberInput>;
  /** The copy in the target, as of the last write. */
  readonly copy: Service | undefined;
  readonly problem: CopyProblem | undefined;
  /** Its slices are left as they are. */
  readonly isFrozen: boolean;
  readonly done: DoneSources;
}

/** The sources whose slices are as a state wants them. */
export class DoneSources {
  readonly #sources: Set<string>;
  #round = 0;

  constructor(sources: Iterable<string> = []) {
    this.#sources = new Set(sources);
  }

  get round(): number {
    return this.#round;
  }

  has(source: string): boolean {
    return this.#sources.has(source);
  }

  all(): readonly string[] {
    return [...this.#sources];
  }

  /** `round` is that of the begin of the run: one that began before `clear` counts for nothing. */
  add(source: string, round: number): void {
    if (round === this.#round) this.#sources.add(source);
  }

  clear(): void {
    this.#round++;
    this.#sources.clear();
  }
}

export class SyncTerm {
  readonly options: SyncOptions;
  readonly rules: CopyRules;
  readonly sink: Pick<SourceSink, 'add'>;
  /** Of the target. */
  readonly client: SyncedMember['client'];
  /** By `keyOfRef`. */
  readonly states = new Map<string, FederatedState>();
  readonly services: RecentWrites<Service>;
  readonly slices: LiveSlices;
  readonly names: HostNames;
  /** When the condition of a Service was last written, in monotonic time. By NAMESPACE/NAME. */
  readonly toldMs = new Map<string, number>();
  /** What each cluster uses of its limits, by cluster ID. */
  readonly usages = new Map<string, OriginUsage>();
  /** What was left out of each cluster at the last look, by cluster ID. */
  readonly leftOut = new Map<string, LeftOut>();
  readonly pacer: PartPacer;
  /** The clusters whose changes added the key of a federated Service, until its run succeeds. */
  readonly #causes = new Map<string, Set<string>>();

  constructor(options: SyncOptions, rules: CopyRules, sink: Pick<SourceSink, 'add'>) {
    this.options = options;
    this.rules = rules;
    this.sink = sink;
    const { member, clock, lookUp, pacer = new MemberPacer(clock) } = options;
    this.client = member.client;
    this.services = new RecentWrites(
      clock,
      (key) => member.services.byKey(key),
      (_, written) => sink.add(rules.keyOfService(written)),
    );
    this.slices = new LiveSlices(clock, member.slices, rules, (place) => this.addSlice(place));
    this.pacer = pacer.join((key) => sink.add(key));
    this.names = new HostNames({
      clock,
      lookUp,
      changed: (keys) => {
        for (const key of keys) sink.add(key);
      },
    });
  }

  /** Ends its timers. */
  stop(): void {
    this.services.stop();
    this.slices.stop();
    this.pacer.stop();
    this.rules.stop?.();
  }

  /** Adds the key of a federated Service because of a change in a cluster. */
  addFor(clusterID: string, key: string): void {
    this.caused(key, [clusterID]);
    this.sink.add(key);
  }

  caused(key: string, clusterIDs: readonly string[]): void {
    const known = this.#causes.get(key) ?? new Set<string>();
    for (const clusterID of clusterIDs) known.add(clusterID);
    this.#causes.set(key, known);
  }

  /** Forgets them. The target itself, where no other cluster caused the run. */
  takeCauses(key: string): readonly string[] {
    const known = [...(this.#causes.get(key) ?? [this.options.member.clusterID])];
    this.#causes.delete(key);
    return known;
  }

  /** A slice of a copy must be looked at. */
  addSlice({ copy, source }: SlicePlace): void {
    const key = this.rules.keyOfPlace(copy);
    this.sink.add(this.states.has(key) ? slicesKey(key, source) : key);
  }

  /** What is left out of a cluster now. */
  leftOutOf(clusterID: string): LeftOut {
    return this.usages.get(clusterID)?.leftOut ?? nothingLeftOut;
  }
}

/** A write that lost a race is tried again by the queue, with what the watch tells meanwhile. */
export function asConflict(error: unknown): unknown {
  const isRace = error instanceof KubeStatusError && [404, 409].includes(error.status);
  return isRace ? new HansaError('HANSA_CONFLICT', error.message, { cause: error }) : error;
}
