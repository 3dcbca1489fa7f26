// Reports in the status of a suspended or revoked peer which enforcement points already reject it.

import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import type { EnforcementPoints } from '../../core/plane/enforcement.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import type { Controller } from '../../core/reconcile/controller.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import { enforcementOf } from '../peers/enforcement.ts';
import { peeringLease } from './peer-controller.ts';

type Parts = Pick<PlaneContext, 'store' | 'clock' | 'resources'> & {
  readonly enforcement: Pick<EnforcementPoints, 'all'>;
};

const controllerName = 'peering-enforcement';
const leaseName = `${peeringLease}.enforcement`;
/** How soon to ask a pending enforcement point again. */
const askAgainMs = 1_000;

export function enforcementController(parts: Parts): Controller {
  const { store, clock, resources, enforcement } = parts;
  const peers = resources<FederationPeer>(federationPeerKind);
  return {
    name: controllerName,
    lease: leaseName,
    sources: [new StoreSource({ store, clock, collection: federationPeerKind.plural })],
    reconcile: async (name, { epoch }) => {
      const looked = await peers.get(name);
      if (looked === undefined) return undefined;
      const rows = enforcementOf(looked, enforcement.all, clock.now());
      if (!jsonEquals(rows ?? [], looked.status?.enforcement ?? [])) {
        const fence = epoch === undefined ? {} : { fence: { lease: leaseName, epoch } };
        await peers.patchStatus(
          name,
          (peer) => {
            const { enforcement: _before, ...status } = peer.status ?? {};
            const now = enforcementOf(peer, enforcement.all, clock.now());
            return { ...status, ...(now === undefined ? {} : { enforcement: now }) };
          },
          { controller: controllerName, ...fence },
        );
      }
      const lags = rows?.some(({ state }) => state === 'pending') === true;
      return lags ? { requeueAfterMs: askAgainMs } : undefined;
    },
  };
}
