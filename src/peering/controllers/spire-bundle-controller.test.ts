// Bundles of SPIRE servers between two sites: the routes of one site answer the controller of the other.

import assert from 'node:assert/strict';
import { suite, type TestContext, test } from 'node:test';
import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { HansaError } from '../../core/errors/error.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { encodeSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { forgeRoot } from '../../core/identity/x509/test-forge.ts';
import type { ValidatedSvid } from '../../core/identity/x509/svid-validator.ts';
import { silentLog } from '../../core/log/test-log.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { type ReceivedBundles, receivedReader } from '../../core/spire-bundles/records.ts';
import { openStore } from '../../core/store/open.ts';
import { FederationClient } from '../client/federation-client.ts';
import { paths } from '../messages.ts';
import { peerDirectory } from '../peers/peer-directory.ts';
import { catalogRoutes } from '../routes/catalog-routes.ts';
import { clusterBundleRoute } from '../routes/cluster-bundle-route.ts';
import { spireBundleController } from './spire-bundle-controller.ts';

function bundleOf(trustDomain: string): string {
  const domain = TrustDomain.parse(trustDomain);
  const bundle = new Bundle(domain, [forgeRoot(trustDomain).certificate]);
  return encodeSpiffeBundle(bundle, { sequence: 0, refreshHintSeconds: 300 });
}

const open = { unrestricted: true };
const site = 'spiffe://bruges.example/hansa/site';
const svid = { id: SpiffeId.parse(site) } as ValidatedSvid;

/** Site lubeck operates a SPIRE server of spire-a.example in cluster app1. Site bruges wants its bundle. */
async function scene(t: TestContext) {
  const clock = new VirtualClock();
  const newStore = async () => {
    const store = await openStore({ driver: 'memory' }, { clock });
    t.after(() => store.close());
    const put = async (collection: string, name: string, object: object): Promise<void> => {
      const encode = () => Buffer.from(JSON.stringify(object));
      await store.commit({ put: [{ collection, name, encode }] });
    };
    const remove = (collection: string, name: string) =>
      store.commit({ delete: [{ collection, name }] });
    const peer = (name: string, state: string, desiredState = 'active') =>
      put('federationpeers', name, {
        metadata: { name, uid: `uid-${name}` },
        spec: { url: `https://${name}:8443`, desiredState },
        status: { state },
      });
    return { store, put, remove, peer };
  };
  const lubeck = await newStore();
  const bruges = await newStore();
  await lubeck.peer('bruges.example', 'active');
  await bruges.peer('lubeck.example', 'active');
  const cluster = (uid = 'u1', spec: object = { spire: {} }) =>
    lubeck.put('clusters', 'app1', { metadata: { name: 'app1', uid }, spec });
  const publish = (trustDomain = 'spire-a.example', document = bundleOf(trustDomain)) =>
    lubeck.put('spire.published', 'app1', { uid: 'u1', trustDomain, document });
  const grant = (spec: object = {}) =>
    lubeck.put('federationgrants', 'g1', {
      metadata: { name: 'g1' },
      spec: {
        peer: 'bruges.example',
        scopes: ['read'],
        clusters: ['app1'],
        nodeInstances: { ids: [site] },
        networks: open,
        sourceCIDRs: open,
        ...spec,
      },
    });
  const want = (...trustDomains: readonly string[]) =>
    bruges.put('spire.wanted', 'mine', { uid: 'm1', trustDomains, peers: ['lubeck.example'] });
  await cluster();
  const own = (uid = 'm1', spec: object = { spire: {} }) =>
    bruges.put('clusters', 'mine', { metadata: { name: 'mine', uid }, spec });
  await own();
  const denied: unknown[] = [];
  const directory = peerDirectory({
    trustDomain: TrustDomain.parse('lubeck.example'),
    store: lubeck.store,
    clock,
    audit: { deny: (draft) => denied.push(draft) },
    log: { warn: () => undefined },
  });
  const parts = { store: lubeck.store, clock };
  const routes = [...catalogRoutes(parts), clusterBundleRoute(parts)];
  const asked: string[] = [];
  /** What lubeck answers in place of the truth. */
  const lies = new Map<string, unknown>();
  const answer = async (path: string): Promise<Buffer | string> => {
    const lie = lies.get(path);
    if (lie instanceof Error) throw lie;
    if (lie !== undefined) return JSON.stringify(lie);
    const name = /\/clusters\/([^/]+)\/bundle$/.exec(path)?.[1];
    const found = routes.find(
      (each) => each.path === (name === undefined ? path : paths.clusterBundle),
    );
    assert.ok(found, path);
    const params = name === undefined ? {} : { cluster: name };
    const call = { params, svid: () => svid, address: '192.0.2.7' };
    return (await callRoute(found, call, { peers: directory })).body;
  };
  const refused: AuditDraft[] = [];
  const client = new FederationClient({
    connections: {
      call: async (_site, { path }) => {
        asked.push(path);
        return { status: 200, headers: {}, body: Buffer.from(await answer(path)) };
      },
    },
    settings: { callTimeoutMs: 1000 },
    audit: { deny: (draft) => refused.push(draft) },
  });
  const controller = spireBundleController({
    store: bruges.store,
    clock,
    settings: { callTimeoutMs: 1000 },
    peers: {
      get: async (name: string) => {
        const entry = bruges.store.get('federationpeers', name);
        return entry && (JSON.parse(entry.value.toString()) as FederationPeer);
      },
    },
    client,
  });
  const run = async (): Promise<ReceivedBundles['bundles']> => {
    const { signal } = new AbortController();
    await controller.reconcile('lubeck.example', { epoch: undefined, signal, log: silentLog });
    return receivedReader.get(bruges.store, 'lubeck.example')?.bundles ?? [];
  };
  return {
    controller,
    lubeck,
    bruges,
    cluster,
    own,
    publish,
    grant,
    want,
    run,
    asked,
    lies,
    denied,
    refused,
  };
}

