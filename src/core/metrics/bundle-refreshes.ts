// The metrics of bundle refreshes, under the names that operators of SPIRE federations know. SPIRE itself does not
// export them. The site counts its own fetches, and SPIRE servers that it operates report theirs. So several planes
// share one declaration.

import type { Counter, Histogram, Metrics } from './metrics.ts';

export interface BundleRefreshes {
  readonly count: Counter<'server' | 'trust_domain'>;
  readonly errors: Counter<'server' | 'trust_domain' | 'class'>;
  readonly duration: Histogram<'server' | 'trust_domain'>;
}

/** Upper bounds of the buckets of durations, in seconds. */
export const refreshSeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;

/** The value of the label `server` for fetches of the site. For Prometheus, such a label does not exist. */
export const ownServer = '';

/** The federations that a setting allows at most, and the relationships of SPIRE servers. */
const mostSeries = 110_000;
/** The number of failure classes, with some reserve. */
const mostClasses = 16;

const declared = new WeakMap<Metrics, BundleRefreshes>();

/** Declares them on the first call for a registry. */
export function bundleRefreshes(metrics: Metrics): BundleRefreshes {
  const known = declared.get(metrics);
  if (known !== undefined) return known;
  const labels = ['server', 'trust_domain'] as const;
  const made: BundleRefreshes = {
    count: metrics.counter({
      name: 'spire_server_federation_bundle_refresh_count',
      help: 'Fetches of a federated bundle, by trust domain and by the Cluster whose SPIRE server fetches it. For fetches of the site, the label server is empty.',
      labels,
      mostSeries,
    }),
    errors: metrics.counter({
      name: 'spire_server_federation_bundle_refresh_errors',
      help: 'Fetches of a federated bundle that failed, by server, trust domain and class of error.',
      labels: [...labels, 'class'],
      mostSeries: mostSeries * mostClasses,
    }),
    duration: metrics.histogram({
      name: 'spire_server_federation_bundle_refresh_duration_seconds',
      help: 'Duration of fetches of a federated bundle, by server and trust domain.',
      labels,
      mostSeries,
      buckets: refreshSeconds,
    }),
  };
  declared.set(metrics, made);
  return made;
}
