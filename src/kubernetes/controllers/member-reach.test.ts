// How other clusters reach a member Service, and what happens while its cluster cannot be reached.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Clock } from '../../core/clock/clock.ts';
import type { MemberState } from '../members/member.ts';
import type { Node, Service } from '../objects.ts';
import {
  addressesIn,
  conditionIn,
  copiesIn,
  globalAnnotation,
  memberService,
  ownSlices,
  sourceSlice,
  TestLeague,
} from '../copies/test-league.ts';
import type { Stored } from '../copies/test-cluster.ts';

const minute = 60_000;

const node = (name: string, address: string, isReady = true): Node => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name },
  status: {
    addresses: [{ type: 'InternalIP', address }],
    conditions: [{ type: 'Ready', status: isReady ? 'True' : 'False' }],
  },
});

/** The ports and addresses in the slices of copies. */
const reachedIn = (cluster: TestLeague['b']): unknown =>
  ownSlices(cluster)
    .map(({ ports, endpoints }) => [
      ports?.map(({ port }) => port),
      endpoints?.flatMap(({ addresses }) => addresses),
    ])
    .toSorted((one, two) => (JSON.stringify(one) < JSON.stringify(two) ? -1 : 1));

describe('other clusters reach a member Service', () => {
  test('by its external IPs, while its own cluster uses its pods', async () => {
    const league = new TestLeague();
    league.a.put('services', memberService({ externalIPs: ['192.0.2.1', '203.0.113.1'] }));
    league.a.put('slices', sourceSlice('shop-x', ['10.1.0.1']));
    await league.leader();
    assert.deepEqual(reachedIn(league.b), [[[80], ['192.0.2.1']]]);
    assert.deepEqual(reachedIn(league.a), [[[8080], ['10.1.0.1']]]);
    assert.equal(conditionIn(league.a)?.reason, 'AddressesLeftOut');
    assert.match(conditionIn(league.a)?.message ?? '', /203\.0\.113\.1/);
  });

  test('by the ready nodes of its cluster and the node port', async () => {
    const league = new TestLeague();
    league.a.put(
      'services',
      memberService({ type: 'NodePort', ports: [{ name: 'http', port: 80, nodePort: 30_080 }] }),
    );
    league.a.put('nodes', node('one', '10.1.9.1'));
    league.a.put('nodes', node('two', '10.1.9.2'));
    await league.leader();
    assert.deepEqual(reachedIn(league.b), [[[30_080], ['10.1.9.1', '10.1.9.2']]]);
    league.a.put('nodes', node('two', '10.1.9.2', false));
    await league.settle();
    assert.deepEqual(reachedIn(league.b), [[[30_080], ['10.1.9.1']]]);
    league.a.put('nodes', node('three', '10.1.9.3'));
    league.a.remove('nodes', 'one');
    await league.settle();
    assert.deepEqual(reachedIn(league.b), [[[30_080], ['10.1.9.3']]]);
    const before = league.b.writes.length;
    league.a.put('nodes', node('three', '10.1.9.3'));
    await league.settle();
    assert.equal(league.b.writes.length, before);
  });

  test('by the nodes in its ranges, and its condition names no other node', async () => {
    const league = new TestLeague();
    const ports = [{ name: 'http', port: 80, nodePort: 30_080 }];
    league.a.put('services', memberService({ type: 'NodePort', ports }));
    league.a.put('nodes', node('one', '10.1.9.1'));
    league.a.put('nodes', node('two', '172.16.0.1'));
    await league.leader();
    assert.deepEqual(reachedIn(league.b), [[[30_080], ['10.1.9.1']]]);
    assert.equal(conditionIn(league.a)?.reason, 'AddressesLeftOut');
    assert.match(conditionIn(league.a)?.message ?? '', /such as those of nodes\./);
  });

  test('by the address of its load balancer, when it has one', async () => {
    const league = new TestLeague();
    const service = memberService({ type: 'LoadBalancer' });
    league.a.put('services', service);
    await league.leader();
    assert.deepEqual(reachedIn(league.b), []);
    assert.equal(conditionIn(league.a)?.reason, 'NoLoadBalancer');
    const { status } = league.a.find('services', 'shop/shop') ?? {};
    const ingress = [{ ip: '192.0.2.7' }];
    league.a.put('services', { ...service, status: { ...status, loadBalancer: { ingress } } });
    await league.settle();
    assert.deepEqual(reachedIn(league.b), [[[80], ['192.0.2.7']]]);
    assert.equal(conditionIn(league.a)?.reason, 'Federated');
  });

  test('by the interfaces of a NativeService, also in its own cluster', async () => {
    const league = new TestLeague();
    league.a.put('nativeServices', {
      apiVersion: 'clusters.hansa.dev/v1alpha1',
      kind: 'NativeService',
      metadata: { name: 'db', namespace: 'shop', annotations: { [globalAnnotation]: 'db' } },
      spec: {
        networkInterfaces: [{ externalIP: '192.0.2.9', internalIP: '10.1.0.9' }],
        ports: [{ port: 5432, protocol: 'TCP' }],
      },
    } as Stored);
    await league.leader();
    for (const cluster of league.clusters) {
      assert.deepEqual(copiesIn(cluster), ['hansa-system/db']);
      assert.deepEqual(reachedIn(cluster), [[[5432], ['192.0.2.9']]]);
    }
    league.a.remove('nativeServices', 'shop/db');
    await league.settle();
    for (const cluster of league.clusters) assert.deepEqual(copiesIn(cluster), []);
  });

  test('not at all where its pods are not routable, and it says so', async () => {
    const league = new TestLeague();
    league.a.put('services', memberService());
    league.a.put('slices', sourceSlice('shop-x', ['10.1.0.1']));
    const site = await league.leader();
    site.change('a', { settings: { ...site.view('a').settings, routable: false } });
    await league.settle();
    assert.deepEqual(addressesIn(league.b), []);
    assert.deepEqual(addressesIn(league.a), ['10.1.0.1']);
    assert.equal(conditionIn(league.a)?.reason, 'NotRoutable');
  });

  test('only in the ranges that Federation gives its cluster, also after a change of them', async () => {
    const league = new TestLeague();
    league.a.put('services', memberService());
    league.a.put('slices', sourceSlice('shop-x', ['10.1.0.1', '10.1.200.1', '169.254.169.254']));
    const site = await league.leader();
    assert.deepEqual(addressesIn(league.b), ['10.1.0.1', '10.1.200.1']);
    const settings = { ...site.view('a').settings, endpointPrefixes: ['10.1.0.0/24'] };
    site.change('a', { settings });
    await league.settle();
    assert.deepEqual(addressesIn(league.b), ['10.1.0.1']);
  });
});

