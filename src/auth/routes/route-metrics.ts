// Metrics of the review routes: how many answers of which kind, how long they took, and who calls version 1.
// The reviewer counts verdicts, those about callers' own tokens included (auth/forward/review-metrics.ts).

import type { Metrics } from '../../core/metrics/metrics.ts';

export type ReviewResult = 'authenticated' | 'denied' | 'unchecked';

/** From fifty microseconds, for a cached verdict, to ten seconds. */
const buckets = [
  0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
  5, 10,
];

type Series = Partial<Record<ReviewResult, { observe(seconds: number): void }>>;

export class RouteMetrics {
  readonly #durations;
  readonly #v1;
  readonly #series = new Map<string, Series>();

  constructor(metrics: Pick<Metrics, 'counter' | 'histogram'>) {
    this.#durations = metrics.histogram({
      name: 'hansa_token_review_duration_seconds',
      help: 'Time from a complete TokenReview request to its verdict, by cluster and result: authenticated, denied, or unchecked (HTTP 503).',
      labels: ['cluster', 'result'],
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
    let series = this.#series.get(cluster);
    if (series === undefined) this.#series.set(cluster, (series = {}));
    series[result] ??= this.#durations.series({ cluster, result });
    series[result].observe(durationMs / 1000);
  }

  countV1(caller: string): void {
    this.#v1.add({ caller });
  }

  /** Drops the series of a cluster that is gone. */
  forget(cluster: string): void {
    this.#series.delete(cluster);
    this.#durations.forget({ cluster });
  }
}
