import assert from 'node:assert/strict';
import { suite, type TestContext, test } from 'node:test';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { anonymous, type Caller, socketOwner } from '../../core/access/identity.ts';
import { systemClock } from '../../core/clock/system.ts';
import { hasCode } from '../../core/errors/error.ts';
import { FederatedBundles } from '../federation/federated-bundles.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { openStore } from '../../core/store/open.ts';
import { decideAccess } from './ext-authz.ts';
import { type GrantCheck, grantCheckRoute } from './grant-check.ts';
import { StoreFederationState } from './federation-state.ts';
import { openAuthority, put, putFederation, remove } from '../workload/test-workload-site.ts';

const web = 'spiffe://bruges.example/web';
const db = 'spiffe://lubeck.example/db';
const nobody = { ...anonymous, user: 'eve' };

async function scene(t: TestContext) {
  const clock = systemClock;
  const store = await openStore({ driver: 'memory' }, { clock });
  t.after(() => store.close());
  const lubeck = await openAuthority('lubeck.example', clock);
  await putFederation(store, await openAuthority('bruges.example', clock));
  await put(store, 'serviceoffers', 'db', { spec: { spiffeID: db } });
  const peer = (state: string) =>
    put(store, 'federationpeers', 'bruges.example', {
      spec: { url: 'https://bruges.example:8443', desiredState: 'active' },
      status: { state },
    });
  const grant = (spec: object = {}) =>
    put(store, 'federationgrants', 'bruges-db', {
      spec: {
        peer: 'bruges.example',
        scopes: ['read'],
        offers: ['db'],
        nodeInstances: { ids: [web] },
        networks: { unrestricted: true },
        sourceCIDRs: { cidrs: ['192.0.2.0/24'] },
        ...spec,
      },
    });
  await peer('active');
  const bundles = new FederatedBundles(store, lubeck, clock);
  const federationState = new StoreFederationState(store, bundles);
  const route = grantCheckRoute({ store, federationState, bundles, clock });
  const ask = async (query: string, caller: Caller | undefined = socketOwner) => {
    const call = { query: new URLSearchParams(query), caller };
    const answer = await callRoute(route, call, { store });
    return JSON.parse(String(answer.body)) as GrantCheck;
  };
  return { store, clock, federationState, bundles, peer, grant, ask };
}

const asked = `from=${web}&offer=db`;

