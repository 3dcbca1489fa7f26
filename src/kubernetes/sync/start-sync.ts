// Starts the sync when the site has a marked Cluster.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import type { ControllerHost } from '../../core/reconcile/controller.ts';
import { syncedKinds } from '../marked/marks.ts';
import { type StartedWork, startMarked } from '../marked/start-marked.ts';
import type { ClusterSync, SyncContext } from './cluster-sync.ts';

export function startSync(context: SyncContext, host: ControllerHost): StartedWork<ClusterSync> {
  const { store, log, clock } = context;
  return startMarked({ mark: 'sync', store, log, host }, async () => {
    const { ClusterSync: Loaded } = await import('./cluster-sync.ts');
    const { syncController } = await import('../controllers/sync-controller.ts');
    const clusters = context.resources<Cluster>(clusterKind);
    return {
      open: (cluster) =>
        new Loaded({
          context,
          cluster,
          isMarked: (other, { kind }) => syncedKinds(store, other).has(kind),
        }),
      controllerOf: (sync) => syncController(sync, { clusters, clock }),
    };
  });
}
