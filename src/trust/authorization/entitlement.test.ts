import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { FederationGrant } from '../../api/kinds/federation-grant.ts';
import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import type { ServiceOffer } from '../../api/kinds/service-offer.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { forgeRoot } from '../../core/identity/x509/test-forge.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { askedOf, type BundleFacts, entitlement } from './entitlement.ts';
import type { BundleLife } from '../../api/bundle-life.ts';
import type { FederationState } from './federation-state.ts';

const db = SpiffeId.parse('spiffe://lubeck.example/db');
const bundle = new Bundle(TrustDomain.parse('bruges.example'), [
  forgeRoot('bruges.example').certificate,
]);
const nowMs = Date.parse('2026-06-01T00:00:00Z');

function peer(status: unknown, desiredState = 'active'): FederationPeer {
  return { spec: { url: 'https://bruges.example:8443', desiredState }, status } as FederationPeer;
}

function grant(spec: object = {}): FederationGrant {
  return {
    metadata: { name: 'bruges-db' },
    spec: {
      peer: 'bruges.example',
      offers: ['db'],
      nodeInstances: { ids: ['spiffe://bruges.example/web'] },
      networks: { unrestricted: true },
      sourceCIDRs: { unrestricted: true },
      ...spec,
    },
  } as unknown as FederationGrant;
}

function federationState(parts: {
  readonly federations?: readonly string[];
  readonly keptByPeering?: boolean;
  readonly peer?: FederationPeer;
  readonly grants?: readonly FederationGrant[];
  readonly life?: Partial<BundleLife>;
  readonly facts?: Partial<BundleFacts>;
}): FederationState {
  return {
    federations: parts.federations ?? ['bruges.example'],
    labels: new Map(),
    bundleOf: (trustDomain) =>
      (parts.federations ?? ['bruges.example']).includes(trustDomain)
        ? {
            quarantined: false,
            bundle,
            sharesAuthority: false,
            ...parts.facts,
            life: {
              dueAtMs: undefined,
              staleAtMs: undefined,
              expiredAtMs: undefined,
              ...parts.life,
            },
          }
        : undefined,
    keptByPeering: new Set(parts.keptByPeering === false ? [] : ['bruges.example']),
    peers: new Map(parts.peer === undefined ? [] : [['bruges.example', parts.peer]]),
    grantsByPeer: new Map([['bruges.example', parts.grants ?? []]]),
    offers: new Map([
      ['db', { spec: { spiffeID: 'spiffe://lubeck.example/db' } } as ServiceOffer],
      ['mail', { spec: { spiffeID: 'spiffe://lubeck.example/mail' } } as ServiceOffer],
    ]),
  };
}

/** Why, and whether, the bundle of bruges.example is given. */
function outcome(parts: Parameters<typeof federationState>[0], id = db, federatesWith = ['*']) {
  const found = federationState(parts);
  return askedOf(id, federatesWith, found).map((trustDomain) => {
    const { bundle: given, reason } = entitlement(id, trustDomain, found, nowMs);
    return `${given ? 'given' : 'withheld'}: ${reason}`;
  });
}

