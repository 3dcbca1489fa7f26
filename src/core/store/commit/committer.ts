// The single writer of a replica. Waiting commits share a transaction, in the order of the calls:
// under load they share the cost of a durable write, and a lone commit does not wait.
//
// If the driver allows it, the committer plans the next transaction and passes it to the driver while
// one is being written. The next one builds on the first and fails with it. Transactions settle in
// order: readers, watchers and callers see one only when it and all earlier ones are durable.

import type { Clock } from '../../clock/clock.ts';
import { sleep } from '../../clock/clock.ts';
import { HansaError, toHansaError } from '../../errors/error.ts';
import type { Log } from '../../log/log.ts';
import type { Base, Batch, Driver } from '../driver.ts';
import { TransactionFailed } from '../driver.ts';
import type { TransactionDraft } from './transaction-draft.ts';
import type { StoreMetrics } from '../store-metrics.ts';

/** Limits of one transaction, which bound the time on the event loop and the wait of a commit. */
const maxBatchRows = 1024;
const maxBatchBytes = 4 * 1024 * 1024;
/** Commits that may wait at once. */
const maxWaiting = 16_384;
/** How long to wait before asking the database again whether it holds a batch. */
const askAgainMs = 250;

/** Commits are spread over several transactions only where each gets this many. */
const minShare = 8;

/**
 * The driver begins to write when this share of the commits is planned, where there are at least
 * `minFirst`: planning the rest then takes about as long as writing the first.
 */
const firstShare = 1 / 3;
const minFirst = 4;

/** The part of the store that the committer needs. */
export interface CommitterHost {
  /** A new draft on top of the current state, pending transactions and changes of other replicas. */
  draft(base: Base): TransactionDraft;
  /** Adds background writes: facts and compaction. */
  housekeep(draft: TransactionDraft): void;
  /** Whether `housekeep` has work that should not wait for the next commit. */
  needsHousekeeping(): boolean;
  /** The batch is in the database (undefined where nothing changed): make it current. */
  written(draft: TransactionDraft, batch: Batch | undefined): void;
  /** The batch is not in the database; undefined where nothing was planned. */
  notWritten(draft: TransactionDraft | undefined): void;
}

interface Job {
  /** Adds to the draft, or throws the error that rejects only this job. */
  readonly plan: (draft: TransactionDraft) => () => void;
  readonly reject: (error: HansaError) => void;
  readonly sinceMs: number;
}

/** One transaction, from the call of the driver until its callers have the result. */
interface Flight {
  readonly jobs: { readonly job: Job; readonly finish: () => void }[];
  readonly startedMs: number;
  /** Undefined until the driver has called for the batch. */
  draft: TransactionDraft | undefined;
  batch: Batch | undefined;
  /** The driver reported an error with a possibly unknown outcome, so nothing may build on it. */
  failing: boolean;
  /** Why it cannot be written: an earlier transaction failed. */
  doom: HansaError | undefined;
}

export interface CommitterOptions {
  readonly driver: Driver;
  readonly host: CommitterHost;
  readonly clock: Clock;
  readonly log: Log | undefined;
  readonly metrics: StoreMetrics | undefined;
}

export class Committer {
  readonly #options: CommitterOptions;
  #problem: HansaError | undefined;
  #waiting: Job[] = [];
  /** Oldest first. */
  #flights: Flight[] = [];
  /** Resolves when the last flight so far is settled. */
  #settled: Promise<void> = Promise.resolve();
  #settledMs = 0;
  #scheduled = false;
  /** A failed transaction with only housekeeping is not repeated: the next commit includes it. */
  #healthy = true;
  #closing = false;
  readonly #closed = new AbortController();

