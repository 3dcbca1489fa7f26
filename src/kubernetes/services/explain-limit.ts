// What the condition of a member Service says where its cluster exceeds a limit: which one, and what to do.

import { leastSliceCost, mostServiceEndpoints, type ReachedLimit } from './choose-claims.ts';
import type { Outcome } from './compile-plan.ts';

const reason = 'TooMany';

export function explainLimit({ what, most }: ReachedLimit, clusterID: string): Outcome {
  return { status: 'False', reason, message: textOf(what, most, clusterID) };
}

function textOf(what: ReachedLimit['what'], most: number, clusterID: string): string {
  switch (what) {
    case 'services':
      return `Other clusters get the ${most} oldest federated Services of ${clusterID}, and this one is younger. Remove annotations that are not needed, or raise limits.services of ${clusterID} in Federation.`;
    case 'members':
      return `${clusterID} has more than ${most} Services with this annotation, and only the oldest ${most} are used. Use one Service for more pods, or another federated Service.`;
    case 'endpoints':
      return `Other clusters get at most ${most} endpoints of ${clusterID}, those of older Services first, and there is no room for this Service. A slice counts as ${leastSliceCost} endpoints at least. Remove annotations that are not needed, or raise limits.endpoints of ${clusterID} in Federation.`;
  }
}

/** Some of its endpoints are left out. */
export const tooManyEndpoints: Outcome = {
  status: 'True',
  reason,
  message: `It has more than ${mostServiceEndpoints} endpoints, and other clusters get only those of the oldest slices or nodes. A slice counts as ${leastSliceCost} endpoints at least. Use several Services, or a load balancer.`,
};
