import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { FederationGrant } from '../../api/kinds/federation-grant.ts';
import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { grantConditions } from './grant-conditions.ts';

const nowMs = Date.parse('2026-06-01T00:00:00Z');
const metadata = {
  name: 'bruges-db',
  uid: 'u',
  resourceVersion: '1',
  generation: 7,
  creationTimestamp: '',
};
const spec = {
  peer: 'bruges.example',
  scopes: ['read'],
  offers: ['db'],
  nodeInstances: { ids: ['spiffe://bruges.example/web'] },
  networks: { unrestricted: true },
  sourceCIDRs: { unrestricted: true },
};

/** `Ready` and `ScopesKnown` with their reasons, and all messages. */
function told(given: object, state = 'active', offers = ['db']) {
  const grant = { metadata, spec: { ...spec, ...given } } as unknown as FederationGrant;
  const peer = { spec: { desiredState: 'active' }, status: { state } } as FederationPeer;
  const conditions = grantConditions(grant, {
    peer: state === 'unknown' ? undefined : peer,
    hasTarget: (type, name) =>
      type === 'service' || (type === 'offer' ? offers : ['app1']).includes(name),
    nowMs,
  });
  assert.ok(conditions.every(({ observedGeneration }) => observedGeneration === 7));
  return {
    reasons: conditions.map(({ type, status, reason }) => `${type} ${status} ${reason}`),
    text: conditions.map(({ message }) => message).join(' '),
  };
}

suite('the status of a grant', () => {
  test('is ready where it grants something', () => {
    const { reasons, text } = told({ scopes: ['read', 'write'] });
    assert.deepEqual(reasons, ['Ready True Granted', 'ScopesKnown True Known']);
    assert.match(text, /^Workloads of bruges\.example may read and write\./);
    assert.match(told({}, 'degraded').reasons[0] ?? '', /True/);
    assert.match(told({ offers: ['db', 'gone'] }).text, /no ServiceOffer gone/);
    assert.match(
      told({ clusters: ['app1'] }).text,
      /^Workloads .* read\. Clusters are for the site/,
    );
    const ids = ['spiffe://bruges.example/hansa/site'];
    const site = told({ offers: [], clusters: ['app1'], nodeInstances: { ids } });
    assert.match(site.text, /^The site of bruges\.example may read\. All/);
    const services = told({ offers: [], services: ['shop/web'] });
    assert.equal(services.reasons[0], 'Ready True Granted');
  });

  for (const [reason, given, why] of [
    ['Expired', { expiresAt: '2026-06-01T00:00:00Z' }, /expired at 2026-06-01/],
    ['Expired', { expiresAt: 'tomorrow' }, /expired/],
    ['NoScope', { scopes: ['nothing-at-all'] }, /none of the scopes read, write, admin/],
    ['NoScope', { scopes: [] }, /none of the scopes/],
    ['NothingMatches', { nodeInstances: undefined }, /spec\.nodeInstances matches nothing/],
    [
      'NothingMatches',
      { nodeInstances: { ids: [] } },
      /^The grant allows nothing: spec\.nodeInstances matches nothing/,
    ],
    [
      'NothingMatches',
      { nodeInstances: {}, networks: undefined },
      /spec\.nodeInstances and spec\.networks match nothing/,
    ],
    ['NothingMatches', { networks: {} }, /spec\.networks matches nothing/],
    ['NothingMatches', { sourceCIDRs: { cidrs: [] } }, /spec\.sourceCIDRs matches nothing/],
    ['NoNetworks', { networks: { ids: ['backbone'] } }, /no networks yet/],
    ['NoTarget', { offers: undefined }, /names no target/],
    ['OfferNotFound', { offers: ['gone'] }, /no ServiceOffer gone/],
    ['NoTarget', { offers: [], clusters: [], services: [] }, /names no target/],
    [
      'TargetNotFound',
      { offers: ['gone'], clusters: ['lost'] },
      /no ServiceOffer gone\. This site has no Cluster lost/,
    ],
    [
      'NothingMatches',
      { offers: [], clusters: ['app1'] },
      /add spiffe:\/\/bruges\.example\/hansa\/site to spec\.nodeInstances/,
    ],
  ] as const) {
    test(`is not ready (${reason}) with ${JSON.stringify(given)}`, () => {
      const { reasons, text } = told(given);
      assert.equal(reasons[0], `Ready False ${reason}`);
      assert.match(text, why);
    });
  }

  test('is not ready while the peer is not trusted', () => {
    for (const state of ['suspended', 'revoked', 'unknown']) {
      assert.equal(told({}, state).reasons[0], 'Ready False PeerNotTrusted', state);
    }
  });

  test('names scopes that do not exist, and grants by the others', () => {
    const { reasons, text } = told({ scopes: ['nothing-at-all', 'read'] });
    assert.deepEqual(reasons, ['Ready True Granted', 'ScopesKnown False UnknownScope']);
    assert.match(text, /do not exist and allow nothing: nothing-at-all\. Valid scopes: read/);
    const many = told({ scopes: ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'x'.repeat(999)] }).text;
    assert.match(many, /a, b, c, d, e and 4 more/);
  });
});
