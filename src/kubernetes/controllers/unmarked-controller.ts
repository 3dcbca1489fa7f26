// Cleans the status of Clusters that are not marked any more: removes the numbers and the condition of the sync,
// and the condition of the SPIRE operator.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import type { Controller } from '../../core/reconcile/controller.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import { kindReader } from '../../core/store/reader.ts';
import { hasSpire, withoutSpire } from '../spire/spire-condition.ts';
import { hasSync, withoutSync } from '../sync/sync-summary.ts';

const leftovers = kindReader(clusterKind).derive(
  (cluster) =>
    (cluster.spec.sync === undefined && hasSync(cluster)) ||
    (cluster.spec.spire === undefined && hasSpire(cluster)),
);

export function unmarkedController({
  store,
  clock,
  resources,
}: Pick<PlaneContext, 'store' | 'clock' | 'resources'>): Controller {
  const lease = 'controller.cluster-unsync';
  return {
    name: 'cluster-unsync',
    lease,
    sources: [
      new StoreSource({
        store,
        clock,
        collection: clusterKind.plural,
        keysOf: (entry) => (leftovers.of(entry) ? [entry.name] : []),
      }),
    ],
    reconcile: async (name, { epoch }) => {
      await resources<Cluster>(clusterKind).patchStatus(
        name,
        (current) => {
          const status =
            current.spec.sync === undefined ? withoutSync(current) : (current.status ?? {});
          return current.spec.spire === undefined ? withoutSpire(status) : status;
        },
        {
          controller: 'cluster-unsync',
          ...(epoch === undefined ? {} : { fence: { lease, epoch } }),
        },
      );
      return undefined;
    },
  };
}
