import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { testSite } from '../../core/identity/authority/test-vault.ts';
import { openStore } from '../../core/store/open.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { entitlement } from '../authorization/entitlement.ts';
import { StoreFederationState } from '../authorization/federation-state.ts';
import { encodeSiteItem } from '../agents/site-item.ts';
import { FederatedBundles } from '../federation/federated-bundles.ts';
import { StoreEntries } from '../workload/entries/store-entries.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { identityItemProblem } from './identity-items.ts';

const lubeck = TrustDomain.parse('lubeck.example');

const good = {
  workloadentries: {
    metadata: { name: 'web', uid: 'u' },
    spec: {
      spiffeID: 'spiffe://lubeck.example/web',
      selectors: ['unix:uid:0'],
      federatesWith: ['*'],
      ttlSeconds: 3600,
      jwtTtlSeconds: 300,
      dnsNames: [],
    },
  },
  spiffefederations: {
    metadata: { name: 'bruges.example', labels: { a: 'b' } },
    spec: { bundleSource: { httpsSpiffe: {} }, quarantined: false, staleAfterSeconds: 60 },
    status: { source: 'https_spiffe', bundle: '{}', syncedAt: '2026-01-01T00:00:00Z' },
  },
  federationpeers: {
    metadata: { name: 'bruges.example', uid: 'u' },
    spec: { desiredState: 'active' },
    status: {
      state: 'active',
      reenrolments: 1,
      offers: [{ name: 'db', spiffeID: 'spiffe://bruges.example/db', grantedTo: ['*'] }],
    },
  },
  federationgrants: {
    metadata: { name: 'bruges-db' },
    spec: {
      peer: 'bruges.example',
      scopes: ['read'],
      offers: ['db'],
      nodeInstances: { ids: ['spiffe://bruges.example/web'] },
      networks: { unrestricted: true },
      sourceCIDRs: { cidrs: ['192.0.2.0/24'] },
      expiresAt: '2026-01-01T00:00:00Z',
    },
  },
  serviceoffers: { metadata: { name: 'db' }, spec: { spiffeID: 'spiffe://lubeck.example/web' } },
} as const;

const problemOf = (collection: string, object: unknown, name?: string): string | undefined =>
  identityItemProblem(
    {
      collection,
      name: name ?? (object as { metadata?: { name?: string } }).metadata?.name ?? 'x',
      value: Buffer.from(JSON.stringify(object) ?? ''),
    },
    lubeck,
  );

/** Every value in a tree, with the path to it. */
function* pathsOf(
  value: unknown,
  path: readonly string[] = [],
): Generator<{ readonly path: readonly string[]; readonly value: unknown }> {
  if (path.length > 0) yield { path, value };
  if (typeof value !== 'object' || value === null) return;
  for (const [name, child] of Object.entries(value)) yield* pathsOf(child, [...path, name]);
}

function replaced(object: unknown, [name, ...rest]: readonly string[], by: unknown): unknown {
  if (name === undefined) return by;
  const copy = structuredClone(object) as Record<string, unknown>;
  copy[name] = replaced(copy[name], rest, by);
  return copy;
}

suite('an item for an agent', () => {
  for (const [collection, object] of Object.entries(good)) {
    test(`of ${collection} is accepted as a site sends it`, () => {
      assert.equal(problemOf(collection, object), undefined);
    });

    test(`of ${collection} is refused where any value has another type`, () => {
      for (const { path, value } of pathsOf(object)) {
        const isObject = typeof value === 'object' && !Array.isArray(value);
        for (const wrong of [null, [[]], -1, ...(isObject ? [] : [{}])]) {
          assert.match(
            problemOf(collection, replaced(object, path, wrong), object.metadata.name) ?? '',
            new RegExp(`the item ${collection}/${object.metadata.name} is invalid`),
            `${path.join('.')} = ${JSON.stringify(wrong)}`,
          );
        }
      }
    });

    test(`of ${collection} is refused under another name`, () => {
      assert.match(problemOf(collection, object, 'other.example') ?? '', /another name/);
    });
  }

  test('is refused where it is not JSON, or nested too deeply', () => {
    for (const value of ['', '{', 'null', '[]', '"text"', '['.repeat(1000)]) {
      const item = { collection: 'workloadentries', name: 'web', value: Buffer.from(value) };
      assert.notEqual(identityItemProblem(item, lubeck), undefined, value.slice(0, 10));
    }
  });

  test('is refused where the name of a federation is no trust domain', () => {
    const object = { ...good.spiffefederations, metadata: { name: 'Not A Domain' } };
    assert.match(problemOf('spiffefederations', object) ?? '', /not a trust domain/);
  });

  test('of a collection that the agent does not read is ignored', () => {
    assert.equal(problemOf('overlaynodes', []), undefined);
  });

  test('that describes the site is accepted with a sound bundle, and refused with another', async () => {
    const { authority } = await testSite('lubeck.example');
    const item = (value: Buffer) => ({ collection: 'trust.site', name: 'site', value });
    assert.equal(identityItemProblem(item(encodeSiteItem(authority, 60)), lubeck), undefined);
    assert.match(identityItemProblem(item(Buffer.from('{}')), lubeck) ?? '', /it has no bundle/);
  });

  test('that is accepted never makes a reader fail, whatever it contains', async () => {
    const { authority } = await testSite('lubeck.example');
    const clock = new VirtualClock();
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...Object.keys(good)),
        fc.infiniteStream(fc.jsonValue()),
        fc.nat(),
        async (collection, values, seed) => {
          const object = good[collection as keyof typeof good];
          const paths = [...pathsOf(object)];
          const path = paths[seed % paths.length]?.path ?? [];
          const { value: by } = values.next() as { value: unknown };
          const changed = replaced(object, path, by);
          const { name } = object.metadata;
          if (problemOf(collection, changed, name) !== undefined) return;
          const store = await openStore({ driver: 'memory' }, { clock });
          await store.commit({
            put: [{ collection, name, encode: () => Buffer.from(JSON.stringify(changed)) }],
          });
          void new StoreEntries({ store, trustDomain: lubeck }).index.match(['unix:uid:0']);
          const bundles = new FederatedBundles(store, authority, clock);
          const state = new StoreFederationState(store, bundles).current;
          const id = SpiffeId.parse('spiffe://lubeck.example/web');
          for (const domain of ['bruges.example', ...state.federations]) {
            entitlement(id, domain, state, clock.now());
          }
          await store.close();
        },
      ),
      { numRuns: 300 },
    );
  });
});
