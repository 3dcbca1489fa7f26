import assert from 'node:assert/strict';
import { suite, type TestContext, test } from 'node:test';
import { socketOwner } from '../../core/access/identity.ts';
import { systemClock } from '../../core/clock/system.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { openStore } from '../../core/store/open.ts';
import { FederatedBundles } from '../federation/federated-bundles.ts';
import { usableEntry } from '../workload/entries/matching-entries.ts';
import { openAuthority, put, putEntry, putFederation } from '../workload/test-workload-site.ts';
import { decideAccess } from './ext-authz.ts';
import { StoreFederationState } from './federation-state.ts';
import { type GrantCheck, grantCheckRoute } from './grant-check.ts';

const db = 'spiffe://lubeck.example/db';
const web = 'spiffe://lubeck.example/web';
const spire = 'spiffe://spire.example/ns/shop';

/** A site with the peer bruges.example, and a SPIRE server that is federated without a peer. */
async function scene(t: TestContext) {
  const clock = systemClock;
  const store = await openStore({ driver: 'memory' }, { clock });
  t.after(() => store.close());
  const lubeck = await openAuthority('lubeck.example', clock);
  for (const name of ['bruges.example', 'spire.example']) {
    await putFederation(store, await openAuthority(name, clock));
  }
  await put(store, 'federationpeers', 'bruges.example', {
    spec: { url: 'https://bruges.example:8443', desiredState: 'active' },
    status: { state: 'active' },
  });
  const bundles = new FederatedBundles(store, lubeck, clock);
  const federationState = new StoreFederationState(store, bundles);
  const route = grantCheckRoute({ store, federationState, bundles, clock });
  return {
    offer: (callers?: object) =>
      put(store, 'serviceoffers', 'db', { spec: { spiffeID: db, ...(callers && { callers }) } }),
    entry: (spec: object) => putEntry(store, 'db', { spiffeID: db, ...spec }),
    /** The decision of ext_authz, with which that of `hansa grant check` has to agree. */
    decide: async (principal: string) => {
      const askers = store.list('workloadentries').entries.flatMap(({ value }) => {
        const found = usableEntry(JSON.parse(value.toString()), lubeck.trustDomain, []);
        return 'entry' in found ? [found.entry] : [];
      });
      const decision = decideAccess(
        { principal, certificate: '', sourceAddress: undefined, method: 'GET', offer: 'db' },
        { askers, federationState: federationState.current, bundles, nowMs: clock.now() },
      );
      const query = new URLSearchParams({ from: principal, offer: 'db', method: 'GET' });
      const answer = await callRoute(route, { query, caller: socketOwner }, { store });
      const check = JSON.parse(String(answer.body)) as GrantCheck;
      assert.deepEqual([check.allowed, check.reason], [decision.allowed, decision.reason]);
      assert.equal(check.remedy === undefined, decision.allowed);
      return `${decision.allowed ? 'allowed' : decision.kind}: ${decision.reason}`;
    },
  };
}

suite('an offer', () => {
  test('that names no callers denies workloads of the site, and says so', async (t) => {
    const { offer, entry, decide } = await scene(t);
    await entry({ federatesWith: ['*'] });
    for (const callers of [undefined, {}, { ids: [], trustDomains: [] }]) {
      await offer(callers);
      assert.equal(
        await decide(web),
        `callers: lubeck.example is this site, so no grant is needed, but spec.callers of the ServiceOffer db does not name ${web}`,
      );
      assert.equal(
        await decide(spire),
        `callers: spire.example is not a peer of this site, so no grant is needed, but spec.callers of the ServiceOffer db does not name ${spire}`,
      );
    }
  });

  test('admits workloads of the site that it names', async (t) => {
    const { offer, entry, decide } = await scene(t);
    await entry({});
    await offer({ ids: [web] });
    assert.equal(await decide(web), 'allowed: spec.callers of the ServiceOffer db names it');
    assert.match(await decide(`${web}/more`), /^callers: /);
    assert.match(await decide('spiffe://lubeck.example/we'), /^callers: /);
    await offer({ trustDomains: ['lubeck.example'] });
    const named = 'allowed: spec.callers of the ServiceOffer db names lubeck.example';
    assert.equal(await decide(web), named);
    // They are no workloads.
    for (const path of ['site', 'agent/crane-1', 'bot/ci', 'user/alice']) {
      assert.match(await decide(`spiffe://lubeck.example/hansa/${path}`), /^callers: /);
    }
    const bot = 'spiffe://lubeck.example/hansa/bot/ci';
    await offer({ ids: [bot] });
    assert.match(await decide(bot), /^allowed: /);
  });

  test('admits workloads of a federation without a peer if its own entry federates with it', async (t) => {
    const { offer, entry, decide } = await scene(t);
    await offer({ ids: [spire] });
    await entry({ federatesWith: ['bruges.example'] });
    assert.equal(
      await decide(spire),
      `entry: spire.example is not a peer of this site, and no WorkloadEntry of ${db}, which serves db, federates with it`,
    );
    for (const federatesWith of [['spire.example'], ['*']]) {
      await entry({ federatesWith });
      assert.equal(await decide(spire), 'allowed: spec.callers of the ServiceOffer db names it');
    }
    assert.match(await decide('spiffe://spire.example/ns/other'), /^callers: /);
    await offer({ trustDomains: ['spire.example'] });
    assert.match(await decide('spiffe://spire.example/ns/other'), /^allowed: /);
    // Another trust domain, which nobody federates with.
    assert.match(await decide('spiffe://riga.example/web'), /^caller: the site trusts no bundle/);
  });

  test('admits no workload of a peer without a grant, whatever it names', async (t) => {
    const { offer, entry, decide } = await scene(t);
    await entry({ federatesWith: ['*'] });
    const caller = 'spiffe://bruges.example/web';
    await offer({ ids: [caller], trustDomains: ['bruges.example'] });
    assert.match(await decide(caller), /^grant: no grant for spiffe:\/\/bruges/);
  });
});
