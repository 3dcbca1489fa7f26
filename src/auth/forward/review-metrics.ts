// The metrics of reviews, by cluster. Counts are plain numbers that a scrape reads, because counting must cost
// next to nothing at 20,000 reviews a second.

import type { Histogram, Metrics } from '../../core/metrics/metrics.ts';
import type { Verdict } from '../review/verdict.ts';
import { UncheckedError, uncheckedReasons, type UncheckedReason } from './unchecked-error.ts';
import type { VerdictCache } from './verdict-cache.ts';

/** What one process counted for one cluster. */
export class ClusterCounts {
  authenticated = 0;
  denied = 0;
  hits = 0;
  misses = 0;
  inFlight = 0;
  readonly unchecked = new Map<UncheckedReason | 'internal', number>();

  decided({ authenticated }: Verdict): void {
    if (authenticated) this.authenticated++;
    else this.denied++;
  }

  notDecided(caught: unknown): void {
    const reason = caught instanceof UncheckedError ? caught.reason : 'internal';
    this.unchecked.set(reason, (this.unchecked.get(reason) ?? 0) + 1);
  }
}

/** Ten for each of a thousand clusters. */
const mostSeries = 10_000;

const seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

export class ReviewMetrics {
  readonly #counts = new Map<string, ClusterCounts>();
  readonly #durations: Histogram<'cluster'>;

  constructor(metrics: Metrics, cache: Pick<VerdictCache, 'bytes' | 'size'>) {
    this.#durations = metrics.histogram({
      name: 'hansa_cluster_forward_duration_seconds',
      help: 'Duration of TokenReview requests to the API server of a cluster, or to the site of the peer that has it.',
      labels: ['cluster'],
      buckets: seconds,
    });
    this.#observe(
      metrics,
      'hansa_cluster_reviews_total',
      'Reviewed tokens, by cluster and result: authenticated, denied, or unchecked.',
      'result',
      (counts) => [
        ['authenticated', counts.authenticated],
        ['denied', counts.denied],
        ['unchecked', counts.unchecked.values().reduce((sum, count) => sum + count, 0)],
      ],
    );
    this.#observe(
      metrics,
      'hansa_cluster_reviews_unchecked_total',
      `Reviews that ended without a verdict, by cluster and reason: ${uncheckedReasons.join(', ')}, or internal.`,
      'reason',
      ({ unchecked }) =>
        [...uncheckedReasons, 'internal' as const].map((reason) => [
          reason,
          unchecked.get(reason) ?? 0,
        ]),
    );
    this.#observe(
      metrics,
      'hansa_cluster_verdict_cache_lookups_total',
      'Lookups of cached verdicts, by cluster and result: hit or miss.',
      'result',
      (counts) => [
        ['hit', counts.hits],
        ['miss', counts.misses],
      ],
    );
    metrics.observe(
      {
        name: 'hansa_cluster_forwards_in_flight',
        help: 'TokenReview requests that wait for the API server of a cluster.',
        labels: ['cluster'],
      },
      (report) => {
        for (const [cluster, { inFlight }] of this.#counts) report({ cluster }, inFlight);
      },
    );
    const gauge = (name: string, help: string, read: () => number): void =>
      metrics.observe({ name, help }, (report) => report({}, read()));
    gauge(
      'hansa_verdict_cache_bytes',
      'Memory of cached verdicts and verified claims.',
      () => cache.bytes,
    );
    gauge(
      'hansa_verdict_cache_entries',
      'Tokens whose verified claims or verdicts are cached.',
      () => cache.size,
    );
  }

  of(cluster: string): ClusterCounts {
    let counts = this.#counts.get(cluster);
    if (counts === undefined) this.#counts.set(cluster, (counts = new ClusterCounts()));
    return counts;
  }

  /** Call it before a request to an API server, and the result after it. The cluster may go meanwhile. */
  forwarding(cluster: string): (tookMs: number) => void {
    const counts = this.#counts.get(cluster);
    if (counts !== undefined) counts.inFlight++;
    return (tookMs) => {
      if (counts === undefined) return;
      counts.inFlight--;
      if (this.#counts.get(cluster) !== counts) return;
      this.#durations.observe({ cluster }, tookMs / 1000);
    };
  }

  /**
   * Forgets clusters that are gone. A later one of the same name starts at zero. New ones show from the start,
   * because Prometheus does not see the increase of a counter that appears with its first event.
   */
  retain(clusters: readonly { readonly name: string }[]): void {
    const names = new Set(clusters.map(({ name }) => name));
    for (const name of names) this.of(name);
    for (const cluster of this.#counts.keys()) {
      if (names.has(cluster)) continue;
      this.#counts.delete(cluster);
      this.#durations.forget({ cluster });
    }
  }

  #observe(
    metrics: Metrics,
    name: string,
    help: string,
    label: 'result' | 'reason',
    read: (counts: ClusterCounts) => readonly (readonly [string, number])[],
  ): void {
    metrics.observe<string>({ name, help, labels: ['cluster', label], mostSeries }, (report) => {
      for (const [cluster, counts] of this.#counts) {
        for (const [value, count] of read(counts)) report({ cluster, [label]: value }, count);
      }
    });
  }
}