describe('global federated Services', () => {
  test('have members only from the namespaces that Federation lists for a cluster', async () => {
    const league = new TestLeague();
    league.a.put('services', memberService());
    league.a.put('slices', sourceSlice('shop-x', ['10.1.0.1']));
    const site = await league.leader();
    assert.deepEqual(copiesIn(league.b), ['hansa-system/web']);
    const { settings } = site.view('a');
    site.change('a', { settings: { ...settings, globalNamespaces: ['other'] } });
    await league.settle();
    for (const cluster of league.clusters) assert.deepEqual(copiesIn(cluster), []);
    assert.equal(conditionIn(league.a)?.reason, 'NamespaceNotAllowed');
    assert.match(conditionIn(league.a)?.message ?? '', /namespace shop in globalNamespaces of a/);
    site.change('a', { settings: { ...settings, globalNamespaces: ['shop'] } });
    await league.settle();
    assert.deepEqual(addressesIn(league.b), ['10.1.0.1']);
  });

  test('keep no slices of other namespaces of a cluster that has not been read', async () => {
    const league = new TestLeague();
    league.a.put('services', memberService());
    league.a.put('slices', sourceSlice('shop-x', ['10.1.0.1']));
    await league.lose(await league.leader(), 'b');
    for (const [globalNamespaces, kept] of [
      [['shop'], ['10.1.0.1']],
      [['other'], []],
    ] as const) {
      const next = league.site('a');
      next.change('a', { settings: { ...next.view('a').settings, globalNamespaces } });
      next.lead('b', 6);
      await league.settle();
      assert.deepEqual(addressesIn(league.b), kept);
      await league.lose(next, 'b');
    }
  });
});

