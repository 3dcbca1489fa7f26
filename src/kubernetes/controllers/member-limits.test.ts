// What member controllers write for clusters that exceed their limits.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  addressesIn,
  conditionIn,
  copiesIn,
  globalAnnotation,
  memberService,
  sourceSlice,
  TestLeague,
} from '../copies/test-league.ts';
import type { TestCluster } from '../copies/test-cluster.ts';
import type { TestSite } from '../copies/test-sites.ts';
import { defaultLimits, type OriginLimits } from '../services/choose-claims.ts';
import type { Service } from '../objects.ts';

const day = (at: number): string => `2026-01-${String(at).padStart(2, '0')}T00:00:00Z`;

const named = (name: string, federated: string, createdAt = day(1)): Service => ({
  ...memberService(),
  metadata: {
    name,
    namespace: 'shop',
    creationTimestamp: createdAt,
    annotations: { [globalAnnotation]: federated },
  },
});

/** A Service with one slice. Its address tells its name. */
function publish(cluster: TestCluster, service: Service, hosts = 1): void {
  cluster.put('services', service);
  const { name } = service.metadata;
  const third = name.charCodeAt(0) - 'a'.charCodeAt(0);
  const addresses = Array.from({ length: hosts }, (_, at) => `10.1.${third}.${at}`);
  const slice = sourceSlice(`${name}-x`, addresses);
  const labels = { ...slice.metadata.labels, 'kubernetes.io/service-name': name };
  cluster.put('slices', { ...slice, metadata: { ...slice.metadata, labels } });
}

function limit(site: TestSite, limits: Partial<OriginLimits>): void {
  const { settings } = site.view('a');
  site.change('a', { settings: { ...settings, limits: { ...defaultLimits, ...limits } } });
}

const reasonsIn = (cluster: TestCluster): unknown =>
  Object.fromEntries(
    ['a', 'b', 'c'].map((name) => [name, conditionIn(cluster, `shop/${name}`)?.reason]),
  );

/** Cluster a has the Services a, b and c, of which c is the oldest. */
async function withThree(limits: Partial<OriginLimits>) {
  const league = new TestLeague();
  publish(league.a, named('a', 'one', day(2)));
  publish(league.a, named('b', 'two', day(2)));
  publish(league.a, named('c', 'three', day(1)));
  const site = league.site();
  limit(site, limits);
  for (const { id } of league.clusters) site.lead(id, 5);
  await league.settle();
  return { league, site, a: league.a, b: league.b };
}

describe('a cluster with too many federated Services', () => {
  test('gives others the oldest, keeps all itself, and says what to do', async () => {
    const { a, b } = await withThree({ services: 2 });
    assert.deepEqual(copiesIn(b), ['hansa-system/one', 'hansa-system/three']);
    assert.deepEqual(copiesIn(a), ['hansa-system/one', 'hansa-system/three', 'hansa-system/two']);
    assert.deepEqual(reasonsIn(a), { a: 'Federated', b: 'TooMany', c: 'Federated' });
    const { status, message = '' } = conditionIn(a, 'shop/b') ?? {};
    assert.equal(status, 'False');
    assert.match(message, /the 2 oldest federated Services of a.*raise limits\.services of a/);
  });

  test('gives others the next one when an older one goes or the limit is raised', async () => {
    const { league, site, a, b } = await withThree({ services: 1 });
    assert.deepEqual(copiesIn(b), ['hansa-system/three']);
    a.remove('services', 'shop/c');
    await league.settle();
    assert.deepEqual(copiesIn(b), ['hansa-system/one']);
    assert.deepEqual(reasonsIn(a), { a: 'Federated', b: 'TooMany', c: undefined });
    limit(site, { services: 2 });
    await league.settle();
    assert.deepEqual(copiesIn(b), ['hansa-system/one', 'hansa-system/two']);
    publish(a, named('c', 'three', day(1)));
    await league.settle();
    assert.deepEqual(copiesIn(b), ['hansa-system/one', 'hansa-system/three']);
    assert.deepEqual(addressesIn(b), ['10.1.0.0', '10.1.2.0']);
  });

  test('gets the same result from another supervisor, which writes nothing', async () => {
    const { league, site, b } = await withThree({ services: 2 });
    await league.lose(site, 'b');
    b.writes.length = 0;
    const next = league.site();
    limit(next, { services: 2 });
    next.lead('b', 6);
    await league.settle();
    assert.deepEqual(b.writes, []);
  });

  test('leaves Services of other clusters under the same name alone', async () => {
    const { league, b } = await withThree({ services: 0 });
    assert.deepEqual(copiesIn(b), []);
    league.c.put('services', named('shop', 'one'));
    league.c.put('slices', sourceSlice('shop-x', ['10.3.0.1']));
    await league.settle();
    assert.deepEqual(addressesIn(b), ['10.3.0.1']);
  });
});

