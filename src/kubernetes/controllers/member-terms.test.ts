// What a member controller does when leaders change.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { epochAnnotation } from '../names.ts';
import {
  addressesIn,
  copiesIn,
  memberService,
  ownSlices,
  sourceSlice,
  TestLeague,
} from '../copies/test-league.ts';

async function running() {
  const league = new TestLeague();
  league.a.put('services', memberService());
  league.a.put('slices', sourceSlice('shop-x', ['10.1.0.1']));
  const site = await league.leader(5);
  league.b.writes.length = 0;
  const { a, b, c, clock } = league;
  return { league, site, a, b, c, clock };
}

const epochsIn = (cluster: TestLeague['b']): unknown =>
  [...cluster.all('services'), ...cluster.all('slices')].flatMap(
    ({ metadata }) => metadata.annotations?.[epochAnnotation] ?? [],
  );

describe('a new leader', () => {
  test('does not write what is right, whatever term it is of', async () => {
    const { league, site, b } = await running();
    await league.lose(site, 'b');
    league.site().lead('b', 6);
    await league.settle();
    assert.deepEqual(b.writes, []);
    assert.deepEqual(epochsIn(b), ['5', '5']);
  });

  test('does what the last one left undone, with its own epoch', async () => {
    const { league, site, a, b } = await running();
    await league.lose(site, 'b');
    a.put('slices', sourceSlice('shop-x', ['10.1.0.2']));
    await league.settle();
    assert.deepEqual(addressesIn(b), ['10.1.0.1']);
    league.site().lead('b', 6);
    await league.settle();
    assert.deepEqual(addressesIn(b), ['10.1.0.2']);
    assert.deepEqual(epochsIn(b), ['5', '6']);
  });

  test('removes copies of Services that are gone, and slices without a copy', async () => {
    const { league, site, a, b } = await running();
    await league.lose(site, 'b');
    const [slice] = ownSlices(b);
    assert.ok(slice);
    b.remove('services', 'hansa-system/web');
    b.put('slices', slice);
    a.remove('services', 'shop/shop');
    a.remove('slices', 'shop/shop-x');
    await league.settle();
    league.site().lead('b', 6);
    await league.settle();
    assert.deepEqual([copiesIn(b), ownSlices(b)], [[], []]);
  });

  test('repairs what an old leader creates late', async () => {
    const { league, site, a, b } = await running();
    await league.lose(site, 'b');
    const old = structuredClone(ownSlices(b)[0]);
    assert.ok(old);
    league.site().lead('b', 6);
    a.remove('slices', 'shop/shop-x');
    await league.settle();
    assert.deepEqual(ownSlices(b), []);
    b.put('slices', old);
    await league.settle();
    assert.deepEqual(ownSlices(b), []);
  });
});

describe('a new leader of copies of a load balancer with a name', () => {
  type LookUp = (name: string) => Promise<readonly string[]>;
  async function withName() {
    const dns: { lookUp: LookUp } = { lookUp: () => Promise.resolve(['192.0.2.1']) };
    const league = new TestLeague(1, (name) => dns.lookUp(name));
    const ingress = [{ hostname: 'lb.example' }];
    const status = { loadBalancer: { ingress } };
    league.a.put('services', memberService({ type: 'LoadBalancer' }, { status }));
    const site = await league.leader(5);
    assert.deepEqual(addressesIn(league.b), ['192.0.2.1']);
    await league.lose(site, 'b');
    league.b.writes.length = 0;
    const lead = () => league.site().lead('b', 6);
    return { league, dns, lead, b: league.b, clock: league.clock };
  }

  test('keeps their slices until the name has an answer', async () => {
    const { league, dns, lead, b, clock } = await withName();
    let answer: (addresses: readonly string[]) => void = () => undefined;
    dns.lookUp = () =>
      new Promise((resolve) => {
        answer = resolve;
      });
    lead();
    await clock.advance(30_000);
    assert.deepEqual(b.writes, []);
    answer(['192.0.2.2']);
    await league.settle();
    assert.deepEqual(addressesIn(b), ['192.0.2.2']);
  });

  test('writes nothing where the answer is still the same', async () => {
    const { league, lead, b } = await withName();
    lead();
    await league.settle();
    assert.deepEqual(b.writes, []);
  });

  test('keeps their slices for ten minutes where lookups fail', async () => {
    const { dns, lead, b, clock } = await withName();
    dns.lookUp = () => Promise.reject(new Error('ENOTFOUND'));
    lead();
    await clock.advance(9 * 60_000);
    assert.deepEqual(b.writes, []);
    await clock.advance(3 * 60_000);
    assert.deepEqual(ownSlices(b), []);
  });

  test('removes addresses that its ranges no longer have, also before an answer', async () => {
    const { league, dns, b } = await withName();
    dns.lookUp = () => new Promise(() => undefined);
    const site = league.site();
    site.change('a', {
      settings: { ...site.view('a').settings, endpointPrefixes: ['10.1.0.0/16'] },
    });
    site.lead('b', 6);
    await league.settle();
    assert.deepEqual(addressesIn(b), []);
  });
});

describe('an old leader that does not know it yet', () => {
  test('asks its clock, and sends nothing about what no new leader has written', async () => {
    const { league, site, a, b } = await running();
    site.isLate = true;
    a.put('slices', sourceSlice('shop-x', ['10.1.0.2']));
    b.put('services', memberService());
    await league.settle();
    a.remove('services', 'shop/shop');
    await league.settle();
    assert.deepEqual(b.writes, []);
    assert.deepEqual(addressesIn(b), ['10.1.0.1']);
  });

  test('changes nothing that the new one wrote', async () => {
    const { league, site, a, b } = await running();
    site.view('a').cut();
    const next = league.site();
    next.lead('b', 6);
    a.put('slices', sourceSlice('shop-x', ['10.1.0.2']));
    await league.settle();
    // The old leader sees the slice of the new one, and believes that it must be as before.
    assert.deepEqual(addressesIn(b), ['10.1.0.2']);
    assert.deepEqual(epochsIn(b), ['5', '6']);
    assert.equal(b.writes.length, 1);
    await league.lose(site, 'b');
    for (const { violations } of league.clusters) assert.deepEqual(violations, []);
  });
});