describe('a load balancer with a name', () => {
  const withName = (hostname: string): Service =>
    memberService(
      { type: 'LoadBalancer' },
      { status: { loadBalancer: { ingress: [{ hostname }] } } },
    );

  test('is reached by the addresses of the name, which are looked up each minute', async () => {
    let answer: readonly string[] = ['192.0.2.2', '192.0.2.1', '203.0.113.9'];
    let asked = 0;
    const league = new TestLeague(1, (name) => {
      assert.equal(name, 'lb.example');
      asked++;
      return Promise.resolve(answer);
    });
    league.a.put('services', withName('lb.example'));
    await league.leader();
    assert.deepEqual(addressesIn(league.b), ['192.0.2.1', '192.0.2.2']);
    const before = league.b.writes.length;
    answer = ['192.0.2.1', '192.0.2.2', '203.0.113.9'];
    await league.clock.advance(5 * minute);
    assert.equal(league.b.writes.length, before, 'another order is no change');
    assert.ok(asked >= 9 && asked <= 21, `asked ${asked} times`);
    answer = ['192.0.2.3'];
    await league.clock.advance(2 * minute);
    assert.deepEqual(addressesIn(league.b), ['192.0.2.3']);
  });

  test('has a condition without the answers of name servers', async () => {
    const league = new TestLeague(1, () => Promise.resolve(['203.0.113.9']));
    league.a.put('services', withName('lb.example'));
    await league.leader();
    const { reason, message = '' } = conditionIn(league.a) ?? {};
    assert.equal(reason, 'AddressesLeftOut');
    assert.match(message, /such as those that the host names of its load balancer resolve to\./);
    assert.ok(!message.includes('203.0.113.9'));
  });

  test('keeps its last addresses for ten minutes while the name cannot be resolved', async () => {
    let isWell = true;
    const league = new TestLeague(1, () =>
      isWell ? Promise.resolve(['192.0.2.1']) : Promise.reject(new Error('ENOTFOUND')),
    );
    league.a.put('services', withName('lb.example'));
    await league.leader();
    assert.equal(conditionIn(league.a)?.reason, 'Federated');
    isWell = false;
    await league.clock.advance(3 * minute);
    assert.deepEqual(addressesIn(league.b), ['192.0.2.1']);
    assert.equal(conditionIn(league.a)?.reason, 'NameNotResolved');
    assert.equal(conditionIn(league.a)?.status, 'True');
    await league.clock.advance(10 * minute);
    assert.deepEqual(addressesIn(league.b), []);
    assert.equal(conditionIn(league.a)?.status, 'False');
    isWell = true;
    await league.clock.advance(3 * minute);
    assert.deepEqual(addressesIn(league.b), ['192.0.2.1']);
    assert.equal(conditionIn(league.a)?.reason, 'Federated');
  });

  test('whose name server never answers delays nothing else', async () => {
    const league = new TestLeague(1, () => new Promise(() => undefined));
    league.a.put('services', withName('lb.example'));
    league.c.put('services', memberService());
    league.c.put('slices', sourceSlice('shop-x', ['10.3.0.1']));
    await league.leader();
    assert.deepEqual(addressesIn(league.b), ['10.3.0.1']);
  });
});

