// Rate limits of reviews: of one caller, and of one cluster. Per process, like all token buckets.

import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { TokenBuckets } from '../../core/limits/token-buckets.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';

export interface ReviewLimitOptions {
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly metrics: Pick<Metrics, 'counter'>;
  /** 0 means no limit. */
  readonly callerReviewsPerSecond: number;
  readonly clusterReviewsPerSecond: number;
}

const maxCallers = 10_000;
/** Above the number of clusters of a site. */
const maxClusters = 1_000;

export class ReviewLimits {
  readonly #callers: TokenBuckets | undefined;
  readonly #clusters: TokenBuckets | undefined;
  readonly #throttled;

  constructor({ clock, metrics, ...rates }: ReviewLimitOptions) {
    const buckets = (perSecond: number, maxKeys: number) =>
      // A full bucket holds the reviews of one second.
      perSecond === 0
        ? undefined
        : new TokenBuckets({ clock, burst: perSecond, perSecond, maxKeys });
    this.#callers = buckets(rates.callerReviewsPerSecond, maxCallers);
    this.#clusters = buckets(rates.clusterReviewsPerSecond, maxClusters);
    this.#throttled = metrics.counter({
      name: 'hansa_token_reviews_throttled_total',
      help: 'Reviews that the site refused with 429, by cluster and by whose limit was reached (caller or cluster).',
      labels: ['cluster', 'limit'],
    });
  }

  /** Counts one review. Throws HANSA_TOO_MANY_REQUESTS. `cluster` is registered. */
  take(caller: string, cluster: string): void {
    const waitOfCaller = this.#callers?.take(caller);
    if (waitOfCaller !== undefined) throw this.#refuse(cluster, 'caller', waitOfCaller);
    const waitOfCluster = this.#clusters?.take(cluster);
    if (waitOfCluster === undefined) return;
    // The caller did not get its review.
    this.#callers?.charge(caller, -1);
    throw this.#refuse(cluster, 'cluster', waitOfCluster);
  }

  /** Drops the metrics of a cluster that is gone. */
  forget(cluster: string): void {
    this.#throttled.forget({ cluster });
  }

  #refuse(cluster: string, limit: 'caller' | 'cluster', retryAfterSeconds: number): HansaError {
    this.#throttled.add({ cluster, limit });
    const whose = limit === 'caller' ? 'this caller' : `cluster ${cluster}`;
    return new HansaError(
      'HANSA_TOO_MANY_REQUESTS',
      `Too many token reviews of ${whose}. Try again in ${retryAfterSeconds} s. The operator of the site sets the limit: auth.${limit}ReviewsPerSecond.`,
      { details: { retryAfterSeconds } },
    );
  }
}
