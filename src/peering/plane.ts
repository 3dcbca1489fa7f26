// Declares the peering plane: invitations, the handshake, the states of peers, heartbeats, and the
// grants to peers. The trust plane keeps the bundles of peers fresh. Both share data through the store.

import { federationGrantKind } from '../api/kinds/federation-grant.ts';
import { federationPeerKind } from '../api/kinds/federation-peer.ts';
import { serviceOfferKind } from '../api/kinds/service-offer.ts';
import type { Plane } from '../core/plane/plane.ts';
import { peeringActions } from './approval-actions.ts';
import { grantCommand } from './commands/grant.ts';
import { witnessCommand } from './commands/witness.ts';
import { peeringNames } from './commands/names.ts';
import { peerCommand } from './commands/peer.ts';
import { peeringErrors } from './errors.ts';
import { clocksCheck } from './doctor/clocks.ts';
import { peerCheck } from './doctor/peer.ts';
import { revocationEffect } from './peers/peer-rows.ts';
import { type PeeringSettings, peeringSettings } from './settings.ts';
import { peeringStatus } from './status.ts';

export const peeringPlane: Plane<PeeringSettings> = {
  name: 'peering',
  kinds: [federationPeerKind, federationGrantKind, serviceOfferKind],
  settings: peeringSettings,
  errors: peeringErrors,
  approvalActions: peeringActions,
  guide: ['peering'],
  nextCommand: (dataDir) => `peer invite --data-dir ${dataDir}`,
  commands: (kit) => [peerCommand(kit), grantCommand(kit), witnessCommand(kit)],
  names: peeringNames,
  doctor: { site: [clocksCheck], subjects: [peerCheck] },
  status: peeringStatus,
  deletion: {
    question: (objects) => {
      const peers = objects.filter(({ kind }) => kind.kind === federationPeerKind.kind);
      return peers.length === 0 ? undefined : revocationEffect(peers.map(({ name }) => name));
    },
  },
  start: async (context, settings) => {
    const { startPeering } = await import('./start.ts');
    return startPeering(context, settings);
  },
};
