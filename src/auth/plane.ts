// Declares the auth plane: Kubernetes clusters, and the review of their ServiceAccount tokens.

import { clusterKind } from '../api/kinds/cluster.ts';
import type { Plane } from '../core/plane/plane.ts';
import { convertClusters } from './convert-clusters.ts';
import { authErrors } from './errors.ts';
import { type AuthSettings, authSettings } from './settings.ts';
import { authStatus } from './status.ts';

export const authPlane: Plane<AuthSettings> = {
  name: 'auth',
  kinds: [clusterKind],
  settings: authSettings,
  errors: authErrors,
  status: authStatus,
  manifests: convertClusters,
  start: async (context, settings) => {
    const { startAuth } = await import('./start.ts');
    return startAuth(context, settings);
  },
};