describe('the bundle of another trust domain', () => {
  test('is not given to an entry that does not ask for it', () => {
    assert.deepEqual(outcome({}, db, []), []);
  });

  test('is given by federatesWith alone where nobody peers with it', () => {
    const keptByPeering = false;
    const given = ['given: FederatedWithoutPeer'];
    assert.deepEqual(outcome({ keptByPeering }), given);
    assert.deepEqual(outcome({ keptByPeering }, db, ['bruges.example']), given);
  });

  test('is not taken away by somebody who only asks to be a peer under that name', () => {
    const by = (state: string | undefined, desired?: string) =>
      outcome({ keptByPeering: false, peer: peer({ state }, desired) });
    for (const state of ['proposed', 'accepted', undefined]) {
      assert.deepEqual(by(state), ['given: FederatedWithoutPeer'], state);
    }
    for (const state of ['enrolled', 'suspended', 'revoked']) {
      assert.deepEqual(by(state), ['withheld: PeerNotTrusted'], state);
    }
    assert.deepEqual(by('active'), ['withheld: NoGrant']);
    assert.deepEqual(by('proposed', 'suspended'), ['withheld: PeerNotTrusted']);
  });

  test('is withheld while the peer re-enrols: its operator said that these keys are lost', () => {
    for (const state of ['proposed', 'accepted']) {
      const reenrolling = peer({ state, reenrolments: 1 });
      for (const keptByPeering of [false, true]) {
        assert.deepEqual(
          outcome({ keptByPeering, peer: reenrolling, grants: [grant()] }),
          ['withheld: PeerNotTrusted'],
          state,
        );
      }
    }
  });

  test('that peering keeps is withheld while its peer is being deleted, or gone', () => {
    assert.deepEqual(outcome({ grants: [grant()] }), ['withheld: PeerNotTrusted']);
  });

  test('is withheld from the moment at which it is stale or expired, and asked about again then', () => {
    const life = (parts: Partial<BundleLife>) => outcome({ keptByPeering: false, life: parts });
    assert.deepEqual(life({ staleAtMs: nowMs + 1 }), ['given: FederatedWithoutPeer']);
    assert.deepEqual(life({ staleAtMs: nowMs }), ['withheld: Stale']);
    assert.deepEqual(life({ expiredAtMs: nowMs }), ['withheld: Expired']);
    // Who has no right to it is told that, and not how old it is.
    assert.deepEqual(outcome({ life: { staleAtMs: nowMs } }), ['withheld: PeerNotTrusted']);
    const { changesAtMs } = entitlement(
      db,
      'bruges.example',
      federationState({ life: { staleAtMs: nowMs + 9, expiredAtMs: nowMs + 7 } }),
      nowMs,
    );
    assert.equal(changesAtMs, nowMs + 7);
  });

  test('is withheld, whatever grants say, where the site does not use it', () => {
    const facts = (known: Partial<BundleFacts>) => outcome({ keptByPeering: false, facts: known });
    assert.deepEqual(facts({ quarantined: true }), ['withheld: Quarantined']);
    assert.deepEqual(facts({ bundle: undefined }), ['withheld: NoBundle']);
    assert.deepEqual(facts({ sharesAuthority: true }), ['withheld: SharedAuthority']);
  });

  test('is not there where the site does not federate with it', () => {
    assert.deepEqual(outcome({ federations: [] }, db, ['bruges.example']), [
      'withheld: NotFederated',
    ]);
  });

  test('of a peer is withheld without a grant', () => {
    const active = peer({ state: 'active' });
    assert.deepEqual(outcome({ peer: active }), ['withheld: NoGrant']);
    assert.deepEqual(outcome({ peer: active, grants: [grant()] }), ['given: Granted']);
  });

  test('of a peer is given where the peer grants one of its offers to this workload', () => {
    const granted = (grantedTo: readonly string[]) =>
      outcome({ peer: peer({ state: 'active', offers: [{ name: 'api', grantedTo }] }) });
    assert.deepEqual(granted(['spiffe://lubeck.example/db']), ['given: GrantedByPeer']);
    assert.deepEqual(granted(['*']), ['given: GrantedByPeer']);
    assert.deepEqual(granted(['spiffe://lubeck.example/other']), ['withheld: NoGrant']);
    assert.deepEqual(granted([]), ['withheld: NoGrant']);
  });

  test('of a silent peer stays; of a suspended or revoked one it is withheld whatever grants say', () => {
    const by = (state: string | undefined, desired?: string) =>
      outcome({ peer: peer({ state }, desired), grants: [grant()] });
    assert.deepEqual(by('degraded'), ['given: Granted']);
    for (const state of ['proposed', 'accepted', 'suspended', 'revoked', undefined]) {
      assert.deepEqual(by(state), ['withheld: PeerNotTrusted'], state);
    }
    assert.deepEqual(by('active', 'suspended'), ['withheld: PeerNotTrusted']);
  });

  test('is withheld where the grant names another offer, has ended, or can match nobody', () => {
    const active = peer({ state: 'active' });
    for (const spec of [
      { offers: ['mail'] },
      { offers: ['gone'] },
      { offers: [] },
      { expiresAt: '2026-06-01T00:00:00Z' },
      { nodeInstances: {} },
      { nodeInstances: { ids: [] } },
      { networks: { ids: ['backbone'] } },
      { sourceCIDRs: { cidrs: [] } },
    ]) {
      assert.deepEqual(
        outcome({ peer: active, grants: [grant(spec)] }),
        ['withheld: NoGrant'],
        JSON.stringify(spec),
      );
    }
  });

  test('is looked at again when the next grant ends', () => {
    const ends = ['2026-06-02T00:00:00Z', '2026-06-01T12:00:00Z', '2026-05-01T00:00:00Z'];
    const { changesAtMs } = entitlement(
      db,
      'bruges.example',
      federationState({
        peer: peer({ state: 'active' }),
        grants: ends.map((expiresAt) => grant({ expiresAt })),
      }),
      nowMs,
    );
    assert.equal(changesAtMs, Date.parse('2026-06-01T12:00:00Z'));
  });
});
