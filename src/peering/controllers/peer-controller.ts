// Advances every peer as far as possible: after a change of its object, its federation, an invitation
// or an acceptance, and after a restart.

import type { Clock } from '../../core/clock/clock.ts';
import { federationsCollection } from '../peers/peer-federation.ts';
import type { Controller } from '../../core/reconcile/controller.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import { recordReader } from '../../core/store/reader.ts';
import type { Entry, Store } from '../../core/store/store.ts';
import type { Handshake } from '../handshake/handshake.ts';
import { peersCollection } from '../peers/peer-repository.ts';
import {
  acceptancesCollection,
  type InvitationRecord,
  invitationsCollection,
} from '../handshake/records.ts';
import type { PeeringSettings } from '../settings.ts';

const invitations = recordReader<InvitationRecord>(invitationsCollection);

/** One replica talks to peers. */
export const peeringLease = 'controller.peering';

export function peerController(parts: {
  readonly store: Store;
  readonly clock: Clock;
  readonly settings: Pick<PeeringSettings, 'handshakeTimeoutMs'>;
  readonly handshake: Handshake;
}): Controller {
  const { store, clock, handshake } = parts;
  const source = (collection: string, keysOf?: (entry: Entry) => readonly string[]) =>
    new StoreSource({ store, clock, collection, ...(keysOf === undefined ? {} : { keysOf }) });
  return {
    name: 'peering',
    lease: peeringLease,
    // A handshake with a site that does not answer takes a slot until the timeout.
    parallelism: 16,
    timeoutMs: 3 * parts.settings.handshakeTimeoutMs,
    backOff: { firstMs: 50, longestMs: 10_000 },
    sources: [
      source(peersCollection),
      source(federationsCollection),
      source(acceptancesCollection),
      source(invitationsCollection, (entry) => {
        const { redeemed, reenrols, for: invited } = invitations.of(entry);
        // A peer that re-enrols waits for its invitation, also for the end of it.
        const waiting = reenrols === undefined || invited === undefined ? [] : [invited];
        return redeemed === undefined ? waiting : [redeemed.trustDomain];
      }),
    ],
    reconcile: (name, { signal }) => handshake.reconcile(name, signal),
  };
}

/** Ends trust in a stopped peer, also in a process that does not hold the lease. */
export function distrustController(parts: {
  readonly store: Store;
  readonly clock: Clock;
  readonly handshake: Handshake;
}): Controller {
  const { store, clock, handshake } = parts;
  return {
    name: 'peering-distrust',
    parallelism: 16,
    sources: [new StoreSource({ store, clock, collection: peersCollection })],
    reconcile: async (name) => {
      await handshake.distrust(name);
      return undefined;
    },
  };
}
