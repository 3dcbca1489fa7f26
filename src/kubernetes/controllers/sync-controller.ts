// The controller of one marked cluster: syncs its objects, and writes how that goes into the status of its Cluster.

import type { Controller } from '../../core/reconcile/controller.ts';
import type { ClusterSync } from '../sync/cluster-sync.ts';
import { syncFinding, withSync } from '../sync/sync-summary.ts';
import { markedController, type MarkedController } from './marked-controller.ts';

/** Enough for the round trips of one cluster, and little work at once for one that is hostile. */
const parallelism = 8;

export function syncController(
  sync: ClusterSync,
  parts: Pick<MarkedController, 'clusters' | 'clock'>,
): Controller {
  return {
    ...markedController({
      ...parts,
      mark: 'sync',
      name: 'cluster-sync',
      work: sync,
      reconcile: (key, _run, fence) => sync.reconcile(key, fence),
      statusOf: (cluster, nowMs) => {
        const { counts } = sync;
        const finding = syncFinding(cluster.metadata.name, sync.states(), counts);
        return withSync(cluster, finding, counts, nowMs);
      },
    }),
    parallelism,
  };
}
