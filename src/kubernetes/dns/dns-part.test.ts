import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { clustersGroup } from '../../api/kinds/federation.ts';
import { version } from '../../api/object.ts';
import { findService } from '../copies/list-services.ts';
import { Paced } from '../copies/origin-pacer.ts';
import { systemNamespace } from '../league/test-memory-league.ts';
import { hostnameAnnotation } from '../names.ts';
import {
  annotationsOf,
  conditionIn,
  DnsLeague,
  type DnsLeagueOptions,
  noNames,
  putPods,
  putService,
  templated,
  toldIn,
} from './test-names.ts';

async function setUp(options: DnsLeagueOptions = {}): Promise<DnsLeague> {
  const league = new DnsLeague(options);
  await league.join();
  return league;
}

const external = (...externalIPs: readonly string[]) => ({ spec: { externalIPs } });
const prefix = templated.prefix;

describe('names of federated Services', () => {
  test('are on the copy of one cluster, the first one that is marked, with all reachable addresses', async () => {
    const league = await setUp();
    await putService(league.south, external('10.2.0.7'));
    await putService(league.west, external('10.3.0.7'));
    await league.lead();
    assert.deepEqual(league.names(), ['north shop.fed.example → 10.2.0.7,10.3.0.7']);
    for (const cluster of [league.south, league.west]) {
      assert.equal(toldIn(cluster), 'True Published');
      assert.match(conditionIn(cluster)?.message ?? '', /copy in north carries shop\.fed\.example/);
    }
    assert.deepEqual(league.refusals, []);
  });

  test('need a member that is marked', async () => {
    const league = await setUp({ marked: [] });
    await putService(league.south, external('10.2.0.7'));
    await league.lead();
    assert.deepEqual(league.names(), []);
    assert.equal(toldIn(league.south), 'False NoDnsMember');
    assert.match(conditionIn(league.south)?.message ?? '', /Set dns: true in Federation/);
  });

  test('are off without a template, and cost no write', async () => {
    const league = await setUp({ settings: noNames });
    await putService(league.south, external('10.2.0.7'));
    await league.lead();
    assert.deepEqual(league.names(), []);
    assert.equal(toldIn(league.south), 'nothing');
    const before = league.clusters.map(({ writes }) => writes.length);
    await putPods(league.south, 'shop', { pods: [], notReady: ['172.16.0.1'] });
    await league.settle();
    // The condition and the slices of copies may follow; no copy does.
    const later = league.clusters.flatMap(({ writes }, at) => writes.slice(before[at]));
    assert.deepEqual(
      later.filter((write) => write.includes(' services ')),
      [],
    );
  });

  test('move when the cluster that carries them cannot be reached, and back later', async () => {
    const league = await setUp();
    await putService(league.west, external('10.3.0.7'));
    await league.lead();
    assert.deepEqual(league.names(), ['north shop.fed.example → 10.3.0.7']);
    // North is home, so Federation is read from its cache meanwhile.
    league.north.kube.isDown = true;
    league.north.kube.endWatches('reset');
    await league.settle(60_000);
    assert.deepEqual(league.names(), [
      'north shop.fed.example → 10.3.0.7',
      'south shop.fed.example → 10.3.0.7',
    ]);
    league.north.kube.isDown = false;
    await league.settle(60_000);
    assert.deepEqual(league.names(), ['north shop.fed.example → 10.3.0.7']);
    assert.deepEqual(league.refusals, []);
  });

  test('move when Federation marks another cluster, and the old annotations go', async () => {
    const league = await setUp({ marked: ['north'] });
    await putService(league.west, external('10.3.0.7'));
    await league.lead();
    const members = league.clusters.map(({ id }, index) => ({
      clusterID: id,
      server: `https://${id}.example`,
      endpointPrefixes: [`10.${index + 1}.0.0/16`],
      ...(id === 'west' && { dns: true }),
    }));
    await league.north.patch('federations', 'federation', { spec: { members } });
    await league.settle();
    assert.deepEqual(league.names(), ['west shop.fed.example → 10.3.0.7']);
    assert.equal(annotationsOf(league.north)[`${prefix}/target`], undefined);
  });

  test('of a namespaced Service are on the copy of a cluster that has the namespace', async () => {
    const league = await setUp({
      settings: { ...templated },
    });
    for (const cluster of [league.south, league.west]) await cluster.namespace('bank');
    await league.west.apply('services', {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: {
        name: 'pay-1',
        namespace: 'bank',
        annotations: { 'svc.federated.hansa.dev': 'pay' },
      },
      spec: { ports: [{ port: 80 }], externalIPs: ['10.3.0.9'] },
    });
    await league.west.apply('endpointslices', {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: {
        name: 'pay-x',
        namespace: 'bank',
        labels: { 'kubernetes.io/service-name': 'pay-1' },
      },
      addressType: 'IPv4',
      endpoints: [{ addresses: ['172.16.0.9'] }],
      ports: [{ name: '', port: 8080, protocol: 'TCP' }],
    });
    await league.lead();
    assert.deepEqual(league.names('pay', 'bank'), ['south pay.fed.example → 10.3.0.9']);
  });
});