suite('the bundle of a SPIRE server of a peer', () => {
  test('arrives where it is wanted and granted, and ends with the grant', async (t) => {
    const { lubeck, publish, grant, want, run } = await scene(t);
    const document = bundleOf('spire-a.example');
    await publish('spire-a.example', document);
    await grant();
    await want('spire-a.example');
    const received = [{ cluster: 'app1', trustDomain: 'spire-a.example', document }];
    assert.deepEqual(await run(), received);
    await lubeck.remove('federationgrants', 'g1');
    assert.deepEqual(await run(), []);
  });

  test('is not asked for where nobody wants it', async (t) => {
    const { publish, grant, want, run, asked, bruges } = await scene(t);
    await publish();
    await grant();
    assert.deepEqual(await run(), []);
    assert.deepEqual(asked, []);
    await want('other.example');
    assert.deepEqual(await run(), []);
    assert.deepEqual(asked, [paths.catalog]);
    // A Cluster that does not name this peer wants nothing of it.
    await bruges.put('spire.wanted', 'mine', {
      uid: 'm1',
      trustDomains: ['spire-a.example'],
      peers: ['reval.example'],
    });
    await run();
    assert.deepEqual(asked, [paths.catalog]);
  });

  for (const [what, spec] of [
    ['names another cluster', { clusters: ['app2'] }],
    ['names an offer of that name', { clusters: [], offers: ['app1'] }],
    ['names a workload, not the site', { nodeInstances: { ids: ['spiffe://bruges.example/web'] } }],
    ['has another scope', { scopes: ['write', 'admin'] }],
    ['is for another address', { sourceCIDRs: { cidrs: ['198.51.100.0/24'] } }],
    ['has expired', { expiresAt: '1970-01-01T00:00:00Z' }],
  ] as const) {
    test(`does not arrive by a grant that ${what}`, async (t) => {
      const { publish, grant, want, run } = await scene(t);
      await publish();
      await grant(spec);
      await want('spire-a.example');
      assert.deepEqual(await run(), []);
    });
  }

  test('is not published for a Cluster that lost its mark or was made again', async (t) => {
    const { cluster, publish, grant, want, run } = await scene(t);
    await publish();
    await grant();
    await want('spire-a.example');
    assert.equal((await run()).length, 1);
    await cluster('u1', {});
    assert.equal((await run()).length, 0);
    await cluster('u2');
    assert.equal((await run()).length, 0);
    await cluster('u1');
    assert.equal((await run()).length, 1);
  });

  test('is dropped when the peer is suspended or revoked, and kept while it cannot be reached', async (t) => {
    const { bruges, publish, grant, want, run, lies } = await scene(t);
    await publish();
    await grant();
    await want('spire-a.example');
    await run();
    lies.set(paths.catalog, new HansaError('HANSA_UNREACHABLE', 'no answer'));
    assert.equal((await run()).length, 1);
    await bruges.peer('lubeck.example', 'active', 'suspended');
    assert.equal((await run()).length, 0);
    lies.clear();
    await bruges.peer('lubeck.example', 'active');
    assert.equal((await run()).length, 1);
    await bruges.peer('lubeck.example', 'revoked');
    assert.equal((await run()).length, 0);
  });

  const path = '/hansa/federation/v1/clusters/app1/bundle';
  const other = /it is about another cluster or trust domain than this site asked about/;
  for (const [what, answer, why] of [
    [
      'of another trust domain',
      { cluster: 'app1', trustDomain: 'evil.example', bundle: bundleOf('evil.example') },
      other,
    ],
    [
      'for another cluster',
      { cluster: 'app2', trustDomain: 'spire-a.example', bundle: bundleOf('spire-a.example') },
      other,
    ],
    ['that is empty', { cluster: 'app1', trustDomain: 'spire-a.example', bundle: '{"keys":[]}' }],
    ['that is no bundle', { cluster: 'app1', trustDomain: 'spire-a.example', bundle: 'PEM' }],
    ['without a bundle', { cluster: 'app1', trustDomain: 'spire-a.example' }],
    ['that is a list', []],
  ] as const) {
    test(`is refused in an answer ${what}, which is in the audit log`, async (t) => {
      const { publish, grant, want, run, lies, refused } = await scene(t);
      await publish();
      await grant();
      await want('spire-a.example', 'evil.example');
      lies.set(path, answer);
      assert.deepEqual(await run(), []);
      const [row, ...more] = refused;
      assert.deepEqual(more, []);
      assert.deepEqual(
        [row?.actor.user, row?.verb, row?.name, row?.outcome],
        ['spiffe://lubeck.example/hansa/site', 'peer.bundle', 'lubeck.example', 'deny'],
      );
      if (why !== undefined) assert.match(row?.reason ?? '', why);
    });
  }

  test('is not asked for by a Cluster that lost its mark, was made again or removed', async (t) => {
    const { bruges, own, publish, grant, want, run, asked } = await scene(t);
    await publish();
    await grant();
    await want('spire-a.example');
    assert.equal((await run()).length, 1);
    for (const change of [
      () => own('m1', {}),
      () => own('m2'),
      () => bruges.remove('clusters', 'mine'),
    ]) {
      await change();
      asked.length = 0;
      assert.deepEqual(await run(), []);
      assert.deepEqual(asked, []);
      await own();
      assert.equal((await run()).length, 1);
    }
  });

  test('is stored without the rest of the text of the peer', async (t) => {
    const { publish, grant, want, run } = await scene(t);
    const document = bundleOf('spire-a.example');
    const { keys } = JSON.parse(document) as { readonly keys: readonly object[] };
    const noisy = JSON.stringify({ keys, spiffe_sequence: 7, note: 'x'.repeat(10_000) });
    await publish('spire-a.example', noisy);
    await grant();
    await want('spire-a.example');
    assert.deepEqual(
      (await run()).map((each) => each.document),
      [document],
    );
  });

  test('costs a bounded number of questions, also where no answer is good', async (t) => {
    const { want, run, asked, lies } = await scene(t);
    await want('spire-a.example');
    const names = Array.from({ length: 500 }, (_, index) => `c${index}`);
    lies.set(paths.catalog, {
      offers: [],
      leftOut: 0,
      clusters: names.map((name) => ({
        name,
        scopes: ['read'],
        spireTrustDomain: 'spire-a.example',
      })),
    });
    for (const name of names) lies.set(`/hansa/federation/v1/clusters/${name}/bundle`, []);
    assert.deepEqual(await run(), []);
    assert.equal(asked.length, 11);
  });

  test('is dropped where its peer was removed while no replica ran', async (t) => {
    const { controller, bruges } = await scene(t);
    await bruges.put('spire.received', 'gone.example', { bundles: [] });
    const keys: string[] = [];
    const ended = (error: HansaError) => assert.fail(error.message);
    for (const source of controller.sources) {
      source.start({ add: (key) => keys.push(key), ended }).stop();
    }
    assert.ok(keys.includes('gone.example'));
    const { signal } = new AbortController();
    await controller.reconcile('gone.example', { epoch: undefined, signal, log: silentLog });
    assert.equal(bruges.store.get('spire.received', 'gone.example'), undefined);
  });

  test('is replaced where its record is damaged', async (t) => {
    const { bruges, publish, grant, want, run } = await scene(t);
    await publish();
    await grant();
    await want('spire-a.example');
    const received = await run();
    await bruges.put('spire.received', 'lubeck.example', { bundles: [{}] });
    assert.equal(receivedReader.get(bruges.store, 'lubeck.example'), undefined);
    assert.deepEqual(await run(), received);
    await bruges.put('spire.wanted', 'mine', { uid: 'm1', trustDomains: 'spire-a.example' });
    assert.deepEqual(await run(), []);
  });

  test('writes nothing where nothing changed', async (t) => {
    const { bruges, publish, grant, want, run } = await scene(t);
    await publish();
    await grant();
    await want('spire-a.example');
    await run();
    const { revision } = bruges.store;
    await run();
    assert.equal(bruges.store.revision, revision);
  });
});
