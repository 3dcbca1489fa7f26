// What the status of Clusters says about the sync of marked ones. Pure.

import type { Cluster } from '../../api/kinds/cluster.ts';
import { findCondition } from '../../core/reconcile/conditions.ts';
import { syncCondition } from '../names.ts';

export interface MarkedInfo {
  readonly name: string;
  readonly state: 'True' | 'False' | 'Unknown';
  readonly message: string;
  readonly accepted: number;
  readonly refused: number;
  readonly kept: number;
}

export function markedClusters(clusters: readonly Cluster[]): readonly MarkedInfo[] {
  return clusters
    .filter(({ spec }) => spec.sync !== undefined)
    .map(({ metadata: { name }, status }) => {
      const found = findCondition(status?.conditions, syncCondition);
      const { accepted = 0, refused = 0, kept = 0 } = status?.sync ?? {};
      return {
        name,
        state: found?.status ?? 'Unknown',
        message: found?.message ?? 'The site has not reported yet. If this stays, look at its log.',
        accepted,
        refused,
        kept,
      };
    });
}