test('commands see names, and why a Service has none', async () => {
  const league = await setUp({ settings: noNames });
  const annotations = { [hostnameAnnotation]: '*.example,ok.example' };
  await putService(league.south, { ...external('10.2.0.7'), annotations });
  await putService(league.south, { name: 'plain' });
  await league.lead();
  const shown = (key: string) =>
    findService(key, {
      members: league.members,
      namespace: systemNamespace,
      monotonicMs: league.clock.monotonic(),
      dnsPrefix: prefix,
    })?.names;
  const { carried, problem } = shown('*/shop') ?? {};
  assert.deepEqual(carried, [
    { clusterID: 'north', hostnames: ['ok.example'], targets: ['10.2.0.7'] },
  ]);
  assert.equal(problem?.clusterID, 'south');
  assert.match(problem.message, /wildcard/);
  assert.deepEqual(shown('*/plain'), { carried: [], problem: undefined });
});

describe('the addresses of a name', () => {
  test('are those of ready members only, and the name goes with the last one', async () => {
    const league = await setUp();
    await putService(league.south, external('10.2.0.7'));
    await putService(league.west, external('10.3.0.7'));
    await league.lead();
    await putPods(league.south, 'shop', { pods: [], notReady: ['172.16.0.1'] });
    await league.settle();
    assert.deepEqual(league.names(), ['north shop.fed.example → 10.3.0.7']);
    await putPods(league.west, 'shop', { pods: [] });
    await league.settle();
    assert.deepEqual(league.names(), []);
    assert.equal(toldIn(league.west), 'False NoReachableAddress');
    await putPods(league.south, 'shop', { pods: ['172.16.0.1'] });
    await league.settle();
    assert.deepEqual(league.names(), ['north shop.fed.example → 10.2.0.7']);
    assert.equal(toldIn(league.west), 'True Published');
  });

  test('stay with the last one where the setting says so', async () => {
    const league = await setUp({ settings: { ...templated, whenUnhealthy: 'keep' } });
    await putService(league.south, external('10.2.0.7'));
    await league.lead();
    await putPods(league.south, 'shop', { pods: [] });
    await league.settle();
    assert.deepEqual(league.names(), ['north shop.fed.example → 10.2.0.7']);
    assert.match(conditionIn(league.south)?.message ?? '', /keeps its last addresses/);
  });

  test('are pods only where the cluster is routable, and never outside its ranges', async () => {
    const league = await setUp({ member: (id) => ({ routable: id === 'west' }) });
    await putService(league.south, { pods: ['10.2.0.5'] });
    await putService(league.west, {
      pods: ['10.3.0.5', '10.3.0.6', '10.2.0.66'],
      notReady: ['10.3.0.9'],
    });
    await league.lead();
    assert.deepEqual(league.names(), ['north shop.fed.example → 10.3.0.5,10.3.0.6']);
  });

  test('are those of nodes, load balancers and NativeServices', async () => {
    const names = new Map([['lb.example', ['10.3.0.40']]]);
    const league = await setUp({ lookUp: async (name) => names.get(name) ?? [] });
    await putService(league.north, { spec: { type: 'NodePort' } });
    await league.north.apply('nodes', {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'north-0' },
      status: { addresses: [{ type: 'InternalIP', address: '10.1.0.10' }] },
    });
    await putService(league.west, { spec: { type: 'LoadBalancer' } });
    const ingress = [{ hostname: 'lb.example' }];
    await league.west.patch(
      'services',
      'shop/shop',
      { status: { loadBalancer: { ingress } } },
      '/status',
    );
    await league.south.apply('nativeservices', {
      apiVersion: `${clustersGroup}/${version}`,
      kind: 'NativeService',
      metadata: {
        name: 'shop',
        namespace: 'shop',
        annotations: { 'svc.global.federated.hansa.dev': 'shop' },
      },
      spec: {
        networkInterfaces: [{ externalIP: '10.2.0.80' }],
        ports: [{ name: 'http', port: 80, protocol: 'TCP' }],
      },
    });
    await league.lead();
    assert.deepEqual(league.names(), ['north shop.fed.example → 10.1.0.10,10.2.0.80,10.3.0.40']);
    await league.north.patch(
      'nodes',
      'north-0',
      { status: { addresses: [{ type: 'InternalIP', address: '10.1.0.11' }] } },
      '/status',
    );
    await league.settle();
    assert.deepEqual(league.names(), ['north shop.fed.example → 10.1.0.11,10.2.0.80,10.3.0.40']);
  });

  test('are at most sixteen, from each member', async () => {
    const league = await setUp({ member: () => ({ routable: true }) });
    const many = Array.from({ length: 100 }, (_, at) => `10.2.1.${at}`);
    await putService(league.south, { pods: many });
    await putService(league.west, external('10.3.0.7'));
    await league.lead();
    const targets = annotationsOf(league.north)[`${prefix}/target`]?.split(',') ?? [];
    assert.equal(targets.length, 16);
    assert.ok(targets.includes('10.3.0.7'));
  });

  test('are not those of Services beyond the limits of their cluster, which have no name either', async () => {
    const limits = { services: 1, endpoints: 100 };
    const league = await setUp({ member: (id) => (id === 'south' ? { limits } : {}) });
    await putService(league.south, external('10.2.0.7'));
    await league.settle(5000);
    await putService(league.south, { name: 'more', ...external('10.2.0.8') });
    await league.lead();
    assert.deepEqual(league.names(), ['north shop.fed.example → 10.2.0.7']);
    assert.deepEqual(league.names('more'), []);
    await league.south.remove('services', 'shop/shop');
    await league.settle();
    assert.deepEqual(league.names('more'), ['north more.fed.example → 10.2.0.8']);
  });

  test('of a flapping endpoint do not become a flood of writes', async () => {
    const league = await setUp();
    await putService(league.south, external('10.2.0.7'));
    await league.lead();
    const before = league.north.writes.length;
    for (let round = 0; round < 100; round++) {
      await putPods(league.south, 'shop', round % 2 === 0 ? { pods: [] } : {});
      await league.settle(20);
    }
    await league.settle();
    const writes = league.north.writes
      .slice(before)
      .filter((each) => each.includes('UPDATE services '));
    assert.ok(writes.length <= 8, `${writes.length} writes for 100 changes in two seconds`);
    assert.deepEqual(league.names(), ['north shop.fed.example → 10.2.0.7']);
  });

  test('of a cluster that makes too many writes wait, and those of others do not', async () => {
    const flooding = new Set(['south']);
    const write = (origins: readonly string[]): void => {
      if (origins.every((origin) => flooding.has(origin))) throw new Paced('must wait');
    };
    const run = { isParked: false, stay: () => {}, end: () => {}, deletes: () => {}, write };
    const join = () => ({ begin: () => run, stop: () => {} });
    const league = await setUp({ pacer: { join } });
    await putService(league.south, external('10.2.0.7'));
    await putService(league.west, { name: 'web', ...external('10.3.0.7') });
    await league.lead();
    assert.deepEqual(league.names('shop'), []);
    assert.deepEqual(league.names('web'), ['north web.fed.example → 10.3.0.7']);
  });

  test('of a member that was not read since the start of the site stay for its grace period', async () => {
    const league = await setUp();
    await putService(league.south, external('10.2.0.7'));
    await putService(league.west, external('10.3.0.7'));
    const die = await league.lead();
    await die();
    league.west.kube.isDown = true;
    league.west.kube.endWatches('reset');
    await league.lead();
    await league.settle(60_000);
    assert.deepEqual(league.names(), ['north shop.fed.example → 10.2.0.7,10.3.0.7']);
    await putPods(league.south, 'shop', { pods: [] });
    await league.settle();
    assert.deepEqual(league.names(), ['north shop.fed.example → 10.3.0.7']);
    await league.settle(600_000);
    assert.deepEqual(league.names(), []);
  });
});

