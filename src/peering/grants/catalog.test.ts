import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { decideGrant } from '../../api/grants.ts';
import type { FederationGrant } from '../../api/kinds/federation-grant.ts';
import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import type { ServiceOffer } from '../../api/kinds/service-offer.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { type CatalogFacts, catalogFor } from './catalog.ts';
import { maxCatalogBytes, parseCatalog } from './catalog-message.ts';

const nowMs = Date.parse('2026-06-01T00:00:00Z');
const open = { unrestricted: true };
const peer = {
  spec: { desiredState: 'active' },
  status: { state: 'active' },
} as unknown as FederationPeer;
const question = { peer: 'bruges.example', sourceAddress: '192.0.2.7', nowMs };

function grant(spec: object, more: object = {}): FederationGrant {
  return {
    metadata: { name: 'g1', ...more },
    spec: {
      peer: 'bruges.example',
      scopes: ['read'],
      nodeInstances: { ids: ['spiffe://bruges.example/web'] },
      networks: open,
      sourceCIDRs: open,
      ...spec,
    },
  } as unknown as FederationGrant;
}

function offer(name: string, spec: object = {}, more: object = {}): ServiceOffer {
  return {
    metadata: { name, ...more },
    spec: { spiffeID: `spiffe://lubeck.example/${name}`, ...spec },
  } as unknown as ServiceOffer;
}

function shown(grants: readonly FederationGrant[], facts: Partial<CatalogFacts> = {}) {
  return catalogFor(question, {
    peer,
    grants,
    offers: [
      offer('metrics'),
      offer('db', { protocol: 'tcp', port: 5432, description: 'Orders.' }),
    ],
    clusters: [{ name: 'app2' }, { name: 'app1', spireTrustDomain: 'spire.example' }],
    ...facts,
  });
}

suite('the catalog for a peer', () => {
  test('has the offers that are granted to any of its workloads, with what they may do', () => {
    const catalog = shown([
      grant({ offers: ['db', 'gone'] }),
      grant({ offers: ['db'], scopes: ['admin'] }),
    ]);
    assert.deepEqual(catalog, {
      offers: [
        {
          name: 'db',
          spiffeID: 'spiffe://lubeck.example/db',
          scopes: ['read', 'admin'],
          description: 'Orders.',
          protocol: 'tcp',
          port: 5432,
        },
      ],
      clusters: [],
      leftOut: 0,
    });
    // The other site reads what this one writes.
    const read = parseCatalog(
      Buffer.from(JSON.stringify(catalog)),
      TrustDomain.parse('lubeck.example'),
    );
    assert.deepEqual(read, catalog);
  });

  test('has clusters only where the grant names the site of the peer', () => {
    assert.deepEqual(shown([grant({ clusters: ['app1'] })]).clusters, []);
    const ids = ['spiffe://bruges.example/hansa/site'];
    const granted = grant({ clusters: ['app1', 'other'], nodeInstances: { ids } });
    const spireTrustDomain = 'spire.example';
    assert.deepEqual(shown([granted]).clusters, [
      { name: 'app1', scopes: ['read'], spireTrustDomain },
    ]);
    const writing = grant({ clusters: ['app1'], nodeInstances: { ids }, scopes: ['write'] });
    assert.deepEqual(shown([writing]).clusters, [{ name: 'app1', scopes: ['write'] }]);
  });

  for (const [what, spec] of [
    ['of another peer', { peer: 'reval.example' }],
    ['that has expired', { expiresAt: '2026-01-01T00:00:00Z' }],
    ['for another address', { sourceCIDRs: { cidrs: ['198.51.100.0/24'] } }],
    ['for a network', { networks: { ids: ['backbone'] } }],
    ['for nobody', { nodeInstances: { ids: [] } }],
    ['for somebody else', { nodeInstances: { ids: ['spiffe://reval.example/web'] } }],
    ['without a scope', { scopes: [] }],
    ['for a cluster of that name', { offers: [], clusters: ['db'] }],
  ] as const) {
    test(`shows nothing by a grant ${what}`, () => {
      assert.deepEqual(shown([grant({ offers: ['db'], ...spec })]).offers, []);
    });
  }

  test('leaves out what is being deleted', () => {
    const deletionTimestamp = '2026-06-01T00:00:00Z';
    assert.deepEqual(shown([grant({ offers: ['db'] }, { deletionTimestamp })]).offers, []);
    const offers = [offer('db', {}, { deletionTimestamp })];
    assert.deepEqual(shown([grant({ offers: ['db'] })], { offers }).offers, []);
  });

  test('stays below its size, and says how much it leaves out', () => {
    const names = Array.from({ length: 2000 }, (_, at) => `offer-${at}`);
    const offers = names.map((name) => offer(name, { description: 'ö'.repeat(1024) }));
    const catalog = shown([grant({ offers: names })], { offers });
    assert.ok(Buffer.byteLength(JSON.stringify(catalog)) <= maxCatalogBytes);
    assert.ok(catalog.offers.length > 100);
    assert.equal(catalog.offers.length + catalog.leftOut, 2000);
  });

  test('shows an offer exactly where some identity of the peer is covered', () => {
    const ids = ['spiffe://bruges.example/web', 'spiffe://bruges.example/hansa/site'];
    const axis = (key: string, values: readonly string[]) =>
      fc.record({ [key]: fc.subarray([...values]), unrestricted: fc.boolean() });
    const specs = fc.record({
      offers: fc.subarray(['db', 'metrics']),
      scopes: fc.subarray(['read', 'write', 'admin']),
      nodeInstances: axis('ids', ids),
      networks: axis('ids', ['backbone']),
      sourceCIDRs: axis('cidrs', ['192.0.2.0/24', '10.0.0.0/8']),
    });
    fc.assert(
      fc.property(fc.array(specs, { maxLength: 3 }), (made) => {
        const grants = made.map((spec) => grant(spec));
        const names = shown(grants).offers.map(({ name }) => name);
        for (const name of ['db', 'metrics']) {
          const isCovered = ids.some(
            (spiffeID) =>
              decideGrant(
                { ...question, spiffeID, target: { type: 'offer', name }, need: 'connect' },
                peer,
                grants,
              ).covered,
          );
          assert.equal(names.includes(name), isCovered);
        }
      }),
    );
  });
});