describe('a cluster with too many endpoints', () => {
  test('gives others those of the oldest Services, and keeps the copies of all', async () => {
    const { league, a, b } = await withThree({ endpoints: 25 });
    assert.deepEqual(addressesIn(b), ['10.1.0.0', '10.1.2.0']);
    assert.equal(copiesIn(b).length, 3);
    assert.deepEqual(reasonsIn(a), { a: 'Federated', b: 'TooMany', c: 'Federated' });
    assert.match(conditionIn(a, 'shop/b')?.message ?? '', /at most 25 endpoints of a/);
    publish(a, named('c', 'three', day(1)), 12);
    await league.settle();
    assert.deepEqual(reasonsIn(a), { a: 'Federated', b: 'TooMany', c: 'Federated' });
    publish(a, named('c', 'three', day(1)), 20);
    await league.settle();
    assert.deepEqual(reasonsIn(a), { a: 'TooMany', b: 'TooMany', c: 'Federated' });
    assert.equal(addressesIn(b).length, 20);
    publish(a, named('c', 'three', day(1)), 0);
    await league.settle();
    assert.deepEqual(addressesIn(b), ['10.1.0.0', '10.1.1.0']);
  });

  test('in one Service gives others its oldest slices, and uses all itself', async () => {
    const league = new TestLeague();
    league.a.put('services', memberService());
    const hosts = (second: number) =>
      Array.from({ length: 1000 }, (_, at) => `10.1.${second * 4 + (at >> 8)}.${at & 255}`);
    for (let at = 0; at < 21; at++) {
      league.a.put('slices', sourceSlice(`shop-${String(at).padStart(2, '0')}`, hosts(at)));
    }
    await league.leader();
    await league.settle();
    assert.equal(addressesIn(league.b).length, 20_000);
    assert.equal(addressesIn(league.a).length, 21_000);
    assert.ok(!addressesIn(league.b).includes('10.1.80.0'));
    assert.equal(conditionIn(league.a)?.reason, 'TooMany');
    assert.equal(conditionIn(league.a)?.status, 'True');
    league.a.put('slices', sourceSlice('shop-07', []));
    await league.settle();
    assert.ok(addressesIn(league.b).includes('10.1.80.0'));
    assert.equal(conditionIn(league.a)?.reason, 'Federated');
  });
});

test('a cluster with many Services of one name uses the oldest, and tells the others', async () => {
  const league = new TestLeague();
  for (let at = 10; at < 30; at++) league.a.put('services', named(`s${at}`, 'web', day(at)));
  await league.leader();
  await league.settle();
  const reasons = Array.from({ length: 20 }, (_, at) => conditionIn(league.a, `shop/s${at + 10}`));
  const tooMany = reasons.filter((condition) => condition?.reason === 'TooMany');
  assert.equal(tooMany.length, 4);
  assert.match(tooMany[0]?.message ?? '', /more than 16 Services with this annotation/);
});