  constructor(options: CommitterOptions) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Resolves with the result of `plan` once it is durable and current. */
  run<T>(plan: (draft: TransactionDraft) => T): Promise<T> {
    if (this.#closing) return Promise.reject(closedError());
    if (this.#waiting.length >= maxWaiting) {
      return Promise.reject(
        new HansaError(
          'HANSA_TOO_MANY_REQUESTS',
          `Cannot write: ${maxWaiting} writes are already waiting. Try again shortly.`,
          { details: { retryAfterSeconds: 1 } },
        ),
      );
    }
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({
        plan: (draft) => {
          const result = plan(draft);
          return () => resolve(result);
        },
        reject,
        sinceMs: this.#options.clock.monotonic(),
      });
      this.wake();
    });
  }

  /** Starts a transaction if commits wait and the driver has capacity. */
  wake(): void {
    this.#healthy = true;
    this.#schedule();
  }

  /** Finishes waiting commits; rejects later ones. */
  async close(): Promise<void> {
    this.#closing = true;
    this.wake();
    while (this.#scheduled || this.#flights.length > 0) await this.#settled;
    this.#closed.abort(closedError());
  }

  /** Stops waiting for a batch with an unknown outcome. Only after `close`. */
  giveUp(): void {
    this.#closed.abort(closedError());
  }

  /** Why the last transaction was not written; undefined where it was. */
  get problem(): HansaError | undefined {
    return this.#problem;
  }

  /** In a microtask, so that the commits of one turn share a transaction. */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      while (this.#mayBegin()) this.#begin();
    });
  }

  #mayBegin(): boolean {
    const { driver, host } = this.#options;
    const first = this.#flights.length === 0;
    if (!first) {
      if (this.#waiting.length === 0 || this.#flights.length >= driver.maxInFlight) return false;
      return this.#flights.every(
        ({ draft, failing, doom }) => draft !== undefined && !failing && doom === undefined,
      );
    }
    return this.#waiting.length > 0 || (this.#healthy && host.needsHousekeeping());
  }

  #begin(): void {
    const flight: Flight = {
      jobs: [],
      startedMs: this.#options.clock.monotonic(),
      draft: undefined,
      batch: undefined,
      failing: false,
      doom: undefined,
    };
    this.#flights.push(flight);
    const answer = this.#options.driver
      .transact((base) => this.#build(flight, base))
      .then(
        () => undefined,
        (error: unknown) => {
          flight.failing = true;
          return { error };
        },
      );
    this.#settled = this.#settle(flight, answer, this.#settled);
  }

  #build(flight: Flight, base: Base): Batch | undefined {
    const { driver, host } = this.#options;
    const draft = host.draft(base);
    flight.draft = draft;
    let left = shareOf(
      this.#waiting.length,
      this.#flights.reduce((sum, { jobs }) => sum + jobs.length, 0),
      driver.maxInFlight,
    );
    const first = base.writeFirst === undefined ? 0 : Math.floor(left * firstShare);
    while (left-- > 0 && draft.rows < maxBatchRows && draft.bytes < maxBatchBytes) {
      const job = this.#waiting.shift() as Job;
      flight.jobs.push({ job, finish: this.#plan(job, draft) });
      if (first >= minFirst && flight.jobs.length === first && draft.changes.length > 0) {
        base.writeFirst?.(draft.first());
      }
    }
    host.housekeep(draft);
    flight.batch = draft.batch();
    this.#schedule();
    return flight.batch;
  }

  async #settle(
    flight: Flight,
    answer: Promise<{ readonly error: unknown } | undefined>,
    ahead: Promise<void>,
  ): Promise<void> {
    await ahead;
    const failed = await answer;
    // A doomed transaction is not in the database, as its base is not. One that changes nothing also
    // depends on a base that was never written.
    const failure =
      flight.doom ??
      (failed === undefined ? undefined : await this.#failureOf(failed.error, flight.batch));
    this.#flights.shift();
    if (failure === undefined) this.#succeed(flight);
    else this.#fail(flight, failure);
    this.#settledMs = this.#options.clock.monotonic();
    this.#schedule();
  }

  #succeed({ draft, batch, jobs, startedMs }: Flight): void {
    const { host, metrics, clock } = this.#options;
    if (batch !== undefined) this.#problem = undefined;
    if (draft !== undefined) host.written(draft, batch);
    // Exclude the time that it waited for the previous transaction.
    const sinceMs = Math.max(startedMs, this.#settledMs);
    metrics?.written(jobs.length, batch, clock.monotonic() - sinceMs);
    for (const { finish } of jobs) finish();
    this.#healthy = true;
  }

  #fail({ draft, jobs }: Flight, failure: HansaError): void {
    this.#problem = failure;
    this.#healthy = false;
    for (const flight of this.#flights) flight.doom ??= failure;
    this.#options.host.notWritten(draft);
    // A transaction that could not begin took no jobs. Those that wait would try again at once, and
    // for ever.
    const rejected = draft === undefined ? this.#waiting.splice(0) : jobs.map(({ job }) => job);
    for (const job of rejected) {
      this.#options.metrics?.failed(failure);
      job.reject(failure);
    }
  }

  /**
   * Rejections are also delivered only when the transaction is done, so that a caller that reads again
   * sees the change that it conflicted with.
   */
  #plan(job: Job, draft: TransactionDraft): () => void {
    const { metrics, clock } = this.#options;
    try {
      const resolve = job.plan(draft);
      return () => {
        metrics?.committed(clock.monotonic() - job.sinceMs);
        resolve();
      };
    } catch (thrown) {
      const error = toHansaError(thrown);
      return () => {
        metrics?.failed(error);
        job.reject(error);
      };
    }
  }

  /** The error for the callers, or undefined where the batch was written after all. */
  async #failureOf(error: unknown, batch: Batch | undefined): Promise<HansaError | undefined> {
    const { driver, clock, log } = this.#options;
    if (!(error instanceof TransactionFailed)) {
      log?.error('store driver failed unexpectedly', { error });
      return toHansaError(error);
    }
    log?.warn('store transaction failed', { error: error.error, outcome: error.outcome });
    if (error.outcome === 'none' || batch === undefined) return error.error;
    // The result of the commit must match the disk, so ask the database until it answers.
    for (;;) {
      try {
        return (await driver.holds(batch)) ? undefined : error.error;
      } catch (cause) {
        log?.warn('the outcome of a store transaction is unknown; asking the database again', {
          error: cause,
        });
        try {
          await sleep(clock, askAgainMs, this.#closed.signal);
        } catch {
          return error.error;
        }
      }
    }
  }
}

/** An equal share of waiting and pending commits, so that no transaction starves. */
function shareOf(waiting: number, inFlight: number, flights: number): number {
  const share = Math.max(minShare, Math.ceil((waiting + inFlight) / flights));
  return Math.min(waiting, flights > 1 ? share : waiting);
}

export function closedError(): HansaError {
  return new HansaError(
    'HANSA_UNAVAILABLE',
    'Cannot use the store: it is closed because the site is stopping. Try again when the site is back.',
  );
}
