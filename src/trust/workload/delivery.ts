// Keeps every stream of the Workload API at the newest state. After any change (entries, peers,
// grants, federations, the authority, time) it computes the states of all streams again, and sends
// those that differ. Level-triggered: a change only triggers a recomputation, and carries no data.

import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Clock, Timer } from '../../core/clock/clock.ts';
import { yieldToEventLoop } from '../../core/clock/yield-to-event-loop.ts';
import { type HansaError, toHansaError } from '../../core/errors/error.ts';
import type { Bundle, BundleSource } from '../../core/identity/bundle/bundle.ts';
import type { Log } from '../../core/log/log.ts';
import type { Store } from '../../core/store/store.ts';
import { earlier, entitlement, isWithheldBy } from '../authorization/entitlement.ts';
import type { FederationState, StoreFederationState } from '../authorization/federation-state.ts';
import { watchDeliveryInputs } from './delivery-inputs.ts';
import { givenBundles } from './given-bundles.ts';
import { asksFor, hintsOf, type UsableEntry } from './entries/matching-entries.ts';
import { StoreEntries } from './entries/store-entries.ts';
import type { SvidSupply } from './svids/svid-supply.ts';
import type { WorkloadProcess } from './entries/workload-process.ts';
import { type HintedSvid, WorkloadState } from './workload-state.ts';

/** One stream. No method may throw. `denied` and `failed` end the stream. */
export interface Subscriber {
  /** Whether its states contain SVIDs. SVIDs are issued only for such streams. */
  readonly needsSvids: boolean;
  /** Encodes a bundle once for all states. Called for each bundle before a large state is sent, in small steps. */
  readonly prepare?: (bundle: Bundle) => unknown;
  /** Differs between states that differ for this stream. Called often, so it must be cheap. */
  versionOf(state: WorkloadState): string;
  /** Sends the whole state, which replaces all earlier ones, even if they are still queued. */
  send(state: WorkloadState): void;
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
  /** DNS names that no SVID may contain. */
  readonly siteNames?: readonly string[];
  /** The Agent of this machine: only entries that are assigned to it. Undefined: all entries of the store. */
  readonly agent?: string | undefined;
  readonly bundles: BundleSource;
  readonly federationState: StoreFederationState;
  readonly supply: SvidSupply;
  /** Asks ahead for this many entries, also where no stream needs them yet. Default: none. */
  readonly entriesAhead?: number;
  /** Called with the number of streams that got a new state after a change. */
  readonly pushed: (streams: number) => void;
}

interface Subscription {
  readonly process: WorkloadProcess;
  readonly subscriber: Subscriber;
  version: string | undefined;
}

/** Streams of processes with the same properties, which share a state. */
interface Group {
  readonly key: string;
  readonly subscriptions: Set<Subscription>;
}

/** Wall time can jump and timers do not follow, so the site checks at least this often. */
const lookEveryMs = 60_000;
/** The retry delay after a failure to issue. */
const retryMs = 5_000;
/** After this time, a stream gets its new state with the SVIDs that it has, although a renewal is under way. */
const patienceMs = 250;
/** The amount of work before other tasks get a turn. */
const workMs = 5;

/** After this many discarded states, the next one is computed and sent without a pause. */
const mostTimesCut = 3;

/** By names of the entries and serial numbers of the SVIDs. Processes that differ, but not in their entries, share a state. */
type States = Map<string, WorkloadState>;

/** The states of one run, valid while their inputs do not change. */
interface Computed {
  /** Of the entries. */
  readonly version: number;
  readonly federationState: FederationState;
  readonly own: Bundle;
  readonly states: States;
}

export class Delivery {
  readonly #options: DeliveryOptions;
  readonly #groups = new Map<string, Group>();
  readonly #entries: StoreEntries;
  #waiting = new Set<Group>();
  /** Processes whose program was hashed for their next update. */
  readonly #looked = new WeakSet<WorkloadProcess>();
  /** Groups whose program is being hashed. They do not have the newest state yet. */
  readonly #hashing = new Set<Group>();
  /** Groups that wait for SVIDs, and whether `patienceMs` is over. They do not have the newest state yet. */
  readonly #issuing = new Map<Group, { isLate: boolean }>();
  #isWorking = false;
  #soon: Timer | undefined;
  #look: Timer | undefined;
  #failing = false;
  #stopped = false;
  #grantsChangeAtMs: number | undefined;
  #timesCut = 0;
  #computed: Computed | undefined;
  /** The federation state of the last requested update of all streams, and (`#told`) of the last complete one. */
  #lookedAt: FederationState | undefined;
  #told: FederationState | undefined;
  #rowStartedMs = 0;
  #unwatch = (): void => undefined;

