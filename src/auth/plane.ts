// Declares the auth plane: Kubernetes clusters, and the review of their ServiceAccount tokens.

import { clusterKind } from '../api/kinds/cluster.ts';
import type { Plane } from '../core/plane/plane.ts';
import { localProgramsBinding } from './callers/local-programs.ts';
import { tokenReviewerRole } from './callers/token-reviewer-role.ts';
import { removalEffect } from './client/clusters.ts';
import { clusterCommand } from './commands/cluster.ts';
import { authNames } from './commands/names.ts';
import { convertClusters } from './convert-clusters.ts';
import { clusterCheck } from './doctor/cluster.ts';
import { clustersCheck } from './doctor/clusters.ts';
import { authErrors } from './errors.ts';
import { reservedDomains } from './routes/cluster-hosts.ts';
import { type AuthSettings, authSettings } from './settings.ts';
import { authStatus } from './status.ts';

export const authPlane: Plane<AuthSettings> = {
  name: 'auth',
  kinds: [clusterKind],
  settings: authSettings,
  errors: authErrors,
  guide: ['clusters'],
  status: authStatus,
  commands: (kit) => [clusterCommand(kit)],
  names: authNames,
  doctor: { site: [clustersCheck], subjects: [clusterCheck] },
  manifests: convertClusters,
  deletion: {
    question: (objects) => {
      const clusters = objects.filter(({ kind }) => kind.kind === clusterKind.kind);
      return clusters.length === 0 ? undefined : removalEffect(clusters.map(({ name }) => name));
    },
  },
  presets: { roles: [tokenReviewerRole], bindings: [localProgramsBinding] },
  reservedDomains: ({ baseDomain }) => reservedDomains(baseDomain),
  start: async (context, settings) => {
    const { startAuth } = await import('./start.ts');
    return startAuth(context, settings);
  },
};
