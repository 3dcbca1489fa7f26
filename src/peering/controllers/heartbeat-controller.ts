// Sends heartbeats to every live peer: in regular intervals, and at once when the grants change.

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
import { distrustOf } from '../peers/peer-states.ts';
import type { PeeringSettings } from '../settings.ts';
import { firstHeartbeatMs, messageCost, tellEveryMs, tellLimit } from '../timing.ts';
import { peeringLease } from './peer-controller.ts';

const grants = kindReader(federationGrantKind);

export function heartbeatController(parts: {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly settings: Pick<PeeringSettings, 'heartbeatMs' | 'callTimeoutMs'>;
  readonly peers: PeerRepository;
  readonly heartbeats: HeartbeatExchange;
  readonly results: Counter<'direction' | 'result'>;
}): Controller {
  const { store, clock, random, settings, peers, heartbeats, results } = parts;
  const everybody = (): readonly string[] =>
    store.list(peersCollection).entries.map(({ name }) => name);
  const sent = new Map<string, LastSent>();
  const news = new PeerRate(clock, tellLimit);
  return {
    name: 'peering-heartbeats',
    lease: `${peeringLease}.heartbeats`,
    // A peer that does not answer takes a slot until the timeout. This many can be silent without
    // delaying the others.
    parallelism: 256,
    timeoutMs: 2 * settings.callTimeoutMs,
    sources: [
      new StoreSource({ store, clock, collection: peersCollection }),
      // Sends changed grants at once.
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
      if (peer === undefined || distrustOf(peer) !== undefined) {
        sent.delete(name);
        heartbeats.forget(name);
        return undefined;
      }
      const silentMs = heartbeats.silentForMs(peer);
      // The acceptor enrolls after the inviter and rejects heartbeats before that. So the inviter
      // waits for the first heartbeat of the acceptor.
      if (peer.status?.state === 'enrolled' && peer.status.role === 'inviter') {
        const waitMs = firstHeartbeatMs - silentMs;
        if (waitMs > 0) return later(waitMs);
      }
      const message = heartbeats.message(name);
      const text = JSON.stringify([peer.metadata.uid, peer.spec.url, peer.status?.state, message]);
      const nowMs = clock.monotonic();
      const last = sent.get(name);
      if (last !== undefined && last.dueMs > nowMs) {
        // A status change also triggers this. Sends only a heartbeat that differs from the last one.
        if (last.text === text) return later(last.dueMs - nowMs);
        // Combines a burst of changes into a few messages.
        const waitMs = last.atMs + tellEveryMs - nowMs;
        if (waitMs > 0) return later(waitMs);
        const cost = Math.max(messageCost, text.length);
        if (!news.take(peer.metadata.uid, cost)) return later(last.dueMs - nowMs);
      }
      // Jitter, so that heartbeats to many peers do not stay synchronized.
      const periodMs = settings.heartbeatMs * (0.9 + random.unit() / 10);
      sent.set(name, { text, atMs: nowMs, dueMs: nowMs + periodMs });
      try {
        await heartbeats.send(peer, message, signal);
        results.add({ direction: 'sent', result: 'answered' });
      } catch (error) {
        if (hasCode(error, 'HANSA_CONFLICT') || hasCode(error, 'HANSA_STORE_FULL')) {
          // The store did not accept the answer: retry soon.
          sent.delete(name);
          throw error;
        }
        results.add({ direction: 'sent', result: 'failed' });
        log.debug('heartbeat failed', { peer: name, error });
        await heartbeats.missed(name, error);
      }
      return { requeueAfterMs: periodMs };
    },
  };
}

/**
 * Rounds up to whole milliseconds. A fraction can be too small to change a floating-point time, and
 * the controller would loop.
 */
function later(waitMs: number): ReconcileResult {
  return { requeueAfterMs: Math.ceil(waitMs) };
}

interface LastSent {
  /** The uid, URL and state of the peer, and the message. */
  readonly text: string;
  readonly atMs: number;
  /** When the next heartbeat is due, changed or not. */
  readonly dueMs: number;
}
