// Metrics of the sync: for each marked cluster the number of objects, and whether the site follows them.

import type { Metrics } from '../../core/metrics/metrics.ts';
import type { ClusterSync } from './cluster-sync.ts';

/** More marked clusters than a site will have. */
const mostClusters = 1000;
const states = ['accepted', 'refused', 'kept'] as const;

type Observed = Pick<ClusterSync, 'cluster' | 'counts' | 'states'>;

/** Declared once in a process. `list` is asked at each scrape. */
export function observeSync(metrics: Metrics, list: () => readonly Observed[]): void {
  metrics.observe(
    {
      name: 'hansa_cluster_sync_objects',
      help: 'Objects of marked clusters by state: accepted, refused, or kept (at the site only). Only the process that syncs a cluster counts them.',
      labels: ['cluster', 'state'],
      mostSeries: mostClusters * states.length,
    },
    (report) => {
      for (const { cluster, counts } of running(list())) {
        for (const state of states)
          report({ cluster: cluster.metadata.name, state }, counts[state]);
      }
    },
  );
  metrics.observe(
    {
      name: 'hansa_cluster_sync_following',
      help: 'Whether the site follows all objects of a marked cluster (1) or not (0). Only the process that syncs the cluster has a value.',
      labels: ['cluster'],
      mostSeries: mostClusters,
    },
    (report) => {
      for (const sync of running(list())) {
        const isFollowed = sync
          .states()
          .every(({ isServed, isRead, failure }) => isServed && isRead && failure === undefined);
        report({ cluster: sync.cluster.metadata.name }, isFollowed ? 1 : 0);
      }
    },
  );
}

/** Without those that another replica of the site syncs. */
function running(syncs: readonly Observed[]): readonly Observed[] {
  return syncs.filter((sync) => sync.states().some(({ isRunning }) => isRunning));
}
