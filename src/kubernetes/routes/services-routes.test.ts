import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { anonymous } from '../../core/access/identity.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { globalAnnotation, memberService, TestLeague } from '../copies/test-league.ts';
import { systemNamespace, type TestSite } from '../copies/test-sites.ts';
import { servicesRoutes } from './services-routes.ts';

const routesOf = (league: TestLeague, site: TestSite | undefined) =>
  servicesRoutes({
    members: () => site?.members,
    namespace: systemNamespace,
    dnsPrefix: 'dns.example',
    hasExports: true,
    clock: league.clock,
  });

suite('what a site tells commands about federated Services', () => {
  test('is a list, and each by its key', async () => {
    const league = new TestLeague();
    league.a.put('services', memberService());
    const [list, one] = routesOf(league, await league.leader());
    assert.ok(list && one);
    const { body } = await callRoute(list, { caller: anonymous });
    const { services } = JSON.parse(String(body)) as { services: { key: string }[] };
    assert.deepEqual(
      services.map(({ key }) => key),
      ['*/web'],
    );
    const found = await callRoute(one, { caller: anonymous, params: { key: '*/web' } });
    assert.deepEqual(JSON.parse(String(found.body)), services[0]);
  });

  test('comes in pages', async () => {
    const league = new TestLeague();
    for (const name of ['web', 'pay', 'ship']) {
      league.a.put('services', {
        ...memberService(),
        metadata: { name, namespace: 'shop', annotations: { [globalAnnotation]: name } },
      });
    }
    const [list] = routesOf(league, await league.leader());
    const ask = async (query: Record<string, string>) => {
      const call = { caller: anonymous, query: new URLSearchParams(query) };
      const { body } = await callRoute(list, call);
      return JSON.parse(String(body)) as {
        services: { key: string }[];
        metadata: { continue?: string };
      };
    };
    const first = await ask({ limit: '2' });
    assert.equal(first.services.length, 2);
    const second = await ask({ limit: '2', continue: first.metadata.continue ?? '' });
    assert.deepEqual(second.metadata, {});
    assert.deepEqual(
      [...first.services, ...second.services].map(({ key }) => key),
      ['*/pay', '*/ship', '*/web'],
    );
    assert.equal((await ask({ limit: '0' })).services.length, 3);
    for (const bad of [{ limit: '-1' }, { limit: 'x' }, { limit: '1e3' }, { continue: '%%%' }]) {
      await assert.rejects(ask(bad), { code: 'HANSA_BAD_REQUEST' });
    }
  });

  test('is nothing at a site that supervises no cluster set', async () => {
    const [list, one] = routesOf(new TestLeague(), undefined);
    assert.ok(list && one);
    const { body } = await callRoute(list, { caller: anonymous });
    assert.deepEqual(JSON.parse(String(body)), { services: [], metadata: {} });
    await assert.rejects(
      async () => callRoute(one, { caller: anonymous, params: { key: '*/web' } }),
      { code: 'HANSA_NOT_FOUND', message: /"\*\/web"/ },
    );
  });
});
