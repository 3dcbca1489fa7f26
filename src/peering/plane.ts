// The peering plane: how sites become peers and stay peers. This folder holds invitations, the
// handshake, the states of peers, heartbeats, and the grants that are sent to peers. Trust in the
// bundle of a peer belongs to the trust plane, which this plane meets in the store only.

import { federationGrantKind } from '../api/kinds/federation-grant.ts';
import { federationPeerKind } from '../api/kinds/federation-peer.ts';
import { serviceOfferKind } from '../api/kinds/service-offer.ts';
import type { Plane } from '../core/plane/plane.ts';

export const peeringKinds = [federationPeerKind, federationGrantKind, serviceOfferKind] as const;

export const peeringPlane: Plane = {
  name: 'peering',
  kinds: peeringKinds,
  start: async (context) => {
    const { startPeering } = await import('./start.ts');
    return startPeering(context);
  },
};