describe('names by hand', () => {
  const named = (hostname: string) => ({ annotations: { [hostnameAnnotation]: hostname } });

  test('on a member Service win over the template, and an empty one asks for none', async () => {
    const league = await setUp();
    await putService(league.south, { ...external('10.2.0.7'), ...named('www.shop.example') });
    await putService(league.south, { name: 'quiet', ...external('10.2.0.8'), ...named('') });
    await league.lead();
    assert.deepEqual(league.names(), ['north www.shop.example → 10.2.0.7']);
    assert.deepEqual(league.names('quiet'), []);
    assert.equal(toldIn(league.south, 'shop/quiet'), 'nothing');
  });

  test('need no template', async () => {
    const league = await setUp({ settings: noNames });
    await putService(league.south, { ...external('10.2.0.7'), ...named('a.example, b.example') });
    await league.lead();
    assert.deepEqual(league.names(), ['north a.example,b.example → 10.2.0.7']);
  });

  test('of several members are those of the oldest, and the others are told', async () => {
    const league = await setUp();
    await putService(league.west, { ...external('10.3.0.7'), ...named('old.example') });
    await league.settle(5000);
    await putService(league.south, { ...external('10.2.0.7'), ...named('new.example') });
    await league.lead();
    assert.deepEqual(league.names(), ['north old.example → 10.2.0.7,10.3.0.7']);
    assert.equal(toldIn(league.west), 'True Published');
    assert.equal(toldIn(league.south), 'False HostnameIgnored');
    assert.match(conditionIn(league.south)?.message ?? '', /west\/shop\/shop/);
  });

  test('that are illegal are refused, and legal ones beside them are used', async () => {
    const league = await setUp({ settings: noNames });
    await putService(league.south, { ...external('10.2.0.7'), ...named('*.example,ok.example') });
    const long = `${'a'.repeat(63)}.`.repeat(4);
    await putService(league.south, {
      name: 'long',
      ...external('10.2.0.8'),
      ...named(`${long}example`),
    });
    await league.lead();
    assert.deepEqual(league.names(), ['north ok.example → 10.2.0.7']);
    assert.equal(toldIn(league.south), 'False HostnameRefused');
    assert.match(
      conditionIn(league.south)?.message ?? '',
      /wildcard .* Still published: ok\.example/,
    );
    assert.deepEqual(league.names('long'), []);
    assert.equal(toldIn(league.south, 'shop/long'), 'False HostnameRefused');
  });

  test('that the template makes for another Service are refused, also while there is none', async () => {
    const league = await setUp();
    await putService(league.south, { ...external('10.2.0.7'), ...named('bank.fed.example') });
    await league.lead();
    assert.deepEqual(league.names(), []);
    assert.equal(toldIn(league.south), 'False HostnameRefused');
    assert.match(conditionIn(league.south)?.message ?? '', /gives this name to another Service/);
  });

  test('that two Services want go to the older one, and to the other one after it', async () => {
    const league = await setUp({ settings: noNames });
    await putService(league.west, { ...external('10.3.0.7'), ...named('same.example') });
    await league.settle(5000);
    await putService(league.south, {
      name: 'late',
      ...external('10.2.0.7'),
      ...named('same.example'),
    });
    await league.lead();
    assert.deepEqual(league.names(), ['north same.example → 10.3.0.7']);
    assert.deepEqual(league.names('late'), []);
    assert.equal(toldIn(league.south, 'shop/late'), 'False HostnameTaken');
    assert.match(conditionIn(league.south, 'shop/late')?.message ?? '', /Service \*\/shop has it/);
    await league.west.remove('services', 'shop/shop');
    await league.settle();
    assert.deepEqual(league.names('late'), ['north same.example → 10.2.0.7']);
    assert.equal(toldIn(league.south, 'shop/late'), 'True Published');
  });

  test('on a copy stay, and get addresses there, whether the cluster is marked or not', async () => {
    const league = await setUp({ settings: noNames, marked: [] });
    await putService(league.south, external('10.2.0.7'));
    await league.lead();
    const annotations = { [`${prefix}/hostname`]: 'foo.my-org.example' };
    await league.west.patch('services', 'hansa-system/shop', { metadata: { annotations } });
    await league.settle();
    assert.deepEqual(league.names(), ['west foo.my-org.example → 10.2.0.7']);
    assert.equal(toldIn(league.west, 'hansa-system/shop'), 'True Published');
    await putPods(league.south, 'shop', { pods: [] });
    await league.settle();
    assert.deepEqual(league.names(), ['west foo.my-org.example → -']);
    assert.equal(toldIn(league.west, 'hansa-system/shop'), 'False NoReachableAddress');
  });

  test('on two copies get addresses on one', async () => {
    const league = await setUp({ settings: noNames, marked: [] });
    await putService(league.south, external('10.2.0.7'));
    await league.lead();
    const annotations = { [`${prefix}/hostname`]: 'foo.my-org.example' };
    for (const cluster of [league.west, league.north]) {
      await cluster.patch('services', 'hansa-system/shop', { metadata: { annotations } });
    }
    await league.settle();
    assert.deepEqual(league.names(), [
      'north foo.my-org.example → 10.2.0.7',
      'west foo.my-org.example → -',
    ]);
    assert.equal(toldIn(league.west, 'hansa-system/shop'), 'False HostnameTaken');
  });

  test('on the copy that carries the name of the template let another cluster carry that', async () => {
    const league = await setUp();
    await putService(league.west, external('10.3.0.7'));
    await league.lead();
    const annotations = { [`${prefix}/hostname`]: 'mine.example' };
    await league.north.patch('services', 'hansa-system/shop', { metadata: { annotations } });
    await league.settle();
    assert.deepEqual(league.names(), [
      'north mine.example → 10.3.0.7',
      'south shop.fed.example → 10.3.0.7',
    ]);
  });

  test('as targets of a copy stay too', async () => {
    const league = await setUp();
    await putService(league.south, external('10.2.0.7'));
    await league.lead();
    const annotations = { [`${prefix}/target`]: 'lb.my-org.example' };
    await league.north.patch('services', 'hansa-system/shop', { metadata: { annotations } });
    await league.settle();
    assert.deepEqual(league.names(), ['north shop.fed.example → lb.my-org.example']);
  });
});

describe('a site without names', () => {
  test('removes the names and conditions that were there before', async () => {
    const league = await setUp();
    await putService(league.south, external('10.2.0.7'));
    const die = await league.lead();
    await die();
    league.settings = noNames;
    await league.lead();
    assert.deepEqual(league.names(), []);
    assert.equal(toldIn(league.south), 'nothing');
    assert.deepEqual(league.refusals, []);
  });

  test('removes the condition of a Service that left its federated Service', async () => {
    const league = await setUp();
    await putService(league.south, external('10.2.0.7'));
    await league.lead();
    assert.equal(toldIn(league.south), 'True Published');
    const annotations = { 'svc.global.federated.hansa.dev': null };
    await league.south.patch('services', 'shop/shop', { metadata: { annotations } });
    await league.settle();
    assert.equal(toldIn(league.south), 'nothing');
    assert.deepEqual(league.names(), []);
  });
});
