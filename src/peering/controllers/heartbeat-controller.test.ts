import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { createLog } from '../../core/log/json-log.ts';
import { openStore } from '../../core/store/open.ts';
import type { HeartbeatExchange } from '../peers/heartbeat-exchange.ts';
import type { PeerRepository } from '../peers/peer-repository.ts';
import { defaultPeeringSettings } from '../settings.ts';
import { tellEveryMs } from '../timing.ts';
import { heartbeatController } from './heartbeat-controller.ts';

async function scene() {
  const clock = new VirtualClock();
  const told: unknown[] = [];
  const site = { offers: [] as readonly string[], silentMs: 0, fails: false };
  const peer = {
    metadata: { name: 'bruges.example', uid: 'u' },
    spec: { url: 'https://bruges.example:8443' },
    status: { state: 'active', role: 'acceptor' as 'acceptor' | 'inviter' },
  };
  const controller = heartbeatController({
    store: await openStore({ driver: 'memory' }, { clock }),
    clock,
    random: new SeededRandom('heartbeats'),
    settings: defaultPeeringSettings,
    peers: { get: async () => peer as FederationPeer } as unknown as PeerRepository,
    heartbeats: {
      message: () => ({ offers: site.offers }),
      silentForMs: () => site.silentMs,
      send: async (_peer: unknown, message: unknown) => {
        told.push(message);
        if (site.fails) throw new Error('no answer');
      },
      missed: async () => undefined,
      forget: () => undefined,
    } as unknown as HeartbeatExchange,
    results: {
      add: () => undefined,
      series: () => ({ add: () => undefined }),
      source: () => undefined,
      forget: () => undefined,
    },
  });
  const log = createLog({
    sink: { write: () => undefined },
    clock,
    level: 'error',
    format: 'text',
  });
  const { signal } = new AbortController();
  const run = async (): Promise<number> => {
    const result = await controller.reconcile('bruges.example', { signal, epoch: 1, log });
    return result?.requeueAfterMs ?? 0;
  };
  return { clock, site, peer, told, run };
}

test('a peer is told what changed at once, and nothing between heartbeats where nothing did', async () => {
  const { clock, site, told, run } = await scene();
  await run();
  await clock.advance(tellEveryMs);
  await run();
  assert.equal(told.length, 1);
  site.offers = ['db'];
  await run();
  assert.deepEqual(told.at(-1), { offers: ['db'] });
});

test('changes that follow each other closely are told together', async () => {
  const { clock, site, told, run } = await scene();
  await run();
  for (let at = 1; at <= 50; at++) {
    site.offers = [...site.offers, `offer-${at}`];
    const waitMs = await run();
    assert.ok(waitMs > 0 && waitMs <= tellEveryMs);
  }
  assert.equal(told.length, 1);
  await clock.advance(tellEveryMs);
  await run();
  assert.deepEqual(told.at(-1), { offers: site.offers });
});

test('what could not be told waits for the next heartbeat', async () => {
  const { clock, site, told, run } = await scene();
  site.fails = true;
  const waitMs = await run();
  assert.ok(waitMs <= defaultPeeringSettings.heartbeatMs);
  await clock.advance(tellEveryMs);
  await run();
  assert.equal(told.length, 1);
  await clock.advance(waitMs);
  await run();
  assert.equal(told.length, 2);
});

test('a wait is a whole millisecond at least: less may be too little to add to a time', async () => {
  const { clock, site, peer, run } = await scene();
  await run();
  await clock.advance(0.3);
  assert.equal((await run()) % 1, 0);
  site.offers = ['db'];
  assert.equal((await run()) % 1, 0);
  peer.status = { state: 'enrolled', role: 'inviter' };
  site.silentMs = 0.1;
  assert.equal((await run()) % 1, 0);
});
