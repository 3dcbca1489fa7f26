// The preset role of services that ask for reviews.

import { clusterKind } from '../../api/kinds/cluster.ts';
import type { PresetRole } from '../../core/access/presets.ts';

/** The subresource of Cluster that reviews are. */
export const reviewsSubresource = 'tokenreviews';

export const tokenReviewerRole: PresetRole = {
  name: 'token-reviewer',
  description:
    'Asks for reviews of tokens of all clusters. For some clusters only, create a Role with their names.',
  rules: [{ kinds: [clusterKind.kind], verbs: ['create'], subresources: [reviewsSubresource] }],
};
