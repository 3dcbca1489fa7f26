// The condition of the SPIRE operator in the status of a Cluster, and how it goes away. Pure.

import type { Cluster } from '../../api/kinds/cluster.ts';
import { findCondition } from '../../core/reconcile/conditions.ts';

/** On a marked Cluster of the site: whether the site operates its SPIRE server. */
export const spireCondition = 'SpireOperated';

export function hasSpire({ status }: Cluster): boolean {
  return findCondition(status?.conditions, spireCondition) !== undefined;
}

type ClusterStatus = NonNullable<Cluster['status']>;

/** For a Cluster that is not marked any more. */
export function withoutSpire(status: ClusterStatus): ClusterStatus {
  const { conditions, ...rest } = status;
  const others = conditions?.filter(({ type }) => type !== spireCondition);
  return { ...rest, ...(others !== undefined && { conditions: others }) };
}
