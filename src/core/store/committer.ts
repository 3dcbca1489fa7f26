// The one writer of a replica. Whatever waits when the database is free goes into one transaction,
// in the order of the calls: under load the cost of a durable write is shared by all that wait,
// and a lone commit waits for nobody.

import type { Clock } from '../clock/clock.ts';
import { sleep } from '../clock/clock.ts';
import { HansaError, toHansaError } from '../errors/error.ts';
import type { Log } from '../log/log.ts';
import type { Base, Batch, Driver } from './driver.ts';
import { TransactionFailed } from './driver.ts';
import type { Draft } from './draft.ts';
import type { StoreMetrics } from './store-metrics.ts';

/** Bounds of one transaction: what the loop may hold up other work for, and how long a commit may wait. */
const maxBatchRows = 1024;
const maxBatchBytes = 4 * 1024 * 1024;
/** Commits that may wait at once. */
const maxWaiting = 16_384;
/** How long to wait before asking the database again whether it holds a batch. */
const askAgainMs = 250;

/** What the committer needs of the store around it. */
export interface CommitterHost {
  /** A new draft on what is current, after the changes of other replicas have been taken over. */
  draft(base: Base): Draft;
  /** Adds what is written when there is time: facts, compaction. */
  housekeep(draft: Draft): void;
  /** Whether `housekeep` has something that should not wait for the next commit. */
  needsHousekeeping(): boolean;
  /** The database has the batch: make it current. */
  written(draft: Draft, batch: Batch): void;
  /** The database does not have it. */
  notWritten(batch: Batch | undefined): void;
}

interface Job {
  /** Adds to the draft, or throws what this job alone is rejected with. */
  readonly plan: (draft: Draft) => () => void;
  readonly reject: (error: HansaError) => void;
  readonly sinceMs: number;
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
  #running: Promise<void> | undefined;
  #closing = false;
  readonly #closed = new AbortController();

  constructor(options: CommitterOptions) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Resolves with what `plan` returned, once that is durable and current. */
  run<T>(plan: (draft: Draft) => T): Promise<T> {
    if (this.#closing) return Promise.reject(closedError());
    if (this.#waiting.length >= maxWaiting) {
      return Promise.reject(
        new HansaError(
          'HANSA_TOO_MANY_REQUESTS',
          `Cannot write: ${maxWaiting} writes are waiting already. Try again shortly.`,
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

  /** Starts writing where something waits and nothing is being written. */
  wake(): void {
    // The loop begins in a microtask, so that the commits of one turn share a transaction.
    this.#running ??= Promise.resolve()
      .then(() => this.#loop())
      .finally(() => {
        this.#running = undefined;
        if (this.#waiting.length > 0) this.wake();
      });
  }

  /** Finishes what waits; refuses what comes later. */
  async close(): Promise<void> {
    this.#closing = true;
    // Twice: a loop that is just ending does not look for work again.
    await this.#running;
    this.wake();
    await this.#running;
    this.#closed.abort(closedError());
  }

  /** Gives up on a batch whose fate the database does not tell. Only after `close` was called. */
  giveUp(): void {
    this.#closed.abort(closedError());
  }

  async #loop(): Promise<void> {
    let healthy = true;
    // Housekeeping alone is not repeated after a failure: the next commit tries again.
    while (this.#waiting.length > 0 || (healthy && this.#options.host.needsHousekeeping())) {
      healthy = await this.#transact();
    }
  }

  /** Why the last transaction was not written; undefined where it was. */
  get problem(): HansaError | undefined {
    return this.#problem;
  }

  async #transact(): Promise<boolean> {
    const { driver, host, metrics } = this.#options;
    const jobs: { readonly job: Job; readonly finish: () => void }[] = [];
    const startedMs = this.#options.clock.monotonic();
    let draft: Draft | undefined;
    let batch: Batch | undefined;
    try {
      await driver.transact((base) => {
        draft = host.draft(base);
        while (
          this.#waiting.length > 0 &&
          draft.rows < maxBatchRows &&
          draft.bytes < maxBatchBytes
        ) {
          const job = this.#waiting.shift() as Job;
          jobs.push({ job, finish: this.#plan(job, draft) });
        }
        host.housekeep(draft);
        batch = draft.batch();
        return batch;
      });
    } catch (error) {
      const failure = await this.#failureOf(error, batch);
      if (failure !== undefined) {
        this.#problem = failure;
        host.notWritten(batch);
        for (const { job } of jobs) {
          metrics?.failed(failure);
          job.reject(failure);
        }
        return false;
      }
    }
    if (draft !== undefined && batch !== undefined) {
      this.#problem = undefined;
      host.written(draft, batch);
    }
    metrics?.written(jobs.length, batch, this.#options.clock.monotonic() - startedMs);
    for (const { finish } of jobs) finish();
    return true;
  }

  /**
   * Also what was refused is told only when the transaction is done: a caller that reads again then
   * finds what stood in its way.
   */
  #plan(job: Job, draft: Draft): () => void {
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

  /** What the callers are told, or undefined where the batch turned out to be written. */
  async #failureOf(error: unknown, batch: Batch | undefined): Promise<HansaError | undefined> {
    const { driver, clock, log } = this.#options;
    if (!(error instanceof TransactionFailed)) {
      log?.error('store driver failed in an unforeseen way', { error });
      return toHansaError(error);
    }
    log?.warn('store transaction failed', { error: error.error, outcome: error.outcome });
    if (error.outcome === 'none' || batch === undefined) return error.error;
    // To reject a commit that is on disk would be a lie, as would the contrary: the database is
    // asked until it answers.
    for (;;) {
      try {
        return (await driver.holds(batch)) ? undefined : error.error;
      } catch (cause) {
        log?.warn('store cannot tell whether a transaction was written; asking again', {
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

export function closedError(): HansaError {
  return new HansaError(
    'HANSA_UNAVAILABLE',
    'Cannot use the store: it was closed. The site is stopping; try again when it is back.',
  );
}
