// The trust plane: what makes identities of this site and of others usable. This folder holds the
// bundle endpoint, the sync of federated bundles, the Workload API with what it hands out, and
// ext_authz. The authority itself, SVIDs and the validation of chains are in core/identity. How sites
// become peers belongs to peering, which this plane meets in the store only.

import { joinTokenKind } from '../api/kinds/join-token.ts';
import { spiffeFederationKind } from '../api/kinds/spiffe-federation.ts';
import { workloadEntryKind } from '../api/kinds/workload-entry.ts';
import type { Plane } from '../core/plane/plane.ts';
import { type TrustSettings, trustSettings } from './trust-settings.ts';

export const trustPlane: Plane<TrustSettings> = {
  name: 'trust',
  kinds: [spiffeFederationKind, workloadEntryKind, joinTokenKind],
  settings: trustSettings,
  start: async (context, settings) => {
    const { startTrust } = await import('./start.ts');
    return startTrust(context, settings);
  },
};