  constructor(options: DeliveryOptions) {
    this.#options = options;
    this.#entries = new StoreEntries(options);
  }

  /** Throws HANSA_STORE_CORRUPT if it cannot read an entry, and leaves nothing running. */
  start(): void {
    const { agent } = this.#options;
    try {
      const changed = (): void => this.refresh();
      this.#unwatch = watchDeliveryInputs({ ...this.#options, agent, changed });
      // At start, before workloads connect: the first read of ten thousand entries is slow.
      void this.#entries.index;
    } catch (error) {
      this.stop();
      throw error;
    }
    this.#schedule();
  }

  stop(): void {
    this.#stopped = true;
    this.#unwatch();
    this.#soon?.cancel();
    this.#look?.cancel();
    this.#groups.clear();
    this.#waiting.clear();
  }

  /** Whether some entry selects by the SHA-256 of the program. */
  get needsHash(): boolean {
    return this.#entries.index.needsHash;
  }

  /** The entries that match a process now. If an entry needs the hash of the program, it is already known. */
  entriesOf(process: WorkloadProcess): readonly UsableEntry[] {
    return this.#entries.index.match(process.selectors);
  }

  /** The bundles that a process gets now: the one of this site, and those of other trust domains. */
  bundlesOf(process: WorkloadProcess): BundleSource {
    const { bundles, trustDomain } = this.#options;
    return {
      bundleFor: (asked) =>
        asked.equals(trustDomain)
          ? bundles.bundleFor(asked)
          : this.#given(this.entriesOf(process), asked.name),
    };
  }

  /** Sends the current state soon, but after this call returned, and all later ones. Returns a function that ends it. */
  subscribe(process: WorkloadProcess, subscriber: Subscriber): () => void {
    let group = this.#groups.get(process.key);
    if (group === undefined) {
      group = { key: process.key, subscriptions: new Set() };
      this.#groups.set(process.key, group);
    }
    const subscription: Subscription = { process, subscriber, version: undefined };
    group.subscriptions.add(subscription);
    this.#enqueue(group);
    return () => this.#remove(group, subscription);
  }

  /** Call it after any change. Several calls in a row trigger one run. */
  refresh(): void {
    if (this.#stopped) return;
    // Deferred, so that a commit that touches several collections triggers one run.
    this.#soon ??= this.#options.clock.timer(0, () => {
      this.#soon = undefined;
      // Also discards states in progress: their SVIDs may be due, or signed by an authority that is now tainted.
      this.#computed = undefined;
      this.#lookedAt = this.#options.federationState.current;
      this.#forgetUnused();
      void this.#askAhead();
      this.#grantsChangeAtMs = undefined;
      for (const group of this.#groups.values()) this.#enqueue(group);
      this.#schedule();
    });
  }

  /** Whether the last state of every open stream lacks the bundle of this trust domain. */
  withholds(trustDomain: string): boolean {
    const told = this.#groups.size === 0 ? this.#options.federationState.current : this.#told;
    return told !== undefined && isWithheldBy(trustDomain, told);
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

  /** One group after the other. A group that waits for a hash or an SVID does not delay the others. */
  async #work(): Promise<void> {
    this.#isWorking = true;
    // `subscribe` must return its unsubscribe function before the first state is sent.
    await Promise.resolve();
    let told = 0;
    this.#failing = false;
    this.#rowStartedMs = this.#options.clock.monotonic();
    for (const group of this.#waiting) {
      this.#waiting.delete(group);
      try {
        told += await this.#update(group);
      } catch (error) {
        this.#fail(group, toHansaError(error));
      }
      if (this.#isLong()) await this.#rest();
    }
    this.#isWorking = false;
    this.#computed = undefined;
    this.#noteTold();
    if (told > 0) this.#options.pushed(told);
    this.#schedule();
  }

  #noteTold(): void {
    if (!this.#isWorking && this.#hashing.size === 0 && this.#issuing.size === 0) {
      this.#told = this.#lookedAt;
    }
  }

