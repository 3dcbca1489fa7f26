// Sends a heartbeat to every live peer, regularly, and at once where there is something to tell.

import { federationGrantKind } from '../../api/kinds/federation-grant.ts';
import type { Clock, Random } from '../../core/clock/clock.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { Controller, ReconcileResult } from '../../core/reconcile/controller.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import type { Counter } from '../../core/metrics/metrics.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';
import type { HeartbeatExchange } from '../peers/heartbeat-exchange.ts';
import { type PeerRepository, peersCollection } from '../peers/peer-repository.ts';
import { PeerRate } from '../peers/peer-rate.ts';
import { isLive } from '../peers/peer-states.ts';
import {
  callTimeoutMs,
  firstHeartbeatMs,
  heartbeatIntervalMs,
  messageCost,
  tellEveryMs,
  tellLimit,
} from '../timing.ts';
import { peeringLease } from './peer-controller.ts';

const grants = kindReader(federationGrantKind);

export function heartbeatController(parts: {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly peers: PeerRepository;
  readonly heartbeats: HeartbeatExchange;
  readonly results: Counter<'direction' | 'result'>;
}): Controller {
  const { store, clock, random, peers, heartbeats, results } = parts;
  const everybody = (): readonly string[] =>
    store.list(peersCollection).entries.map(({ name }) => name);
  const sent = new Map<string, LastSent>();
  const news = new PeerRate(clock, tellLimit);
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
        collection: grants.collection,
        keysOf: (entry) => [grants.of(entry).spec.peer],
      }),
      new StoreSource({ store, clock, collection: 'serviceoffers', keysOf: everybody }),
    ],
    reconcile: async (name, { signal, log }) => {
      const peer = await peers.get(name);
      if (peer === undefined || !isLive(peer.status?.state)) {
        sent.delete(name);
        heartbeats.forget(name);
        return undefined;
      }
      const silentMs = heartbeats.silentForMs(peer);
      // The acceptor learns that it is enrolled after the inviter, and is heard from then: whoever
      // speaks before that is refused.
      if (peer.status?.state === 'enrolled' && peer.status.role === 'inviter') {
        const waitMs = firstHeartbeatMs - silentMs;
        if (waitMs > 0) return later(waitMs);
      }
      const message = heartbeats.message(name);
      const text = JSON.stringify([peer.metadata.uid, peer.spec.url, peer.status?.state, message]);
      const nowMs = clock.monotonic();
      const last = sent.get(name);
      if (last !== undefined && last.dueMs > nowMs) {
        // A change of its status wakes this up as well; only what the peer does not know is sent.
        if (last.text === text) return later(last.dueMs - nowMs);
        // A burst of changes is told in a few messages.
        const waitMs = last.atMs + tellEveryMs - nowMs;
        if (waitMs > 0) return later(waitMs);
        const cost = Math.max(messageCost, text.length);
        if (!news.take(peer.metadata.uid, cost)) return later(last.dueMs - nowMs);
      }
      // A little apart from each other, whatever made them start together.
      const periodMs = heartbeatIntervalMs * (0.9 + random.unit() / 10);
      sent.set(name, { text, atMs: nowMs, dueMs: nowMs + periodMs });
      try {
        await heartbeats.send(peer, message, signal);
        results.add({ direction: 'sent', result: 'answered' });
      } catch (error) {
        if (hasCode(error, 'HANSA_CONFLICT') || hasCode(error, 'HANSA_STORE_FULL')) {
          // The store did not take the answer: ask again soon.
          sent.delete(name);
          throw error;
        }
        results.add({ direction: 'sent', result: 'failed' });
        log.debug('heartbeat was not answered', { peer: name, error });
        await heartbeats.missed(name, error);
      }
      return { requeueAfterMs: periodMs };
    },
  };
}

/**
 * In whole milliseconds: what is left of a difference between two times can be too little to add to a
 * time, and a key that waits for that would run for ever.
 */
function later(waitMs: number): ReconcileResult {
  return { requeueAfterMs: Math.ceil(waitMs) };
}

interface LastSent {
  /** What was told, to whom. */
  readonly text: string;
  readonly atMs: number;
  /** When the next one is sent, with or without news. */
  readonly dueMs: number;
}
