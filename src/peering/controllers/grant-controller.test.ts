import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Kind } from '../../api/kind.ts';
import { type FederationGrant, federationGrantKind } from '../../api/kinds/federation-grant.ts';
import type { Resource } from '../../api/object.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { openStore } from '../../core/store/open.ts';
import { resourceClient } from '../../server/resources/resource-client.ts';
import { ResourceWriter } from '../../server/resources/writer.ts';
import { grantController } from './grant-controller.ts';

async function scene() {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  const random = new SeededRandom('grants');
  const auditRow = () => ({ encode: () => Buffer.from('{}') });
  const writer = new ResourceWriter({ store, clock, random, admit: () => [], auditRow });
  const resources = <R extends Resource>(kind: Kind) =>
    resourceClient<R>(kind, { store, writer, clock });
  const controller = grantController({ store, clock, resources });
  /** Past every check, as an older version stored it. */
  const put = (collection: string, kind: string, name: string, rest: object) =>
    store.commit({
      put: [
        {
          collection,
          name,
          encode: (revision) =>
            Buffer.from(
              JSON.stringify({
                apiVersion: 'hansa.dev/v1alpha1',
                kind,
                metadata: {
                  name,
                  uid: `${name}-uid`,
                  generation: 1,
                  resourceVersion: String(revision),
                  creationTimestamp: '2026-01-01T00:00:00Z',
                },
                ...rest,
              }),
            ),
        },
      ],
    });
  const grant = (spec: object = {}) =>
    put('federationgrants', 'FederationGrant', 'bruges-db', {
      spec: {
        peer: 'bruges.example',
        offers: ['db'],
        nodeInstances: { unrestricted: true },
        networks: { unrestricted: true },
        sourceCIDRs: { unrestricted: true },
        ...spec,
      },
    });
  await put('federationpeers', 'FederationPeer', 'bruges.example', {
    spec: { url: 'https://bruges.example:8443', desiredState: 'active' },
    status: { state: 'active' },
  });
  await put('serviceoffers', 'ServiceOffer', 'db', { spec: { spiffeID: 'spiffe://a.example/db' } });
  const look = async () => {
    const again = await controller.reconcile('bruges-db', { epoch: undefined } as never);
    const found = await resources<FederationGrant>(federationGrantKind).get('bruges-db');
    const reasons = found?.status?.conditions?.map(({ type, reason }) => `${type} ${reason}`);
    return { reasons, again: again?.requeueAfterMs };
  };
  /** Which grants the sources bring up, all together. */
  const woken = () => {
    const keys: string[] = [];
    const sources = controller.sources.map((source) =>
      source.start({ add: (key) => keys.push(key), ended: () => undefined }),
    );
    return { taken: () => keys.splice(0), stop: () => sources.forEach((source) => source.stop()) };
  };
  return { clock, store, grant, put, look, woken };
}

suite('the controller of grants', () => {
  test('tells of scopes that an older version stored, whatever the schema says of them now', async () => {
    const { grant, look } = await scene();
    await grant({ scopes: ['nothing-at-all'], offers: [] });
    assert.deepEqual((await look()).reasons, ['Ready NoScope', 'ScopesKnown UnknownScope']);
  });

  test('looks again when the grant expires', async () => {
    const { clock, grant, look } = await scene();
    const expiresAt = new Date(clock.now() + 60_000).toISOString();
    await grant({ expiresAt });
    assert.deepEqual(await look(), {
      reasons: ['Ready Granted', 'ScopesKnown Known'],
      again: Date.parse(expiresAt) - clock.now(),
    });
    await clock.advance(60_000);
    assert.deepEqual(await look(), {
      reasons: ['Ready Expired', 'ScopesKnown Known'],
      again: undefined,
    });
  });

  test('writes nothing where nothing changed', async () => {
    const { store, grant, look } = await scene();
    await grant();
    await look();
    const { revision } = store;
    await look();
    assert.equal(store.revision, revision);
  });

  test('is woken by the peer and by the offers of a grant, and by no others', async () => {
    const { grant, put, woken } = await scene();
    await grant();
    const { taken, stop } = woken();
    assert.ok(taken().includes('bruges-db'));
    const spec = { url: 'https://a.example', desiredState: 'active' };
    await put('federationpeers', 'FederationPeer', 'reval.example', { spec });
    await put('serviceoffers', 'ServiceOffer', 'metrics', { spec: {} });
    assert.deepEqual(taken(), []);
    await put('federationpeers', 'FederationPeer', 'bruges.example', { spec });
    assert.ok(taken().includes('bruges-db'));
    await put('serviceoffers', 'ServiceOffer', 'db', { spec: {} });
    assert.ok(taken().includes('bruges-db'));
    stop();
  });

  test('is woken by the clusters of a grant', async () => {
    const { grant, put, look, woken } = await scene();
    await grant({ offers: [], clusters: ['app1'] });
    assert.deepEqual((await look()).reasons, ['Ready TargetNotFound', 'ScopesKnown Known']);
    const { taken, stop } = woken();
    taken();
    await put('clusters', 'Cluster', 'app2', { spec: {} });
    assert.deepEqual(taken(), []);
    await put('clusters', 'Cluster', 'app1', { spec: {} });
    assert.ok(taken().includes('bruges-db'));
    assert.deepEqual((await look()).reasons, ['Ready Granted', 'ScopesKnown Known']);
    stop();
  });
});
