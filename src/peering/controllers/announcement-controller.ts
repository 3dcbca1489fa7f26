// Announces a new bundle of this site to every live peer at once. The bundle sequence in the next
// heartbeat covers a lost announcement.

import type { Clock } from '../../core/clock/clock.ts';
import { lastPublished, publishedCollection } from '../../core/identity/bundle/published-bundle.ts';
import type { Controller } from '../../core/reconcile/controller.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import type { Store } from '../../core/store/store.ts';
import type { HeartbeatExchange } from '../peers/heartbeat-exchange.ts';
import { type PeerRepository, peersCollection } from '../peers/peer-repository.ts';
import { distrustOf } from '../peers/peer-states.ts';
import type { PeeringSettings } from '../settings.ts';
import { peeringLease } from './peer-controller.ts';

export function announcementController(parts: {
  readonly store: Store;
  readonly clock: Clock;
  readonly settings: Pick<PeeringSettings, 'callTimeoutMs'>;
  readonly peers: PeerRepository;
  readonly heartbeats: HeartbeatExchange;
}): Controller {
  const { store, clock, peers, heartbeats } = parts;
  return {
    name: 'peering-announcements',
    lease: `${peeringLease}.announcements`,
    parallelism: 64,
    timeoutMs: 2 * parts.settings.callTimeoutMs,
    sources: [
      new StoreSource({
        store,
        clock,
        collection: publishedCollection,
        keysOf: () => store.list(peersCollection).entries.map(({ name }) => name),
      }),
    ],
    reconcile: async (name, { signal, log }) => {
      const peer = await peers.get(name);
      const bundleSequence = lastPublished(store)?.sequence;
      if (bundleSequence === undefined || peer === undefined) return undefined;
      if (distrustOf(peer) !== undefined) return undefined;
      await heartbeats.announce(peer, { bundleSequence }, signal).catch((error: unknown) => {
        log.debug('peer did not accept the announcement', { peer: name, error });
      });
      return undefined;
    },
  };
}