  #isLong(): boolean {
    return this.#options.clock.monotonic() - this.#rowStartedMs >= workMs;
  }

  /** During continuous changes, computes and sends a state without a pause, so that streams make progress. */
  #mustRest(): boolean {
    return this.#timesCut < mostTimesCut && this.#isLong();
  }

  async #rest(): Promise<void> {
    await yieldToEventLoop();
    this.#rowStartedMs = this.#options.clock.monotonic();
  }

  async #update(group: Group): Promise<number> {
    const process = processOf(group);
    // All streams of the group have ended meanwhile.
    if (process === undefined) return 0;
    // An entry that selects by program may be newer than the stream. Hashing can take long, so
    // other groups do not wait for it.
    if (this.needsHash && !this.#looked.delete(process)) {
      void this.#hashThenUpdate(group, process);
      return 0;
    }
    const entries = this.#entries.index.match(process.selectors);
    if (entries.length === 0) {
      this.#end(group, (subscriber) => subscriber.denied());
      return 0;
    }
    const withSvids = wantsSvids(group.subscriptions);
    const states = this.#currentStates();
    const svids = withSvids ? this.#svidsOf(group, entries) : [];
    if (svids === undefined) {
      if (!this.#issuing.has(group)) void this.#issueThenUpdate(group, process, entries);
      return 0;
    }
    const names = entries.map(({ name }) => name);
    const serials = svids.map(({ svid }) => svid.serialHex);
    const key = [withSvids ? 'svids' : 'bundles', ...names, ...serials].join('\n');
    const state = states.get(key) ?? (await this.#stateOf(group, entries, svids, states));
    if (state === undefined) {
      this.#enqueue(group);
      return 0;
    }
    states.set(key, state);
    return this.#tell(group, state, states);
  }

  /** Sends the state to the streams that lack it. If it becomes outdated meanwhile, the rest get the next one. */
  async #tell(group: Group, state: WorkloadState, states: States): Promise<number> {
    let told = 0;
    for (const subscription of group.subscriptions) {
      if (this.#mustRest()) {
        await this.#rest();
        if (this.#currentStates() !== states) {
          this.#timesCut++;
          this.#enqueue(group);
          return told;
        }
        if (!group.subscriptions.has(subscription)) continue;
      }
      const { subscriber } = subscription;
      // This stream needs SVIDs and joined after the state was computed. It gets its own update.
      if (subscriber.needsSvids && state.svids.length === 0) continue;
      const version = subscriber.versionOf(state);
      if (version === subscription.version) continue;
      subscription.version = version;
      subscriber.send(state);
      told++;
    }
    this.#timesCut = 0;
    return told;
  }

  async #hashThenUpdate(group: Group, process: WorkloadProcess): Promise<void> {
    this.#hashing.add(group);
    try {
      await process.hashed();
    } finally {
      this.#hashing.delete(group);
    }
    this.#looked.add(process);
    if (this.#groups.get(group.key) === group) this.#enqueue(group);
    else this.#noteTold();
  }

  async #issueThenUpdate(
    group: Group,
    process: WorkloadProcess,
    entries: readonly UsableEntry[],
  ): Promise<void> {
    const { supply, clock } = this.#options;
    const waiting = { isLate: false };
    this.#issuing.set(group, waiting);
    const patience = clock.timer(patienceMs, () => {
      waiting.isLate = true;
      if (this.#groups.get(group.key) === group) this.#enqueue(group);
    });
    let failure: HansaError | undefined;
    try {
      await Promise.all(entries.map((entry) => supply.svidOf(entry)));
    } catch (error) {
      failure = toHansaError(error);
    }
    patience.cancel();
    this.#issuing.delete(group);
    if (this.#groups.get(group.key) !== group) {
      this.#noteTold();
      return;
    }
    const now = new Set(this.#entries.index.match(process.selectors));
    // The failure of an entry that changed meanwhile does not matter.
    if (failure === undefined || !entries.every((entry) => now.has(entry))) this.#enqueue(group);
    else {
      this.#fail(group, failure);
      this.#schedule();
    }
  }

  /** Undefined if the group waits for SVIDs. */
  #svidsOf(group: Group, entries: readonly UsableEntry[]): readonly HintedSvid[] | undefined {
    const { supply } = this.#options;
    const isLate = this.#issuing.get(group)?.isLate === true;
    const hints = hintsOf(entries);
    const svids: HintedSvid[] = [];
    for (const [at, entry] of entries.entries()) {
      const svid = isLate ? supply.usable(entry) : supply.ready(entry);
      if (svid === undefined) return undefined;
      svids.push({ hint: hints[at] ?? '', svid });
    }
    return svids;
  }

  /** Undefined if an input changed meanwhile. */
  async #stateOf(
    { subscriptions }: Group,
    entries: readonly UsableEntry[],
    svids: readonly HintedSvid[],
    states: States,
  ): Promise<WorkloadState | undefined> {
    const { federationState, clock } = this.#options;
    const own = this.#ownBundle();
    const prepare = new Set([...subscriptions].map(({ subscriber }) => subscriber.prepare));
    const steps = givenBundles(entries, federationState.current, clock.now(), (bundle) => {
      for (const one of prepare) one?.(bundle);
    });
    for (;;) {
      const { done, value: given } = steps.next();
      if (done === true) {
        this.#grantsChangeAtMs = earlier(this.#grantsChangeAtMs, given.changesAtMs);
        return new WorkloadState(entries, svids, own, given.federated, given.peers);
      }
      if (!this.#mustRest()) continue;
      await this.#rest();
      if (this.#currentStates() === states) continue;
      this.#timesCut++;
      return undefined;
    }
  }

  #ownBundle(): Bundle {
    return this.#options.bundles.bundleFor(this.#options.trustDomain) as Bundle;
  }

  /** Returns a new map when an input of the states has changed. */
  #currentStates(): States {
    const { version } = this.#entries.index;
    const federationState = this.#options.federationState.current;
    const own = this.#ownBundle();
    const known = this.#computed;
    if (
      known?.version === version &&
      known.federationState === federationState &&
      known.own === own
    ) {
      return known.states;
    }
    this.#computed = { version, federationState, own, states: new Map() };
    return this.#computed.states;
  }

  #given(entries: readonly UsableEntry[], trustDomain: string): Bundle | undefined {
    const { clock } = this.#options;
    const federationState = this.#options.federationState.current;
    for (const entry of entries) {
      if (!asksFor(entry, trustDomain, federationState)) continue;
      const { bundle } = entitlement(entry.id, trustDomain, federationState, clock.now());
      if (bundle !== undefined) return bundle;
    }
    return undefined;
  }

  #fail(group: Group, error: HansaError): void {
    this.#failing = true;
    this.#end(group, (subscriber) => subscriber.failed(error));
    this.#noteTold();
  }

  #end(group: Group, tell: (subscriber: Subscriber) => void): void {
    const ended = [...group.subscriptions];
    group.subscriptions.clear();
    this.#forget(group);
    for (const { subscriber } of ended) tell(subscriber);
  }

  #forgetUnused(): void {
    const used = new Set<string>();
    const index = this.#entries.index;
    for (const group of this.#groups.values()) {
      // Only a stream of SVIDs renews one that is due.
      if (!wantsSvids(group.subscriptions)) continue;
      for (const { name } of index.match(processOf(group)?.selectors ?? [])) used.add(name);
    }
    for (const { name } of this.#entriesAhead()) used.add(name);
    this.#options.supply.keep(this.#entries, used);
  }

  async #askAhead(): Promise<void> {
    const ahead = this.#entriesAhead();
    if (ahead.length === 0) return;
    const made = await this.#options.supply.prepare(ahead);
    if (made > 0) this.refresh();
    else this.#schedule();
  }

  #entriesAhead(): readonly UsableEntry[] {
    const { entriesAhead = 0 } = this.#options;
    return entriesAhead === 0 ? [] : this.#entries.first(entriesAhead);
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
  for (const { subscriber } of subscriptions) if (subscriber.needsSvids) return true;
  return false;
}
