// The controller of one marked cluster: syncs its objects, and writes how that goes into the status of its Cluster.

import type { Cluster } from '../../api/kinds/cluster.ts';
import type { Clock } from '../../core/clock/clock.ts';
import type {
  Controller,
  ReconcileContext,
  ReconcileResult,
} from '../../core/reconcile/controller.ts';
import type { ResourceClient, WriteAs } from '../../core/reconcile/resource-client.ts';
import { changeSource } from '../../core/reconcile/source.ts';
import type { ClusterSync } from '../sync/cluster-sync.ts';
import { syncFinding, withSync } from '../sync/sync-summary.ts';

const controllerName = 'cluster-sync';
/** The key of the status of the Cluster. Keys of objects are KIND/NAME. */
const statusKey = '';
/** Between two writes of the status. Users of the cluster decide how often it changes. */
const pauseMs = 10_000;
/** The first write soon after the start, when the first objects are read. */
const firstPauseMs = 500;
/** Enough for the round trips of one cluster, and little work at once for one that is hostile. */
const parallelism = 8;

export interface SyncControllerOptions {
  readonly sync: ClusterSync;
  readonly clusters: ResourceClient<Cluster>;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
}

export function syncController({ sync, clusters, clock }: SyncControllerOptions): Controller {
  const { name, uid } = sync.cluster.metadata;
  const lease = `controller.${controllerName}.${name}`;
  let nextMs = clock.monotonic() + firstPauseMs;

  const writeStatus = async (as: WriteAs): Promise<ReconcileResult | undefined> => {
    const waitMs = nextMs - clock.monotonic();
    if (waitMs > 0) return { requeueAfterMs: waitMs };
    const { counts } = sync;
    const finding = syncFinding(name, sync.states(), counts);
    const before = clock.monotonic();
    let isWritten = false;
    await clusters.patchStatus(
      name,
      (current) => {
        if (current.metadata.uid !== uid || current.spec.sync === undefined) {
          return current.status ?? {};
        }
        const status = withSync(current, finding, counts, clock.now());
        isWritten = true;
        return status;
      },
      as,
    );
    if (isWritten) nextMs = before + pauseMs;
    return undefined;
  };

  return {
    name: `${controllerName}-${name}`,
    lease,
    parallelism,
    sources: [...sync.sources(), changeSource((listener) => sync.onChange(listener), [statusKey])],
    reconcile: (key: string, { epoch }: ReconcileContext) => {
      const fence = epoch === undefined ? undefined : { lease, epoch };
      return key === statusKey
        ? writeStatus({ controller: controllerName, ...(fence && { fence }) })
        : sync.reconcile(key, fence);
    },
  };
}
