import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { FederationGrant } from '../../api/kinds/federation-grant.ts';
import { encodeMessage, maxHeartbeatBytes } from '../messages.ts';
import { offersFor } from './offers.ts';

const nowMs = Date.parse('2026-06-01T00:00:00Z');

function metadata(name: string, deletionTimestamp?: string) {
  return {
    name,
    uid: 'u',
    resourceVersion: '1',
    generation: 1,
    creationTimestamp: '',
    ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
  };
}

function grant(ids: readonly string[], spec: Partial<FederationGrant['spec']> = {}) {
  return {
    metadata: metadata('g'),
    spec: {
      peer: 'bruges.example',
      scopes: ['read'] as const,
      offers: ['db'],
      nodeInstances: { ids, unrestricted: false },
      networks: { unrestricted: true },
      sourceCIDRs: { unrestricted: true },
      ...spec,
    },
  };
}

const offers = ['metrics', 'db'].map((name) => ({
  metadata: metadata(name),
  spec: { spiffeID: `spiffe://lubeck.example/${name}` },
}));

const web = 'spiffe://bruges.example/web';
const api = 'spiffe://bruges.example/api';

function told(...grants: readonly ReturnType<typeof grant>[]) {
  return offersFor('bruges.example', grants, offers, nowMs);
}

suite('what a peer is told of offers', () => {
  test('is what its workloads are granted, from all grants together', () => {
    assert.deepEqual(told(grant([web]), grant([api, web], { offers: ['db', 'metrics'] })), [
      { name: 'db', spiffeID: 'spiffe://lubeck.example/db', grantedTo: [api, web] },
      { name: 'metrics', spiffeID: 'spiffe://lubeck.example/metrics', grantedTo: [api, web] },
    ]);
  });

  test('is nothing of other peers, of grants that ended, nor of offers that are not there', () => {
    assert.deepEqual(told(grant([web], { peer: 'novgorod.example' })), []);
    assert.deepEqual(told(grant([web], { expiresAt: '2026-01-01T00:00:00Z' })), []);
    assert.deepEqual(told(grant([web], { offers: ['gone'] })), []);
    assert.deepEqual(told(grant(['spiffe://novgorod.example/web'])), []);
    assert.deepEqual(told({ ...grant([web]), metadata: metadata('g', 'now') }), []);
    assert.deepEqual(told(), []);
  });

  test('names everybody where a grant does', () => {
    const [offer] = told(grant([web]), grant([], { nodeInstances: { unrestricted: true } }));
    assert.deepEqual(offer?.grantedTo, ['*']);
  });

  test('fits into a heartbeat: offers that do not fit are left out', () => {
    const many = Array.from(
      { length: 1000 },
      (_, at) => `spiffe://bruges.example/${'x'.repeat(100)}${at}`,
    );
    assert.deepEqual(
      told(grant(many), grant([web], { offers: ['metrics'] })).map(({ name }) => name),
      ['metrics'],
    );
    const wide = Array.from({ length: 300 }, (_, at) => `o-${at}`);
    const all = offersFor(
      'bruges.example',
      [grant(many.slice(0, 5), { offers: wide })],
      wide.map((name) => ({
        metadata: metadata(name),
        spec: { spiffeID: `spiffe://lubeck.example/${name}` },
      })),
      nowMs,
    );
    const message = { contractVersion: 1, bundleSequence: Number.MAX_SAFE_INTEGER, offers: all };
    const holds = { sequence: Number.MAX_SAFE_INTEGER, hash: 'a'.repeat(64) };
    assert.ok(all.length > 50);
    assert.ok(encodeMessage({ ...message, holds }).byteLength <= maxHeartbeatBytes);
  });
});
