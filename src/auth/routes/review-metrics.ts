// Metrics of reviews: how many, with which result, and how long they took.

import type { Metrics } from '../../core/metrics/metrics.ts';

export type ReviewResult = 'authenticated' | 'denied' | 'unchecked';

/** From fifty microseconds, a cached verdict, to ten seconds. */
const buckets = [
  0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
  5, 10,
];

export class ReviewMetrics {
  readonly #reviews;
  readonly #durations;
  readonly #v1;

  constructor(metrics: Pick<Metrics, 'counter' | 'histogram'>) {
    this.#reviews = metrics.counter({
      name: 'hansa_token_reviews_total',
      help: 'Token reviews by cluster and result: authenticated, denied, or unchecked (HTTP 503).',
      labels: ['cluster', 'result'],
    });
    this.#durations = metrics.histogram({
      name: 'hansa_token_review_duration_seconds',
      help: 'Time from the start of a token review to its verdict, with the receipt of the body, by cluster.',
      labels: ['cluster'],
      buckets,
    });
    this.#v1 = metrics.counter({
      name: 'hansa_validate_v1_requests_total',
      help: 'Calls of the deprecated POST /validate, by caller.',
      labels: ['caller'],
    });
  }

  /** `cluster` is registered. */
  count(cluster: string, result: ReviewResult, durationMs: number): void {
    this.#reviews.add({ cluster, result });
    this.#durations.observe({ cluster }, durationMs / 1000);
  }

  countV1(caller: string): void {
    this.#v1.add({ caller });
  }

  /** Drops the series of a cluster that is gone. */
  forget(cluster: string): void {
    this.#reviews.forget({ cluster });
    this.#durations.forget({ cluster });
  }
}