describe('while a cluster cannot be reached', () => {
  async function withTwo() {
    const league = new TestLeague();
    league.a.put('services', memberService());
    league.a.put('slices', sourceSlice('shop-x', ['10.1.0.1']));
    league.b.put('services', memberService());
    league.b.put('slices', sourceSlice('shop-y', ['10.2.0.1']));
    const site = await league.leader();
    const { a, b, c, clock } = league;
    return { league, site, a, b, c, clock };
  }
  const unreachable = (clock: Clock): MemberState => ({
    state: 'Unreachable',
    sinceMs: clock.now(),
    sinceMonotonicMs: clock.monotonic(),
    reason: 'X',
    message: '',
  });

  test('its endpoints stay for the grace period, then go, and come back with it', async () => {
    const { league, site, c, clock } = await withTwo();
    site.change('a', { state: unreachable(clock) });
    await clock.advance(4 * minute);
    assert.deepEqual(addressesIn(c), ['10.1.0.1', '10.2.0.1']);
    await clock.advance(2 * minute);
    assert.deepEqual(addressesIn(c), ['10.2.0.1']);
    site.change('a', { state: { ...unreachable(clock), state: 'Ready' } });
    await league.settle();
    assert.deepEqual(addressesIn(c), ['10.1.0.1', '10.2.0.1']);
  });

  test('a wall clock that is corrected by an hour neither ends nor extends the grace period', async () => {
    for (const hours of [1, -1]) {
      const { site, c, clock } = await withTwo();
      site.change('a', { state: unreachable(clock) });
      await clock.advance(minute);
      clock.jumpWall(hours * 60 * minute);
      // Makes the leader look at the Service again.
      site.change('b', { state: { ...unreachable(clock), state: 'Ready' } });
      await clock.advance(3 * minute);
      assert.deepEqual(addressesIn(c), ['10.1.0.1', '10.2.0.1']);
      await clock.advance(2 * minute);
      assert.deepEqual(addressesIn(c), ['10.2.0.1']);
    }
  });

  test('they drain or go at once by policy', async () => {
    const { league, site, c, clock } = await withTwo();
    const { settings } = site.view('a');
    site.change('a', {
      settings: { ...settings, unreachable: { policy: 'Drain', graceSeconds: 30 } },
      state: unreachable(clock),
    });
    await league.settle();
    assert.deepEqual(addressesIn(c), ['10.1.0.1?', '10.2.0.1']);
    await clock.advance(minute);
    assert.deepEqual(addressesIn(c), ['10.2.0.1']);
  });

  test('those of a refused cluster go at once', async () => {
    const { league, site, c, clock } = await withTwo();
    site.change('a', { state: { ...unreachable(clock), state: 'Refused' }, isRead: false });
    await league.settle();
    assert.deepEqual(addressesIn(c), ['10.2.0.1']);
  });

  test('those of one that left go at once, and the copies with the last member', async () => {
    const { league, site, c } = await withTwo();
    site.leave('a');
    await league.settle();
    assert.deepEqual(addressesIn(c), ['10.2.0.1']);
    site.leave('b');
    await league.settle();
    assert.deepEqual([copiesIn(c), ownSlices(c)], [[], []]);
  });

  test('a site that starts meanwhile leaves its endpoints and ports alone until the grace ends', async () => {
    const { league, site, a, c, clock } = await withTwo();
    a.edit('services', 'shop/shop', (service) => ({
      ...service,
      spec: { ...service.spec, ports: [...(service.spec.ports ?? []), { name: 'x', port: 99 }] },
    }));
    a.put(
      'slices',
      sourceSlice('shop-x', ['10.1.0.1'], {
        ports: [
          { name: 'http', port: 8080, protocol: 'TCP' },
          { name: 'x', port: 99, protocol: 'TCP' },
        ],
      }),
    );
    await league.settle();
    await league.lose(site, 'c');
    const next = league.site('a');
    c.writes.length = 0;
    next.lead('c', 6);
    await clock.advance(minute);
    next.change('a', { state: unreachable(clock) });
    await clock.advance(4 * minute);
    assert.deepEqual(c.writes, []);
    const ports = () => c.find('services', 'hansa-system/web')?.spec.ports?.map(({ port }) => port);
    assert.deepEqual(ports(), [80, 99]);
    assert.deepEqual(addressesIn(c), ['10.1.0.1', '10.2.0.1']);
    league.b.put('slices', sourceSlice('shop-y', ['10.2.0.2']));
    await league.settle();
    assert.deepEqual(addressesIn(c), ['10.1.0.1', '10.2.0.2'], 'others are not delayed');
    await clock.advance(2 * minute);
    assert.deepEqual(addressesIn(c), ['10.2.0.2']);
    assert.deepEqual(ports(), [80]);
    next.view('a').read();
    next.change('a', { state: { ...unreachable(clock), state: 'Ready' } });
    await league.settle();
    assert.deepEqual(addressesIn(c), ['10.1.0.1', '10.2.0.2']);
    assert.deepEqual(ports(), [80, 99]);
  });

  test('of another cluster while no local slice has a port of the local Service', async () => {
    const league = new TestLeague();
    const { a, b } = league;
    a.put('services', memberService());
    a.put('slices', sourceSlice('shop-x', ['10.1.0.1', '10.1.0.2']));
    await league.leader();
    const ports = [{ name: 'other', port: 1234, protocol: 'TCP' as const }];
    b.put('services', memberService({ ports }));
    b.put('slices', sourceSlice('shop-y', ['10.2.0.1']));
    await league.settle();
    assert.deepEqual(addressesIn(b), ['10.1.0.1', '10.1.0.2']);
    b.put('services', memberService());
    await league.settle();
    assert.deepEqual(addressesIn(b), ['10.2.0.1']);
    b.put('services', memberService({ ports }));
    await league.settle();
    assert.deepEqual(addressesIn(b), ['10.1.0.1', '10.1.0.2']);
    b.put('slices', sourceSlice('shop-y', ['10.2.0.1'], { ports }));
    await league.settle();
    assert.deepEqual(addressesIn(b), ['10.2.0.1']);
    assert.deepEqual(b.violations, []);
  });
});