suite('a check of grants', () => {
  test('says which grant covers a call', async (t) => {
    const { grant, ask } = await scene(t);
    await grant();
    assert.deepEqual(await ask(`${asked}&method=GET&source=192.0.2.7`), {
      allowed: true,
      from: web,
      offer: 'db',
      method: 'GET',
      source: '192.0.2.7',
      scope: 'read',
      grant: 'bruges-db',
      reason: 'grant bruges-db covers it',
    });
    assert.equal((await ask(asked)).scope, 'any');
    assert.equal((await ask(asked)).allowed, true);
  });

  test('says why a call is denied, and what to do about it', async (t) => {
    const { store, grant, peer, ask } = await scene(t);
    const denied = async (query: string, reason: RegExp, remedy: RegExp): Promise<void> => {
      const answer = await ask(query);
      assert.equal(answer.allowed, false, query);
      assert.match(answer.reason, reason);
      assert.match(answer.remedy ?? '', remedy);
    };
    await denied(asked, /^no grant/, /grant create NAME --peer bruges\.example .* --scope read$/);
    await denied(`${asked}&method=PUT`, /^no grant/, /--scope write$/);
    await grant();
    await denied(
      `${asked}&method=POST`,
      /POST needs the scope write/,
      /create bruges-db .*--scope write/,
    );
    await denied(`${asked}&method=get`, /its method needs the scope write/, /--scope write/);
    await denied(`${asked}&source=198.51.100.7`, /calls from 198\.51\.100\.7/, /--from/);
    await denied(`from=${web}2&offer=db`, /does not name this identity/, /--identity .*web2/);
    await denied(`from=${web}&offer=metrics`, /no offer metrics/, /hansa get serviceoffers/);
    await denied('from=spiffe://reval.example/web&offer=db', /no bundle/, /hansa trust status/);
    await grant({ expiresAt: '2020-01-01T00:00:00Z' });
    await denied(asked, /expired/, /--ttl/);
    await grant({ networks: { ids: ['backbone'] } });
    await denied(asked, /limited to networks/, /--any-network/);
    await peer('suspended');
    await denied(asked, /is suspended/, /hansa peer show bruges\.example/);
    await remove(store, 'federationpeers', 'bruges.example');
    await denied(asked, /is not a peer/, /hansa peer list/);
    await put(store, 'serviceoffers', 'db', { spec: { spiffeID: `${db}/..` } });
    await denied(asked, /may ask about db/, /spec\.spiffeID/);
  });

  test('says what a grant says about clusters and services, with the axis that failed', async (t) => {
    const { grant, ask } = await scene(t);
    const site = 'spiffe://bruges.example/hansa/site';
    const about = (more: string): Promise<GrantCheck> => ask(`from=${site}&cluster=app1${more}`);
    assert.equal((await about('')).miss, 'none');
    assert.match(
      (await about('')).remedy ?? '',
      /--cluster app1 --identity .*site .*--scope read$/,
    );
    await grant({ offers: [], clusters: ['app1'] });
    assert.equal((await about('')).miss, 'identity');
    await grant({ offers: [], clusters: ['app1'], nodeInstances: { ids: [site] } });
    assert.deepEqual(await about('&source=192.0.2.7'), {
      allowed: true,
      from: site,
      cluster: 'app1',
      source: '192.0.2.7',
      scope: 'read',
      grant: 'bruges-db',
      reason: 'grant bruges-db covers it',
    });
    assert.equal((await about('&source=198.51.100.7')).miss, 'source');
    assert.equal((await about('&scope=write')).miss, 'scope');
    // An offer and a service of the same name are something else.
    assert.equal((await ask(`from=${site}&service=app1`)).allowed, false);
    assert.equal((await ask(`from=${site}&offer=app1`)).allowed, false);
    await grant({ offers: [], clusters: ['app1'], nodeInstances: { ids: [site] }, networks: {} });
    assert.equal((await about('')).miss, 'network');
    assert.equal((await ask('from=spiffe://reval.example/hansa/site&cluster=app1')).allowed, false);
  });

  test('answers what ext_authz answers', async (t) => {
    const { grant, ask, federationState, bundles, clock } = await scene(t);
    for (const scopes of [['read'], ['write'], ['admin'], ['read', 'write'], ['odd']]) {
      await grant({ scopes });
      for (const method of [undefined, 'GET', 'OPTIONS', 'POST', 'CONNECT', 'get']) {
        for (const source of ['192.0.2.7', '198.51.100.7', '::ffff:192.0.2.7']) {
          const more = method === undefined ? '' : `&method=${method}`;
          const answer = await ask(`${asked}&source=${source}${more}`);
          const decision = decideAccess(
            { principal: web, certificate: '', sourceAddress: source, method, offer: 'db' },
            {
              askers: [
                { id: SpiffeId.parse(db), federatesWith: [], federatesWithSelector: undefined },
              ],
              federationState: federationState.current,
              bundles,
              nowMs: clock.now(),
            },
          );
          assert.equal(answer.allowed, decision.allowed, `${scopes.join()} ${method} ${source}`);
        }
      }
    }
  });

  for (const [what, query, code, why] of [
    [
      'without an offer',
      `from=${web}`,
      'HANSA_BAD_REQUEST',
      /needs exactly one of offer, cluster, service/,
    ],
    ['about two targets', `${asked}&cluster=a`, 'HANSA_BAD_REQUEST', /exactly one of/],
    ['of no scope', `${asked}&scope=all`, 'HANSA_BAD_REQUEST', /scope is not one of read,/],
    [
      'of a scope and a method',
      `${asked}&scope=read&method=GET`,
      'HANSA_BAD_REQUEST',
      /method and scope exclude/,
    ],
    ['of nobody', 'offer=db', 'HANSA_BAD_REQUEST', /is not a SPIFFE ID/],
    ['of no SPIFFE ID', 'offer=db&from=web', 'HANSA_BAD_REQUEST', /is not a SPIFFE ID/],
    ['in upper case', 'offer=db&from=SPIFFE://a.example/b', 'HANSA_BAD_REQUEST', /SPIFFE ID/],
    ['from no address', `${asked}&source=any`, 'HANSA_BAD_REQUEST', /not an IP address/],
    ['from a range', `${asked}&source=192.0.2.0/24`, 'HANSA_BAD_REQUEST', /not an IP address/],
    ['with an empty method', `${asked}&method=`, 'HANSA_BAD_REQUEST', /not an HTTP method/],
    ['with two words', `${asked}&method=GET%20/`, 'HANSA_BAD_REQUEST', /not an HTTP method/],
    ['with two methods', `${asked}&method=GET&method=PUT`, 'HANSA_BAD_REQUEST', /more than once/],
    [
      'with more than it takes',
      `${asked}&scopes=read`,
      'HANSA_BAD_REQUEST',
      /no parameter "scopes"/,
    ],
  ] as const) {
    test(`${what} is refused`, async (t) => {
      const { ask } = await scene(t);
      await assert.rejects(
        () => ask(query),
        (caught) => hasCode(caught, code) && why.test((caught as Error).message),
      );
    });
  }

  test('is for those who may read grants, peers and offers', async (t) => {
    const { ask, store } = await scene(t);
    await assert.rejects(
      () => ask(asked, nobody),
      (caught) => hasCode(caught, 'HANSA_FORBIDDEN'),
    );
    const user = { ...nobody, user: 'ann', groups: ['system:authenticated'] };
    await put(store, 'roles', 'grants', {
      spec: { rules: [{ kinds: ['FederationGrant'], verbs: ['list'] }] },
    });
    await put(store, 'rolebindings', 'grants', {
      spec: { role: 'grants', subjects: [{ kind: 'User', name: 'ann' }] },
    });
    await assert.rejects(
      () => ask(asked, user),
      (caught) => hasCode(caught, 'HANSA_FORBIDDEN') && /federationpeers/.test(String(caught)),
    );
    await put(store, 'rolebindings', 'viewers', {
      spec: { role: 'viewer', subjects: [{ kind: 'User', name: 'ann' }] },
    });
    assert.equal((await ask(asked, user)).allowed, false);
  });
});
