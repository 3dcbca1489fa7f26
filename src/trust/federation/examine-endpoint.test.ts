import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { adminsGroup, type Caller } from '../../core/access/identity.ts';
import { hasCode } from '../../core/errors/error.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { forgeLeaf, forgeRoot } from '../../core/identity/x509/test-forge.ts';
import type { PlaneRoute } from '../../core/plane/route.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { type Examination, examineRoutes } from './examine-endpoint.ts';
import { federationSite, type TestEndpoint } from './test-federation-site.ts';

const name = 'bruges.example';
const admin = { user: 'admin', groups: [adminsGroup], via: 'admin' } as unknown as Caller;
const nobody = { user: 'eve', groups: [], via: 'token' } as unknown as Caller;
let site: Awaited<ReturnType<typeof federationSite>>;
let peer: TestEndpoint;
let own: TestEndpoint;
let route: PlaneRoute;
let ownRoute: PlaneRoute;

beforeEach(async () => {
  site = await federationSite();
  peer = site.endpoint(name);
  own = site.endpoint('lubeck.example');
  const [made, advertised] = examineRoutes({
    ...site,
    trustDomain: TrustDomain.parse(own.trustDomain),
    advertiseURL: () => own.url,
    heldBundles: {
      bundleFor: (domain) =>
        domain.name === own.trustDomain
          ? new Bundle(domain, [own.root.certificate])
          : site.bundles.held.bundleFor(domain),
    },
    resources: (() => site.federations) as never,
  });
  assert(made !== undefined && advertised !== undefined);
  route = made;
  ownRoute = advertised;
});

afterEach(async () => {
  const stopped = site.stop();
  await site.clock.advance(60_000);
  await stopped;
});

async function examine(caller: Caller | undefined = admin, of = name): Promise<Examination> {
  const { body } = await callRoute(route, { caller, params: { name: of } }, site);
  return JSON.parse(String(body)) as Examination;
}

async function federate(): Promise<void> {
  await site.create(name, peer.spec());
  await site.clock.advance(1000);
}

suite('an endpoint that is examined', () => {
  test('is told with everything that was seen, and nothing is written', async () => {
    await federate();
    const { revision } = site.store;
    const seen = await examine();
    assert.equal(seen.failure, undefined);
    assert.deepEqual(seen.presented?.ids, [peer.id]);
    assert.equal(seen.expected, peer.id);
    assert.deepEqual(seen.bundle, { authorities: 1, sequence: 1, isHeld: true });
    peer.answer = () => peer.ok(peer.document([peer.root, forgeRoot(name)], 2));
    assert.deepEqual((await examine()).bundle, { authorities: 2, sequence: 2, isHeld: false });
    assert.equal(site.store.revision, revision);
  });

  test('is told up to where it fails', async () => {
    await federate();
    peer.presents = forgeLeaf(forgeRoot('old.example'), 'spiffe://old.example/hansa/site');
    const other = await examine();
    assert.deepEqual(other.presented?.ids, ['spiffe://old.example/hansa/site']);
    assert.deepEqual([other.failure?.class, other.failure?.rule], ['identity', 'no-bundle']);
    peer.answer = () => 'refused';
    const down = await examine();
    assert.equal(down.failure?.class, 'connect');
    assert.equal(down.presented, undefined);
  });

  test('is examined for whoever may change the federation, and only where there is one', async () => {
    await federate();
    const asked = peer.requests;
    await assert.rejects(examine(nobody), (error) => hasCode(error, 'HANSA_FORBIDDEN'));
    await assert.rejects(examine(admin, 'nobody.example'), (error) =>
      hasCode(error, 'HANSA_NOT_FOUND'),
    );
    assert.equal(peer.requests, asked);
  });

  test('is one of four at most at the same time', async () => {
    await federate();
    let answer = (): void => undefined;
    peer.delay = new Promise((resolve) => {
      answer = resolve;
    });
    const looks = [1, 2, 3, 4].map(() => examine());
    await site.clock.advance(1);
    await assert.rejects(examine(), (error) => hasCode(error, 'HANSA_TOO_MANY_REQUESTS'));
    answer();
    await Promise.all(looks);
    peer.delay = undefined;
    assert.equal((await examine()).failure, undefined);
  });
});

suite('the advertised URL of the site itself', () => {
  async function examineOwn(caller: Caller | undefined = admin): Promise<Examination> {
    const { body } = await callRoute(ownRoute, { caller }, site);
    return JSON.parse(String(body)) as Examination;
  }

  test('answers as this site', async () => {
    const seen = await examineOwn();
    assert.equal(seen.failure, undefined);
    assert.equal(seen.url, own.url);
    assert.deepEqual(seen.presented?.ids, [own.id]);
  });

  test('is told where nothing answers, or another site does', async () => {
    own.answer = () => 'refused';
    assert.equal((await examineOwn()).failure?.class, 'connect');
    own.answer = () => own.ok('{}');
    own.presents = forgeLeaf(forgeRoot('old.example'), 'spiffe://old.example/hansa/site');
    assert.equal((await examineOwn()).failure?.class, 'identity');
  });

  test('is examined only for callers who may read the Site', async () => {
    await assert.rejects(examineOwn(nobody), (error) => hasCode(error, 'HANSA_FORBIDDEN'));
    assert.equal(own.requests, 0);
  });
});