suite('a catalog of another site', () => {
  const lubeck = TrustDomain.parse('lubeck.example');
  const good = { name: 'db', spiffeID: 'spiffe://lubeck.example/db', scopes: ['read'] };
  const read = (message: object) => parseCatalog(Buffer.from(JSON.stringify(message)), lubeck);

  test('is read with values of a later version left out', () => {
    const offers = [{ ...good, scopes: ['read', 'fly'], protocol: 'quic', shiny: true }];
    const catalog = read({ offers, clusters: [], leftOut: 0, more: 1 });
    assert.deepEqual(catalog.offers, [good]);
  });

  for (const [what, message] of [
    ['no JSON', '<html>'],
    ['a list', '[]'],
    ['without offers', '{"clusters":[],"leftOut":0}'],
    [
      'with an offer of another site',
      { offers: [{ ...good, spiffeID: 'spiffe://evil.example/db' }] },
    ],
    ['with an offer that is no object', { offers: ['db'] }],
    ['with a name that is none', { offers: [{ ...good, name: '../db' }] }],
    ['with a name that steers a terminal', { offers: [{ ...good, name: '\u001b[2J' }] }],
    ['with two offers of a name', { offers: [good, good] }],
    ['with a long description', { offers: [{ ...good, description: 'x'.repeat(1025) }] }],
    ['with a port that is none', { offers: [{ ...good, port: 65_536 }] }],
    ['with scopes that are no list', { offers: [{ ...good, scopes: 'read' }] }],
    ['with too many offers', { offers: Array.from({ length: 1025 }, () => good) }],
    [
      'with two clusters of a name',
      {
        offers: [],
        clusters: [
          { name: 'a', scopes: [] },
          { name: 'a', scopes: [] },
        ],
      },
    ],
    ['with less than nothing left out', { offers: [], leftOut: -1 }],
  ] as const) {
    test(`is refused ${what}`, () => {
      const text =
        typeof message === 'string'
          ? message
          : JSON.stringify({ clusters: [], leftOut: 0, ...message });
      const bytes = Buffer.from(text);
      assert.throws(() => parseCatalog(bytes, lubeck), { code: 'HANSA_BAD_REQUEST' });
    });
  }
});
