// The metrics of clusters: their conditions, and the keys that this process has. Labels are names of
// Clusters, which only admins create.

import { clusterKind } from '../../api/kinds/cluster.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';
import type { KeyCache } from '../keys/key-cache.ts';
import type { KeyFailure } from '../keys/key-failure.ts';
import type { StoredCluster } from './compile-cluster.ts';

/** More than a site has. Further clusters share one series. */
export const mostClusters = 1000;
/** Reasons of failures, and some more. */
const mostResults = 20;
const mostConditions = 8;

/** Only what the metric shows, instead of whole objects. */
const conditionsReader = kindReader(clusterKind).derive(({ status }) =>
  (status?.conditions ?? []).map(({ type, status: value }) => ({ type, value })),
);

export interface ClusterMetricsParts {
  readonly metrics: Metrics;
  readonly store: Pick<Store, 'list'>;
  readonly clusters: { list(): readonly StoredCluster[] };
  readonly keys: Pick<KeyCache, 'stateOf' | 'sharedWith'>;
  readonly nowMs: () => number;
}

export function observeClusters(parts: ClusterMetricsParts): void {
  const { metrics, store, clusters, keys, nowMs } = parts;
  observeSharedKeys(parts);
  metrics.observe(
    {
      name: 'hansa_cluster_condition',
      help: 'Conditions of each Cluster: 1 for True, 0 for False. Unknown ones have no value.',
      labels: ['cluster', 'condition'],
      mostSeries: mostClusters * mostConditions,
    },
    (report) => {
      for (const entry of store.list(clusterKind.plural).entries) {
        for (const { type, value } of conditionsReader.of(entry)) {
          if (value === 'Unknown') continue;
          report({ cluster: entry.name, condition: type }, value === 'True' ? 1 : 0);
        }
      }
    },
  );
  metrics.observe(
    {
      name: 'hansa_cluster_key_age_seconds',
      help: 'Time since this process fetched the keys of each cluster. Clusters without keys have no value.',
      labels: ['cluster'],
      mostSeries: mostClusters,
    },
    (report) => {
      for (const cluster of clusters.list()) {
        const held = keys.stateOf(cluster)?.keys;
        if (held === undefined) continue;
        const ageMs = Math.max(0, nowMs() - held.fetchedAtMs);
        report({ cluster: cluster.name }, ageMs / 1000);
      }
    },
  );
}

function observeSharedKeys({ metrics, clusters, keys }: ClusterMetricsParts): void {
  metrics.observe(
    {
      name: 'hansa_cluster_shared_keys',
      help: 'Other clusters that publish a key of each cluster, without spec.sharesKeys. One of them may do so to get tokens of the other.',
      labels: ['cluster'],
      mostSeries: mostClusters,
    },
    (report) => {
      for (const cluster of clusters.list()) {
        report({ cluster: cluster.name }, keys.sharedWith(cluster).length);
      }
    },
  );
}

/** Counts fetches of keys. */
export class KeyFetchCounter {
  readonly #fetches;

  constructor(metrics: Metrics) {
    this.#fetches = metrics.counter({
      name: 'hansa_cluster_key_fetches_total',
      help: 'Fetches of the keys of each cluster by result: ok, or the reason of the failure.',
      labels: ['cluster', 'result'],
      mostSeries: mostClusters * mostResults,
    });
  }

  add(cluster: string, failure: KeyFailure | undefined): void {
    this.#fetches.add({ cluster, result: failure?.reason ?? 'ok' });
  }

  /** Call it after a cluster is deleted. */
  forget(cluster: string): void {
    this.#fetches.forget({ cluster });
  }
}
