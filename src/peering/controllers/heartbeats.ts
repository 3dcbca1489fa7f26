// Sends a heartbeat to every live peer, regularly, and at once where there is something to tell.

import type { Clock, Random } from '../../core/clock/clock.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { Controller } from '../../core/reconcile/controller.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import type { Counter } from '../../core/metrics/metrics.ts';
import type { Store } from '../../core/store/store.ts';
import type { Heartbeats } from '../heartbeats.ts';
import { type PeerBook, peersCollection } from '../peer-book.ts';
import { isLive } from '../peer-states.ts';
import { callTimeoutMs, firstHeartbeatMs, heartbeatIntervalMs } from '../timing.ts';
import { peeringLease } from './peers.ts';

export function heartbeatController(parts: {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly peers: PeerBook;
  readonly heartbeats: Heartbeats;
  readonly results: Counter<'direction' | 'result'>;
}): Controller {
  const { store, clock, random, peers, heartbeats, results } = parts;
  const everybody = (): readonly string[] =>
    store.list(peersCollection).entries.map(({ name }) => name);
  return {
    name: 'peering-heartbeats',
    lease: `${peeringLease}.heartbeats`,
    // Peers that do not answer take their whole time limit: as many may be silent at once without
    // delaying the others.
    parallelism: 256,
    timeoutMs: 2 * callTimeoutMs,
    sources: [
      new StoreSource({ store, clock, collection: peersCollection }),
      // What is granted is told at once.
      new StoreSource({
        store,
        clock,
        collection: 'federationgrants',
        keysOf: ({ value }) => {
          const { spec } = JSON.parse(value.toString('utf8')) as {
            readonly spec?: { readonly peer?: string };
          };
          return spec?.peer === undefined ? [] : [spec.peer];
        },
      }),
      new StoreSource({ store, clock, collection: 'serviceoffers', keysOf: everybody }),
    ],
    reconcile: async (name, { signal, log }) => {
      const peer = await peers.get(name);
      if (peer === undefined || !isLive(peer.status?.state)) return undefined;
      // The acceptor learns that it is enrolled after the inviter, and is heard from then: whoever
      // speaks before that is refused.
      if (peer.status?.state === 'enrolled' && peer.status.role === 'inviter') {
        const waitMs = firstHeartbeatMs - heartbeats.silentForMs(peer);
        if (waitMs > 0) return { requeueAfterMs: waitMs };
      }
      try {
        await heartbeats.send(peer, signal);
        results.add({ direction: 'sent', result: 'answered' });
      } catch (error) {
        if (hasCode(error, 'HANSA_CONFLICT') || hasCode(error, 'HANSA_STORE_FULL')) throw error;
        results.add({ direction: 'sent', result: 'failed' });
        log.debug('heartbeat was not answered', { peer: name, error });
        await heartbeats.missed(name, error);
      }
      // A little apart from each other, whatever made them start together.
      return { requeueAfterMs: heartbeatIntervalMs * (0.9 + random.unit() / 10) };
    },
  };
}
