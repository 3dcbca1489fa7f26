// The store of one process: the current state in memory, and one committer in front of a driver.

import type { Clock, Timer } from '../clock/clock.ts';
import { HansaError } from '../errors/error.ts';
import type { Log } from '../log/log.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { StoredAuditLog } from './current/audit-log.ts';
import { checkCommit } from './commit/check-commit.ts';
import { Collections } from './current/collections.ts';
import { closedError, Committer } from './commit/committer.ts';
import { TransactionDraft } from './commit/transaction-draft.ts';
import type { Base, Batch, Driver, FactRow, Foreign, Head } from './driver.ts';
import { FactTable } from './current/facts.ts';
import type { HistoryLimits } from './current/history.ts';
import { History } from './current/history.ts';
import { CommittedLeases } from './commit/lease-table.ts';
import type { Loaded } from './current/load.ts';
import { changeOfRow, checkComplete, loadState } from './current/load.ts';
import { forgetValue } from './reader.ts';
import type {
  AuditLog,
  Change,
  Commit,
  Committed,
  Entry,
  Facts,
  LeaseState,
  LeaseTable,
  Listing,
  Store,
  Watch,
  Watcher,
} from './store.ts';
import { StoreMetrics } from './store-metrics.ts';
import { Watchers } from './current/watchers.ts';

export interface ReplicaOptions {
  readonly clock: Clock;
  readonly log?: Log | undefined;
  readonly metrics?: Metrics | undefined;
  readonly history: HistoryLimits;
}

/** How long facts are gathered before they are written. */
const factsIntervalMs = 1000;
/** Most rows of facts and compacted changes in one transaction, because commits wait behind it. */
const housekeepingRows = 512;

export class Replica implements Store {
  readonly facts: Facts;
  readonly leases: LeaseTable;
  readonly auditLog: AuditLog;

  readonly #options: ReplicaOptions;
  readonly #driver: Driver;
  readonly #collections: Collections;
  readonly #history: History;
  readonly #leases: Map<string, LeaseState>;
  readonly #watchers: Watchers;
  readonly #facts: FactTable;
  readonly #committer: Committer;
  #head: Head;
  /** Drafts that are being written, oldest first. */
  #ahead: readonly TransactionDraft[] = [];
  /** The one among them, if any, that carries facts or compacts. */
  #housekeeper: TransactionDraft | undefined;
  /** The pending target of `compact`. */
  #compactTarget = 0;
  /** Facts that are in the transaction being written. */
  #factsInFlight: readonly FactRow[] = [];
  #factsTimer: Timer | undefined;
  #factsDue = false;
  #closed: Promise<void> | undefined;

  static async open(driver: Driver, options: ReplicaOptions): Promise<Replica> {
    try {
      return new Replica(driver, options, await loadState(driver));
    } catch (error) {
      await driver.close();
      throw error;
    }
  }

  private constructor(driver: Driver, options: ReplicaOptions, loaded: Loaded) {
    this.#driver = driver;
    this.#options = options;
    this.#head = loaded.head;
    this.#collections = loaded.collections;
    this.#history = loaded.history;
    this.#leases = new Map(loaded.leases.map((lease) => [lease.name, lease]));
    this.#watchers = new Watchers(options.log);
    const { clock, log } = options;
    const metrics =
      options.metrics === undefined
        ? undefined
        : new StoreMetrics(options.metrics, () => ({
            revision: this.#head.revision,
            compactedRevision: this.#head.compactedRevision,
            records: this.#collections.size,
            watchers: this.#watchers.count,
            waiting: this.#committer.waiting,
            auditSize: this.#head.treeSize,
          }));
    this.#committer = new Committer({
      driver,
      clock,
      log,
      metrics,
      host: {
        draft: (base) => this.#draft(base),
        housekeep: (draft) => this.#housekeep(draft),
        needsHousekeeping: () =>
          this.#housekeeper === undefined &&
          (this.#factsDue || this.#compactionTarget('quiet') !== undefined),
        written: (draft, batch) => this.#written(draft, batch),
        notWritten: (draft) => this.#notWritten(draft),
      },
    });
    this.#facts = new FactTable(loaded.facts, () => this.#armFacts());
    this.facts = this.#facts;
    this.leases = new CommittedLeases(this.#committer, this.#leases);
    this.auditLog = new StoredAuditLog(
      driver,
      () => this.#head,
      () => this.#refuseIfClosed(),
    );
  }

  get problem(): HansaError | undefined {
    return this.#committer.problem;
  }

  get revision(): number {
    return this.#head.revision;
  }

  get compactedRevision(): number {
    return this.#history.compactedRevision;
  }

  get(collection: string, name: string): Entry | undefined {
    this.#refuseIfClosed();
    return this.#collections.get(collection, name);
  }

