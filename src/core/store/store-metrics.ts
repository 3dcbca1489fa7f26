// Metrics of the store.

import { HansaError } from '../errors/error.ts';
import type { Counter, Histogram, Metrics } from '../metrics/metrics.ts';
import type { Batch } from './driver.ts';

export interface StoreGauges {
  readonly revision: number;
  readonly compactedRevision: number;
  readonly records: number;
  readonly watchers: number;
  readonly waiting: number;
  readonly auditSize: number;
}

/** From a fast SSD's flush to a disk that is in trouble. */
const secondsBuckets = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10,
];
const sizeBuckets = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

export class StoreMetrics {
  readonly #commitSeconds: Histogram<never>;
  readonly #transactionSeconds: Histogram<never>;
  readonly #batchCommits: Histogram<never>;
  readonly #changes: Counter<never>;
  readonly #commits: Counter<'result'>;

  constructor(metrics: Metrics, read: () => StoreGauges) {
    this.#commitSeconds = metrics.histogram({
      name: 'hansa_store_commit_duration_seconds',
      help: 'Time from the call of commit until it was durable, including the wait.',
      buckets: secondsBuckets,
    });
    this.#transactionSeconds = metrics.histogram({
      name: 'hansa_store_transaction_duration_seconds',
      help: 'Duration of one database transaction.',
      buckets: secondsBuckets,
    });
    this.#batchCommits = metrics.histogram({
      name: 'hansa_store_batch_commits',
      help: 'Commits that shared one transaction.',
      buckets: sizeBuckets,
    });
    this.#changes = metrics.counter({
      name: 'hansa_store_changes_total',
      help: 'Puts and deletions written.',
    });
    this.#commits = metrics.counter({
      name: 'hansa_store_commits_total',
      help: 'Commits by result: ok, or the error code.',
      labels: ['result'],
    });
    const gauges: readonly [string, string, (state: StoreGauges) => number][] = [
      ['hansa_store_revision', 'The revision of the store.', (state) => state.revision],
      [
        'hansa_store_compacted_revision',
        'The oldest revision from which a watch can resume.',
        (state) => state.compactedRevision,
      ],
      ['hansa_store_records', 'Records in the store.', (state) => state.records],
      ['hansa_store_watchers', 'Open watches on the store.', (state) => state.watchers],
      ['hansa_store_waiting_commits', 'Waiting commits.', (s) => s.waiting],
      ['hansa_audit_rows', 'Audit records in the store.', (state) => state.auditSize],
    ];
    for (const [name, help, value] of gauges) {
      metrics.observe({ name, help }, (report) => report({}, value(read())));
    }
  }

  committed(durationMs: number): void {
    this.#commitSeconds.observe({}, durationMs / 1000);
    this.#commits.add({ result: 'ok' });
  }

  failed(error: unknown): void {
    this.#commits.add({ result: error instanceof HansaError ? error.code : 'HANSA_INTERNAL' });
  }

  written(commits: number, batch: Batch | undefined, durationMs: number): void {
    if (batch === undefined) return;
    this.#transactionSeconds.observe({}, durationMs / 1000);
    this.#batchCommits.observe({}, commits);
    this.#changes.add({}, batch.changes.length);
  }
}
