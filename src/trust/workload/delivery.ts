// Keeps every stream of the Workload API at the newest state: whatever changes (entries, peers,
// grants, federations, the authority, the time), the states of those who listen are computed again,
// and whoever was told something else is told. Level-triggered: a change says "look", never what.

import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import { TrustDomain } from '../../api/trust-domain.ts';
import type { Clock, Timer } from '../../core/clock/clock.ts';
import { toHansaError } from '../../core/errors/error.ts';
import type { Bundle, BundleSource } from '../../core/identity/bundle.ts';
import { publishedCollection } from '../../core/identity/published-bundle.ts';
import type { Log } from '../../core/log/log.ts';
import { type RunningSource, StoreSource } from '../../core/reconcile/source.ts';
import type { Entry, Store } from '../../core/store/store.ts';
import { entitlements } from '../entitlement.ts';
import { relationCollections, type StoreRelations } from '../relations.ts';
import {
  EntryIndex,
  type UsableEntry,
  usableEntry,
  type WorkloadEntry,
} from './matching-entries.ts';
import type { SvidSupply } from './svid-supply.ts';
import type { WorkloadProcess } from './workload-process.ts';
import { WorkloadState } from './workload-state.ts';

export type DeliveryKind = 'svids' | 'bundles';

/** One stream. None of these may throw; after `denied` or `failed` nothing more comes. */
export interface Subscriber {
  /** The whole state: it replaces what was sent before, sent or still waiting. */
  send(message: Uint8Array): void;
  /** No entry matches the process (any more). */
  denied(): void;
  /** There is an entry, but no SVID can be issued now. */
  failed(error: Error): void;
}

export interface DeliveryOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly trustDomain: TrustDomain;
  readonly bundles: BundleSource;
  readonly relations: StoreRelations;
  readonly supply: SvidSupply;
  /** Called with how many streams were told something after a change. */
  readonly pushed: (streams: number) => void;
}

interface Subscription {
  readonly process: WorkloadProcess;
  readonly kind: DeliveryKind;
  readonly subscriber: Subscriber;
  version: string | undefined;
}

/** Streams of processes that nothing tells apart: their state is the same. */
interface Group {
  readonly key: string;
  readonly subscriptions: Set<Subscription>;
}

/** Wall time can jump, timers do not follow: look at least this often. */
const lookEveryMs = 60_000;
/** Where issuing failed it is tried again after this long. */
const retryMs = 5_000;
/** Groups that are looked at before others get their turn: some milliseconds of work. */
const groupsInARow = 64;

export class Delivery {
  readonly #options: DeliveryOptions;
  readonly #groups = new Map<string, Group>();
  readonly #sources: RunningSource[] = [];
  readonly #parsed = new WeakMap<Entry, UsableEntry | false>();
  #listed: readonly Entry[] | undefined;
  #index = new EntryIndex([]);
  #waiting = new Set<Group>();
  #isWorking = false;
  #soon: Timer | undefined;
  #look: Timer | undefined;
  #failing = false;
  #stopped = false;
  #grantsChangeAtMs: number | undefined;

  constructor(options: DeliveryOptions) {
    this.#options = options;
  }

