import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { peerIdentities } from './peer-identities.ts';
import type { FederationState } from './federation-state.ts';

const db = 'spiffe://lubeck.example/db';
const web = 'spiffe://bruges.example/web';
const nowMs = Date.parse('2026-06-01T00:00:00Z');

function grant(spec: object = {}): unknown {
  return {
    metadata: { name: 'bruges-db' },
    spec: {
      peer: 'bruges.example',
      offers: ['db'],
      nodeInstances: { ids: [web] },
      networks: { unrestricted: true },
      sourceCIDRs: { unrestricted: true },
      ...spec,
    },
  };
}

function whom(
  parts: { readonly grants?: readonly unknown[]; readonly offers?: object },
  ...ids: string[]
) {
  const federationState = {
    peers: new Map([['bruges.example', { spec: {}, status: { offers: parts.offers ?? [] } }]]),
    grantsByPeer: new Map([['bruges.example', parts.grants ?? []]]),
    offers: new Map([
      ['db', { spec: { spiffeID: db } }],
      ['other', { spec: { spiffeID: 'spiffe://lubeck.example/other' } }],
    ]),
  } as unknown as FederationState;
  return peerIdentities(ids.length === 0 ? [db] : ids, 'bruges.example', federationState, nowMs);
}

describe('a workload has to do with', () => {
  test('the callers that a grant lets reach what it serves', () => {
    assert.deepEqual(whom({ grants: [grant()] }), [web]);
    assert.deepEqual(whom({ grants: [grant()] }, 'spiffe://lubeck.example/other'), []);
    assert.deepEqual(whom({ grants: [grant({ offers: ['other'] })] }), []);
  });

  test('everybody of the peer where a grant names all', () => {
    assert.equal(
      whom({ grants: [grant(), grant({ nodeInstances: { unrestricted: true } })] }),
      'all',
    );
  });

  test('nobody by a grant that is over, or limited to networks, or to no address', () => {
    for (const spec of [
      { expiresAt: '2026-05-31T23:59:59Z' },
      { networks: { ids: ['backbone'] } },
      { sourceCIDRs: {} },
      { nodeInstances: {} },
    ]) {
      assert.deepEqual(whom({ grants: [grant(spec)] }), []);
    }
  });

  test('the servers of offers that the peer granted to it', () => {
    const offers = [
      { name: 'a', spiffeID: 'spiffe://bruges.example/a', grantedTo: [db] },
      { name: 'b', spiffeID: 'spiffe://bruges.example/b', grantedTo: ['*'] },
      {
        name: 'c',
        spiffeID: 'spiffe://bruges.example/c',
        grantedTo: ['spiffe://lubeck.example/x'],
      },
    ];
    assert.deepEqual(whom({ offers, grants: [grant()] }), [
      'spiffe://bruges.example/a',
      'spiffe://bruges.example/b',
      web,
    ]);
  });

  test('nobody of another trust domain, whatever grants and peers say', () => {
    const ids = ['spiffe://lubeck.example/admin', 'spiffe://bruges.example.evil/web', web];
    assert.deepEqual(whom({ grants: [grant({ nodeInstances: { ids } })] }), [web]);
    const offers = [{ name: 'a', spiffeID: 'spiffe://lubeck.example/admin', grantedTo: ['*'] }];
    assert.deepEqual(whom({ offers }), []);
  });
});