  list(collection: string): Listing {
    this.#refuseIfClosed();
    return { entries: this.#collections.list(collection), revision: this.#head.revision };
  }

  count(collection: string): number {
    this.#refuseIfClosed();
    return this.#collections.count(collection);
  }

  watch(collection: string, after: number, watcher: Watcher): Watch {
    this.#refuseIfClosed();
    if (!Number.isSafeInteger(after) || after < this.compactedRevision || after > this.revision) {
      throw new HansaError(
        'HANSA_EXPIRED',
        `Cannot watch ${collection} from revision ${after}: the store has changes from ${this.compactedRevision} to ${this.revision}. List again and continue from there.`,
      );
    }
    const backlog = this.#history.since(collection, after);
    return this.#watchers.add(collection, this.revision, backlog, watcher);
  }

  async commit(commit: Commit): Promise<Committed> {
    checkCommit(commit);
    return this.#committer.run((draft) => draft.commit(commit));
  }

  async compact(revision: number): Promise<void> {
    this.#refuseIfClosed();
    if (!Number.isSafeInteger(revision) || revision > this.revision) {
      throw new HansaError(
        'HANSA_BAD_REQUEST',
        `Cannot compact to revision ${revision}: the store is at ${this.revision}.`,
      );
    }
    // In steps, so that commits can run in between.
    while (this.compactedRevision < revision) {
      this.#compactTarget = Math.max(this.#compactTarget, revision);
      await this.#committer.run(() => undefined);
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#factsTimer?.cancel();
    this.#factsDue = this.#facts.dirty;
    // A healthy database finishes within this time. One that does not report whether it has a batch
    // must not block the shutdown for ever.
    const patience = this.#options.clock.timer(5000, () => this.#committer.giveUp());
    await this.#committer.close();
    patience.cancel();
    this.#watchers.endAll(closedError());
    await this.#driver.close();
  }

  #refuseIfClosed(): void {
    if (this.#closed !== undefined) throw closedError();
  }

  #draft(base: Base): TransactionDraft {
    if (base.foreign !== undefined) this.#adopt(base.foreign);
    const ahead = this.#ahead;
    const head = ahead.at(-1)?.head ?? this.#head;
    const draft = new TransactionDraft(
      { head, collections: this.#collections, leases: this.#leases, ahead },
      base.nowMs,
    );
    this.#ahead = [...ahead, draft];
    return draft;
  }

  /** Applies the changes of other replicas as if they had been committed here. */
  #adopt(foreign: Foreign): void {
    checkComplete(foreign, this.#head.revision);
    const changes = foreign.changes.map((row) => this.#apply(changeOfRow(this.#collections, row)));
    for (const lease of foreign.leases) this.#leases.set(lease.name, lease);
    this.#head = foreign.head;
    if (this.#history.compactedRevision < foreign.head.compactedRevision) {
      this.#history.compact(foreign.head.compactedRevision);
    }
    this.#tell(changes);
  }

  /** Returns the change for watchers. */
  #apply(change: Change): Change {
    const { collection, name, entry } = change;
    const facts = entry === undefined ? this.#facts.get(collection, name) : undefined;
    const told = facts === undefined ? change : { ...change, facts };
    this.#collections.apply(told);
    this.#history.push(told);
    if (entry === undefined) this.#facts.delete(collection, name);
    return told;
  }

  /** While commits wait, history may grow to twice its limit: compaction runs in quiet moments. */
  #compactionTarget(load: 'quiet' | 'busy'): number | undefined {
    const { maxChanges, maxBytes } = this.#options.history;
    const limits =
      load === 'quiet'
        ? { maxChanges, maxBytes }
        : { maxChanges: 2 * maxChanges, maxBytes: 2 * maxBytes };
    const overdue = this.#history.overdue(limits) ?? 0;
    const target = Math.max(this.#compactTarget, overdue);
    return target > this.compactedRevision ? target : undefined;
  }

  #housekeep(draft: TransactionDraft): void {
    // One at a time: history and facts are those of what is written.
    if (this.#housekeeper !== undefined) return;
    const target = this.#compactionTarget(draft.rows > 0 ? 'busy' : 'quiet');
    if (target !== undefined) {
      const step = Math.min(target, this.compactedRevision + housekeepingRows);
      draft.compact(step, this.#history.supersededBy(step));
      this.#housekeeper = draft;
    }
    if (this.#factsDue) {
      this.#housekeeper = draft;
      this.#factsInFlight = this.#facts.take(housekeepingRows);
      draft.setFacts(this.#factsInFlight);
    }
  }

  #written(draft: TransactionDraft, batch: Batch | undefined): void {
    this.#ahead = this.#ahead.filter((other) => other !== draft);
    const changes = draft.changes.map((change) => this.#apply(change));
    if (batch !== undefined) this.#head = batch.head;
    for (const [name, lease] of draft.leases) this.#leases.set(name, lease);
    const { compactedRevision } = this.#head;
    if (compactedRevision > this.#history.compactedRevision) {
      this.#history.compact(compactedRevision);
    }
    if (compactedRevision >= this.#compactTarget) this.#compactTarget = 0;
    if (draft === this.#housekeeper) {
      this.#housekeeper = undefined;
      this.#factsInFlight = [];
      this.#factsDue &&= this.#facts.dirty;
    }
    this.#tell(changes);
  }

  #tell(changes: readonly Change[]): void {
    this.#watchers.deliver(changes);
    for (const { previous } of changes) if (previous !== undefined) forgetValue(previous);
  }

  #notWritten(draft: TransactionDraft | undefined): void {
    this.#ahead = this.#ahead.filter((other) => other !== draft);
    this.#compactTarget = 0;
    if (this.#housekeeper !== undefined && this.#housekeeper !== draft) return;
    this.#housekeeper = undefined;
    const rows = this.#factsInFlight;
    this.#factsInFlight = [];
    this.#factsDue = false;
    this.#facts.giveBack(rows);
    if (this.#facts.dirty) this.#armFacts();
  }

  #armFacts(): void {
    if (this.#closed !== undefined || this.#factsDue || this.#factsTimer !== undefined) return;
    this.#factsTimer = this.#options.clock.timer(factsIntervalMs, () => {
      this.#factsTimer = undefined;
      this.#factsDue = true;
      this.#committer.wake();
    });
  }
}
