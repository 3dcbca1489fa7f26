// Closes kept connections to a peer when trust in it ends or changes: the peer was suspended, revoked
// or deleted, or its federation changed or was deleted. Runs in every replica, because each keeps its
// own connections.

import type { Clock } from '../../core/clock/clock.ts';
import type { KeptConnections } from '../../core/identity/tls/kept-connections.ts';
import type { Controller } from '../../core/reconcile/controller.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import type { Store } from '../../core/store/store.ts';
import { federationsCollection } from '../peers/peer-federation.ts';
import { peersCollection } from '../peers/peer-repository.ts';

export function connectionController(parts: {
  readonly store: Store;
  readonly clock: Clock;
  readonly connections: readonly Pick<KeptConnections, 'trustChanged'>[];
}): Controller {
  const { store, clock, connections } = parts;
  return {
    name: 'peering-connections',
    parallelism: 16,
    sources: [peersCollection, federationsCollection].map(
      (collection) => new StoreSource({ store, clock, collection }),
    ),
    reconcile: async (name) => {
      for (const each of connections) each.trustChanged(name);
      return undefined;
    },
  };
}
