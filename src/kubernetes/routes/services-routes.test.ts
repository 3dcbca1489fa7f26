import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { anonymous } from '../../core/access/identity.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { memberService, TestLeague } from '../copies/test-league.ts';
import { systemNamespace, type TestSite } from '../copies/test-sites.ts';
import { servicesRoutes } from './services-routes.ts';

const routesOf = (league: TestLeague, site: TestSite | undefined) =>
  servicesRoutes({
    members: () => site?.members,
    namespace: systemNamespace,
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

  test('is nothing at a site that supervises no cluster set', async () => {
    const [list, one] = routesOf(new TestLeague(), undefined);
    assert.ok(list && one);
    const { body } = await callRoute(list, { caller: anonymous });
    assert.deepEqual(JSON.parse(String(body)), { services: [] });
    await assert.rejects(
      async () => callRoute(one, { caller: anonymous, params: { key: '*/web' } }),
      { code: 'HANSA_NOT_FOUND', message: /"\*\/web"/ },
    );
  });
});
