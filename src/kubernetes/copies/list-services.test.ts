import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { defaultDnsPrefix } from '../names.ts';
import { findService, listServices } from './list-services.ts';
import {
  copiesIn,
  memberService,
  namespacedAnnotation,
  sourceSlice,
  TestLeague,
} from './test-league.ts';
import { systemNamespace, type TestSite } from './test-sites.ts';

const optionsOf = ({ members }: TestSite, { clock }: TestLeague) => ({
  members,
  namespace: systemNamespace,
  dnsPrefix: defaultDnsPrefix,
  monotonicMs: clock.monotonic(),
});

describe('the list of federated Services', () => {
  test('shows members, endpoints and copies', async () => {
    const league = new TestLeague();
    league.a.put('services', memberService());
    league.a.put('slices', sourceSlice('shop-x', ['10.1.0.1', '10.1.0.2', '203.0.113.1']));
    league.b.put('services', memberService({ externalIPs: ['192.0.2.1'] }));
    const site = await league.leader();
    const [view, ...others] = listServices(optionsOf(site, league)).services;
    assert.deepEqual(others, []);
    assert.deepEqual(view?.ports, [{ name: 'http', port: 80, protocol: 'TCP' }]);
    assert.deepEqual(
      [view?.key, view?.scope, view?.namespace],
      ['*/web', 'global', 'hansa-system'],
    );
    assert.deepEqual(
      view?.members.map(({ clusterID, type, isReady, endpoints, status, reason }) => [
        clusterID,
        type,
        isReady,
        endpoints,
        status,
        reason,
      ]),
      [
        ['a', 'ClusterIP', true, 2, 'True', 'AddressesLeftOut'],
        ['b', 'ClusterIP', false, 1, 'True', 'Federated'],
      ],
    );
    assert.deepEqual(
      view?.copies.map(({ clusterID, endpoints, from, status, reason }) => [
        clusterID,
        endpoints,
        from,
        status,
        reason,
      ]),
      [
        ['a', 3, ['a'], 'True', 'Copied'],
        ['b', 2, ['a'], 'True', 'Copied'],
        ['c', 3, ['a', 'b'], 'True', 'Copied'],
      ],
    );
  });

  test('shows why a copy is missing, wrong or not known', async () => {
    const league = new TestLeague();
    league.a.put('services', {
      ...memberService(),
      metadata: { name: 'shop', namespace: 'shop', annotations: { [namespacedAnnotation]: 'web' } },
    });
    const taken = memberService({}, { metadata: { name: 'web', namespace: 'shop' } });
    league.b.put('services', taken);
    league.c.remove('namespaces', 'shop');
    const site = await league.leader();
    const reasons = () =>
      findService('shop/web', optionsOf(site, league))?.copies.map(({ reason }) => reason);
    assert.deepEqual(reasons(), ['Copied', 'CopyConflict', 'NoNamespace']);
    league.a.edit('services', 'shop/web', (copy) => ({
      ...copy,
      spec: { ...copy.spec, selector: { app: 'x' } },
    }));
    site.change('b', {
      state: {
        state: 'Unreachable',
        sinceMs: 0,
        sinceMonotonicMs: 0,
        reason: 'TimedOut',
        message: 'no answer',
      },
    });
    await league.settle();
    assert.deepEqual(reasons(), ['CopyHasSelector', 'TimedOut', 'NoNamespace']);
  });

  test('shows a copy only in its own cluster for a member without endpoint prefixes', async () => {
    const league = new TestLeague();
    league.a.put('services', memberService());
    league.a.put('slices', sourceSlice('shop-x', ['10.1.0.1']));
    const site = league.site();
    site.change('a', { settings: { ...site.view('a').settings, endpointPrefixes: [] } });
    for (const { id } of league.clusters) site.lead(id, 5);
    await league.settle();
    const view = findService('*/web', optionsOf(site, league));
    assert.deepEqual(
      view?.copies.map(({ reason, endpoints }) => [reason, endpoints]),
      [
        ['Copied', 1],
        ['NoMember', 0],
        ['NoMember', 0],
      ],
    );
    assert.equal(view?.members[0]?.reason, 'NoEndpointPrefixes');
    assert.deepEqual(league.clusters.map(copiesIn), [['hansa-system/web'], [], []]);
  });

  test('has pages that contain each federated Service once, in order', async () => {
    const league = new TestLeague();
    for (const name of ['e', 'a', 'd', 'b', 'c']) {
      const annotations = { [namespacedAnnotation]: name };
      league.a.put('services', {
        ...memberService(),
        metadata: { name: `own-${name}`, namespace: 'shop', annotations },
      });
    }
    const options = optionsOf(await league.leader(), league);
    const pages: string[][] = [];
    let after: string | undefined = '';
    while (after !== undefined) {
      const page = listServices(options, { after, limit: 2 });
      pages.push(page.services.map(({ name }) => name));
      after = page.last;
    }
    assert.deepEqual(pages, [['a', 'b'], ['c', 'd'], ['e']]);
    assert.equal(listServices(options, { limit: 1e9 }).services.length, 5);
    assert.deepEqual(listServices(options, { after: 'zzz' }).services, []);
  });

  test('finds nothing under keys of no federated Service', async () => {
    const league = new TestLeague();
    const site = await league.leader();
    for (const key of ['', '*/web', 'shop/web', '/', 'a/b/c', '*', '__proto__']) {
      assert.equal(findService(key, optionsOf(site, league)), undefined, key);
    }
    assert.deepEqual(listServices(optionsOf(site, league)), { services: [], last: undefined });
  });
});