  start(): void {
    const { store, clock, log } = this.#options;
    const collections = [workloadEntryKind.plural, publishedCollection, ...relationCollections];
    for (const collection of collections) {
      this.#sources.push(
        new StoreSource({ store, clock, collection }).start({
          add: () => this.refresh(),
          ended: (error) => log.warn('workloads hear of no more changes', { error, collection }),
        }),
      );
    }
    this.#schedule();
  }

  stop(): void {
    this.#stopped = true;
    for (const source of this.#sources) source.stop();
    this.#soon?.cancel();
    this.#look?.cancel();
    this.#groups.clear();
    this.#waiting.clear();
  }

  /** Whether some entry selects by the SHA-256 of the program. */
  get needsHash(): boolean {
    return this.#currentIndex().needsHash;
  }

  /** The entries that match a process now. Every call on the socket has its hash, where one is needed. */
  entriesOf(process: WorkloadProcess): readonly UsableEntry[] {
    return this.#currentIndex().match(process.selectors);
  }

  /** Tells the current state soon, and every other one that follows. Returns how to end that. */
  subscribe(process: WorkloadProcess, kind: DeliveryKind, subscriber: Subscriber): () => void {
    let group = this.#groups.get(process.key);
    if (group === undefined) {
      group = { key: process.key, subscriptions: new Set() };
      this.#groups.set(process.key, group);
    }
    const subscription: Subscription = { process, kind, subscriber, version: undefined };
    group.subscriptions.add(subscription);
    this.#enqueue(group);
    return () => this.#remove(group, subscription);
  }

  /** Something changed that may concern anybody. Many calls in a row make one look. */
  refresh(): void {
    if (this.#stopped) return;
    // After this turn: a commit that touches several collections is looked at once.
    this.#soon ??= this.#options.clock.timer(0, () => {
      this.#soon = undefined;
      this.#forgetUnused();
      this.#grantsChangeAtMs = undefined;
      for (const group of this.#groups.values()) this.#enqueue(group);
      this.#schedule();
    });
  }

  #remove(group: Group, subscription: Subscription): void {
    if (group.subscriptions.delete(subscription) && group.subscriptions.size === 0) {
      this.#forget(group);
    }
  }

  #forget(group: Group): void {
    // Another group may have its place already.
    if (this.#groups.get(group.key) === group) this.#groups.delete(group.key);
    this.#waiting.delete(group);
  }

  #enqueue(group: Group): void {
    if (this.#stopped) return;
    this.#waiting.add(group);
    if (!this.#isWorking) void this.#work();
  }

  /** One group after the other, so that nobody issues twice for one entry. */
  async #work(): Promise<void> {
    this.#isWorking = true;
    let row = 0;
    let told = 0;
    this.#failing = false;
    for (const group of this.#waiting) {
      this.#waiting.delete(group);
      try {
        told += await this.#update(group);
      } catch (error) {
        this.#failing = true;
        const failure = toHansaError(error);
        this.#end(group, (subscriber) => subscriber.failed(failure));
      }
      if (++row % groupsInARow === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    this.#isWorking = false;
    if (told > 0) this.#options.pushed(told);
    this.#schedule();
  }

  async #update(group: Group): Promise<number> {
    // An entry that selects by program may be newer than the stream.
    if (this.needsHash) await processOf(group)?.hashed();
    const process = processOf(group);
    // Everybody left meanwhile.
    if (process === undefined) return 0;
    const entries = this.#currentIndex().match(process.selectors);
    if (entries.length === 0) {
      this.#end(group, (subscriber) => subscriber.denied());
      return 0;
    }
    const wantSvids = wantsSvids(group.subscriptions);
    const state = await this.#stateOf(entries, wantSvids);
    let told = 0;
    for (const subscription of group.subscriptions) {
      const svids = subscription.kind === 'svids';
      // One that came while SVIDs were not asked for has its own turn.
      if (svids && !wantSvids) continue;
      const version = svids ? state.svidVersion : state.bundlesVersion;
      if (version === subscription.version) continue;
      subscription.version = version;
      subscription.subscriber.send(svids ? state.svidResponse : state.bundlesResponse);
      told++;
    }
    return told;
  }

  async #stateOf(entries: readonly UsableEntry[], wantSvids: boolean): Promise<WorkloadState> {
    const { supply, bundles, trustDomain } = this.#options;
    const svids = [];
    if (wantSvids) {
      for (const entry of entries) {
        svids.push({ hint: entry.name, svid: await supply.svidOf(entry) });
      }
    }
    // Read last, so that nothing that changed while SVIDs were issued is missed.
    const federated = new Map<string, Bundle>();
    for (const name of this.#givenTo(entries)) {
      const bundle = bundles.bundleFor(TrustDomain.parse(name));
      if (bundle !== undefined) federated.set(name, bundle);
    }
    const own = bundles.bundleFor(trustDomain) as Bundle;
    return new WorkloadState(svids, own, [...federated.values()]);
  }

  #givenTo(entries: readonly UsableEntry[]): readonly string[] {
    const { relations, clock } = this.#options;
    const given = new Set<string>();
    for (const { id, federatesWith } of entries) {
      if (federatesWith.length === 0) continue;
      const { decisions, changesAtMs } = entitlements(
        id,
        federatesWith,
        relations.current,
        clock.now(),
      );
      for (const decision of decisions) if (decision.given) given.add(decision.trustDomain);
      if (changesAtMs !== undefined && changesAtMs < (this.#grantsChangeAtMs ?? Infinity)) {
        this.#grantsChangeAtMs = changesAtMs;
      }
    }
    return [...given].toSorted();
  }

  #end(group: Group, tell: (subscriber: Subscriber) => void): void {
    const ended = [...group.subscriptions];
    group.subscriptions.clear();
    this.#forget(group);
    for (const { subscriber } of ended) tell(subscriber);
  }

  #currentIndex(): EntryIndex {
    const { entries } = this.#options.store.list(workloadEntryKind.plural);
    if (entries !== this.#listed) {
      this.#listed = entries;
      this.#index = new EntryIndex(
        entries.flatMap((entry) => {
          const usable = this.#usable(entry);
          return usable === false ? [] : [usable];
        }),
      );
    }
    return this.#index;
  }

  #usable(entry: Entry): UsableEntry | false {
    let known = this.#parsed.get(entry);
    if (known === undefined) {
      const object = JSON.parse(entry.value.toString('utf8')) as WorkloadEntry;
      const found = usableEntry(object, this.#options.trustDomain);
      const going = object.metadata.deletionTimestamp !== undefined;
      known = 'entry' in found && !going ? found.entry : false;
      this.#parsed.set(entry, known);
    }
    return known;
  }

  #forgetUnused(): void {
    const used = new Set<string>();
    const index = this.#currentIndex();
    for (const group of this.#groups.values()) {
      // Only a stream of SVIDs renews one that is due.
      if (!wantsSvids(group.subscriptions)) continue;
      for (const { name } of index.match(processOf(group)?.selectors ?? [])) used.add(name);
    }
    const existing = new Set((this.#listed ?? []).map(({ name }) => name));
    this.#options.supply.keep(existing, used);
  }

  #schedule(): void {
    this.#look?.cancel();
    if (this.#stopped) return;
    const { clock, supply } = this.#options;
    const due = Math.min(supply.nextRenewalMs ?? Infinity, this.#grantsChangeAtMs ?? Infinity);
    const delayMs = Math.min(Math.max(due - clock.now(), this.#failing ? retryMs : 1), lookEveryMs);
    this.#look = clock.timer(delayMs, () => this.refresh());
  }
}

/** One that still listens: what is true of one is true of all. */
function processOf({ subscriptions }: Group): WorkloadProcess | undefined {
  for (const { process } of subscriptions) return process;
  return undefined;
}

function wantsSvids(subscriptions: ReadonlySet<Subscription>): boolean {
  for (const { kind } of subscriptions) if (kind === 'svids') return true;
  return false;
}
