import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { annotatedCopies } from '../copies/annotated-copies.ts';
import { findService, listServices } from '../copies/list-services.ts';
import { systemNamespace } from '../league/test-memory-league.ts';
import type { EndpointSlice } from '../objects.ts';
import { exportedServices } from './exported-services.ts';
import { importServiceName } from './import-marks.ts';
import { mcsApiVersion } from './mcs-objects.ts';
import {
  endpointsOf,
  good,
  importIn,
  McsLeague,
  type McsLeagueOptions,
  messageIn,
  putExport,
  putWeb,
  serviceBehind,
  toldIn,
  writtenIn,
} from './test-exports.ts';

async function setUp(options: McsLeagueOptions = {}): Promise<McsLeague> {
  const league = new McsLeague(options);
  await league.join();
  return league;
}

describe('exported Services', () => {
  test('are imported in each cluster that has the namespace, with a ClusterSet IP and all endpoints', async () => {
    const league = await setUp();
    const { north, south, west } = league;
    await putWeb(north, ['10.1.0.1']);
    await putWeb(south, ['10.2.0.1']);
    await putExport(north);
    await putExport(south);
    await league.lead();
    for (const cluster of [north, south, west]) {
      const found = importIn(cluster);
      const service = serviceBehind(cluster);
      assert.equal(found?.spec.type, 'ClusterSetIP', cluster.id);
      assert.deepEqual(found.spec.ips, [service?.spec.clusterIP]);
      assert.deepEqual(found.spec.ports, [{ name: 'http', port: 80, protocol: 'TCP' }]);
      assert.deepEqual(found.status?.clusters, [{ cluster: 'north' }, { cluster: 'south' }]);
      assert.deepEqual(endpointsOf(cluster), ['north 10.1.0.1', 'south 10.2.0.1'], cluster.id);
      assert.equal(service?.metadata.ownerReferences?.[0]?.uid, found.metadata.uid);
    }
    assert.deepEqual(toldIn(north), good);
    assert.deepEqual(toldIn(south), good);
    assert.deepEqual(league.refusals, []);
  });

  test('go with their last export, and nothing is left', async () => {
    const league = await setUp();
    const { north, south, west } = league;
    await putWeb(north, ['10.1.0.1']);
    await putWeb(south, ['10.2.0.1']);
    await putExport(north);
    await putExport(south);
    await league.lead();
    await north.remove('serviceexports', 'shop/web');
    await league.settle();
    assert.deepEqual(endpointsOf(west), ['south 10.2.0.1']);
    assert.deepEqual(importIn(west)?.status?.clusters, [{ cluster: 'south' }]);
    await south.remove('serviceexports', 'shop/web');
    await league.settle();
    for (const cluster of league.clusters) assert.deepEqual(writtenIn(cluster), [], cluster.id);
    assert.deepEqual(league.refusals, []);
  });

  test('follow their pods, and go and come with their Service', async () => {
    const league = await setUp();
    const { north, west } = league;
    await putExport(north);
    await league.lead();
    assert.deepEqual(toldIn(north), invalid('NoService'));
    assert.equal(importIn(west), undefined, 'an export alone imports nothing');
    await putWeb(north, ['10.1.0.1']);
    await league.settle();
    assert.deepEqual(toldIn(north), good);
    assert.deepEqual(endpointsOf(west), ['north 10.1.0.1']);
    await putWeb(north, ['10.1.0.1', '10.1.0.2']);
    await league.settle();
    assert.deepEqual(endpointsOf(west), ['north 10.1.0.1', 'north 10.1.0.2']);
    await north.remove('services', 'shop/web');
    await league.settle();
    assert.deepEqual(toldIn(north), invalid('NoService'));
    assert.deepEqual(writtenIn(west), []);
    assert.deepEqual(league.refusals, []);
  });

  test('keep their ClusterSet IP while exports, ports and leaders change', async () => {
    const league = await setUp();
    const { north, south, west } = league;
    await putWeb(north, ['10.1.0.1']);
    await putExport(north);
    const die = await league.lead();
    const ips = importIn(west)?.spec.ips;
    const before = serviceBehind(west)?.metadata.uid;
    const ports = [
      { name: 'http', port: 80, protocol: 'TCP' as const },
      { name: 'https', port: 443, protocol: 'TCP' as const },
    ];
    await putWeb(north, ['10.1.0.1'], { ports });
    await putWeb(south, ['10.2.0.1']);
    await putExport(south);
    await league.settle();
    await die();
    const writes = west.writes.length;
    await league.lead('bruges.example');
    assert.equal(west.writes.length, writes, 'a new leader finds all as it should be');
    assert.deepEqual(importIn(west)?.spec.ips, ips);
    assert.equal(serviceBehind(west)?.metadata.uid, before);
    assert.deepEqual(
      importIn(west)?.spec.ports.map(({ port }) => port),
      [80, 443],
    );
    await north.remove('serviceexports', 'shop/web');
    await league.settle();
    assert.deepEqual(importIn(west)?.spec.ips, ips);
    assert.deepEqual(endpointsOf(west), ['south 10.2.0.1']);
    assert.deepEqual(league.refusals, []);
  });

  test('keep their type when a cluster says that its export is older', async () => {
    const league = await setUp();
    await putWeb(league.south, ['10.2.0.1']);
    await putExport(league.south);
    await league.lead();
    const before = importIn(league.north);
    league.west.clock.jumpWall(-20 * 365 * 86_400_000);
    await putWeb(league.west, ['10.3.0.1'], {
      clusterIP: 'None',
      ports: [{ name: 'http', port: 81, protocol: 'TCP' }],
    });
    await putExport(league.west);
    await league.settle();
    assert.deepEqual(importIn(league.north)?.spec, before?.spec);
  });

  test('that are headless have slices and no address', async () => {
    const league = await setUp();
    const { north, west } = league;
    await putWeb(north, ['10.1.0.1'], { clusterIP: 'None' });
    await putExport(north);
    await league.lead();
    const found = importIn(west);
    assert.equal(found?.spec.type, 'Headless');
    assert.equal(found.spec.ips, undefined);
    assert.equal(serviceBehind(west)?.spec.clusterIP, 'None');
    assert.deepEqual(endpointsOf(west), ['north 10.1.0.1']);
  });

  test('have the type and the session affinity of the oldest export, and all are told of the conflict', async () => {
    const league = await setUp();
    const { north, south, west } = league;
    await putWeb(south, ['10.2.0.1'], {
      sessionAffinity: 'ClientIP',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
    });
    await putExport(south);
    await league.clock.advance(5000);
    await putWeb(north, ['10.1.0.1'], { clusterIP: 'None' });
    await putExport(north);
    await league.lead();
    const found = importIn(west);
    assert.equal(found?.spec.type, 'ClusterSetIP');
    assert.equal(found.spec.sessionAffinity, 'ClientIP');
    assert.equal(found.spec.sessionAffinityConfig?.clientIP?.timeoutSeconds, 60);
    assert.equal(serviceBehind(west)?.spec.sessionAffinity, 'ClientIP');
    assert.deepEqual(endpointsOf(west), ['north 10.1.0.1', 'south 10.2.0.1']);
    for (const cluster of [north, south]) {
      assert.deepEqual(toldIn(cluster)[2], 'Conflict=True TypeConflict,SessionAffinityConflict');
      assert.match(messageIn(cluster, 'Conflict'), /Using ClusterSetIP from .* in south\. 1 of 2/);
    }
    await south.remove('serviceexports', 'shop/web');
    await league.settle();
    assert.equal(importIn(west)?.spec.type, 'Headless', 'the next one decides');
    assert.equal(serviceBehind(west)?.spec.clusterIP, 'None');
    assert.deepEqual(endpointsOf(west), ['north 10.1.0.1']);
    assert.deepEqual(toldIn(north), good);
    assert.deepEqual(league.refusals, []);
  });

  test('with ports that contradict each other have those of the oldest export', async () => {
    const league = await setUp();
    const { north, south, west } = league;
    const port = (number: number) => [{ name: 'http', port: number, protocol: 'TCP' as const }];
    await putWeb(south, ['10.2.0.1'], { ports: port(80) });
    await putExport(south);
    await league.clock.advance(5000);
    await putWeb(north, ['10.1.0.1'], { ports: port(81) });
    await putExport(north);
    await league.lead();
    assert.deepEqual(
      importIn(west)?.spec.ports.map((each) => each.port),
      [80],
    );
    assert.deepEqual(endpointsOf(west), ['south 10.2.0.1']);
    for (const cluster of [north, south]) {
      assert.equal(toldIn(cluster)[2], 'Conflict=True PortConflict');
    }
    assert.deepEqual(toldIn(north)[1], 'Ready=False Failed');
    assert.deepEqual(toldIn(south)[1], 'Ready=True Exported');
  });

  test('of type ExternalName, copies, and what was imported are not valid', async () => {
    const league = await setUp();
    const { north, south, west } = league;
    await putWeb(north, [], { type: 'ExternalName', externalName: 'example.com' });
    await putExport(north);
    const annotations = { 'svc.federated.hansa.dev': 'copied' };
    await putWeb(south, ['10.2.0.1'], {}, { name: 'own', annotations });
    await putWeb(south, ['10.2.0.1'], {}, { name: 'real' });
    await putExport(south, 'real');
    await putExport(west, 'copied');
    await putExport(west, importServiceName('real'));
    await league.lead();
    assert.deepEqual(toldIn(north), invalid('InvalidServiceType'));
    assert.deepEqual(toldIn(west, 'shop/copied'), invalid('InvalidServiceType'));
    const again = `shop/${importServiceName('real')}`;
    assert.deepEqual(toldIn(west, again), invalid('InvalidServiceType'));
    assert.equal(importIn(west, again), undefined);
    assert.equal(importIn(south), undefined);
  });

  test('whose names no Service can have are told so', async () => {
    const league = await setUp();
    const names = ['a.b', '1-web', `a${'b'.repeat(252)}`];
    for (const name of names) await putExport(league.north, name);
    await league.lead();
    for (const name of names) {
      assert.deepEqual(toldIn(league.north, `shop/${name}`), invalid('NoService'));
    }
    for (const cluster of league.clusters) assert.deepEqual(writtenIn(cluster), []);
  });

  test('are not imported where a user has the ServiceImport or the Service, which stay as they are', async () => {
    const league = await setUp();
    const { north, south, west } = league;
    await putWeb(north, ['10.1.0.1']);
    await putExport(north);
    await west.apply('serviceimports', own('ServiceImport', 'web'));
    await south.apply('services', own('Service', importServiceName('web')));
    const before = [importIn(west), serviceBehind(south)];
    await league.lead();
    assert.deepEqual([importIn(west), serviceBehind(south)], before);
    assert.equal(serviceBehind(west), undefined);
    assert.equal(importIn(south), undefined);
    assert.deepEqual([...endpointsOf(west), ...endpointsOf(south)], []);
    const view = findService('shop/web.clusterset', listOptions(league));
    assert.deepEqual(
      view?.copies.map(({ clusterID, reason }) => `${clusterID} ${reason}`),
      ['north Copied', 'south CopyConflict', 'west ImportConflict'],
    );
    await west.remove('serviceimports', 'shop/web');
    await south.remove('services', `shop/${importServiceName('web')}`);
    await league.settle();
    for (const cluster of [south, west]) {
      assert.deepEqual(endpointsOf(cluster), ['north 10.1.0.1'], cluster.id);
      assert.equal(importIn(cluster)?.spec.ips?.length, 1);
    }
    assert.deepEqual(league.refusals, []);
  });

  test('are told of a ServiceImport of a user in their own cluster', async () => {
    const league = await setUp();
    await putWeb(league.north, ['10.1.0.1']);
    await putExport(league.north);
    await league.north.apply('serviceimports', own('ServiceImport', 'web'));
    await league.lead();
    assert.deepEqual(toldIn(league.north), good);
    assert.match(messageIn(league.north, 'Ready'), /has a ServiceImport shop\/web that no Hansa/);
    assert.deepEqual(endpointsOf(league.west), ['north 10.1.0.1']);
  });

  test('that users change are repaired, and labels of users stay', async () => {
    const league = await setUp();
    const { north, west } = league;
    await putWeb(north, ['10.1.0.1']);
    await putExport(north);
    await league.lead();
    const ips = importIn(west)?.spec.ips;
    await west.patch('serviceimports', 'shop/web', {
      metadata: { labels: { team: 'shop' } },
      spec: { ips: ['192.0.2.1'] },
    });
    const behind = `shop/${importServiceName('web')}`;
    await west.patch('services', behind, { spec: { ports: [{ name: 'x', port: 1 }] } });
    await league.settle();
    assert.deepEqual(importIn(west)?.spec.ips, ips);
    assert.equal(importIn(west)?.metadata.labels?.['team'], 'shop');
    assert.equal(serviceBehind(west)?.spec.ports?.[0]?.port, 80);
    await west.remove('serviceimports', 'shop/web');
    await league.settle(20_000);
    const found = importIn(west);
    assert.deepEqual(found?.spec.ips, [serviceBehind(west)?.spec.clusterIP]);
    assert.deepEqual(endpointsOf(west), ['north 10.1.0.1']);
    assert.equal(serviceBehind(west)?.metadata.ownerReferences?.[0]?.uid, found?.metadata.uid);
    assert.deepEqual(league.refusals, []);
  });

  test('need the namespace, and come when it appears', async () => {
    const league = await setUp();
    const { north, west } = league;
    await west.remove('namespaces', 'shop');
    await league.settle();
    await putWeb(north, ['10.1.0.1']);
    await putExport(north);
    await league.lead();
    assert.equal(importIn(west), undefined);
    await west.namespace('shop');
    await league.settle();
    assert.deepEqual(endpointsOf(west), ['north 10.1.0.1']);
  });

  test('with an annotation too are members of two federated Services, each with its own rules', async () => {
    const league = await setUp();
    const { north, south } = league;
    const annotations = { 'svc.federated.hansa.dev': 'copied' };
    await putWeb(north, ['10.1.0.1'], {}, { annotations });
    await putWeb(south, ['10.2.0.1'], {}, { annotations });
    await putExport(north);
    await putExport(south);
    await league.lead();
    const copied = south
      .all<EndpointSlice>('endpointslices', 'shop')
      .filter(({ metadata }) => metadata.labels?.['kubernetes.io/service-name'] === 'copied')
      .flatMap(({ endpoints }) => (endpoints ?? []).flatMap(({ addresses }) => addresses));
    assert.deepEqual(copied, ['10.2.0.1'], 'a copy prefers its own cluster');
    assert.deepEqual(endpointsOf(south), ['north 10.1.0.1', 'south 10.2.0.1']);
    await north.remove('serviceexports', 'shop/web');
    await south.remove('serviceexports', 'shop/web');
    await league.settle();
    assert.deepEqual(writtenIn(south), []);
    assert.notEqual(south.find('services', 'shop/copied'), undefined);
    assert.deepEqual(league.refusals, []);
  });

  test('of clusters that others do not reach are told why', async () => {
    const league = await setUp({ settings: () => ({ routable: false }) });
    const { north, west } = league;
    await putWeb(north, ['10.1.0.1']);
    await putExport(north);
    await league.lead();
    assert.deepEqual(toldIn(north)[1], 'Ready=False Failed');
    assert.match(messageIn(north, 'Ready'), /^NotRoutable: /);
    assert.deepEqual(endpointsOf(north), ['north 10.1.0.1'], 'it reaches itself');
    assert.deepEqual(writtenIn(west), []);
  });

  test('beyond the limit of their cluster are left out elsewhere, the youngest first', async () => {
    const prefixes = (index: number) => ({ endpointPrefixes: [`10.${index + 1}.0.0/16`] });
    const league = await setUp({
      settings: (_, index) => ({
        routable: true,
        ...prefixes(index),
        limits: { services: 2, endpoints: 1000 },
      }),
    });
    const { north, west } = league;
    for (const name of ['a', 'b', 'c']) {
      await putWeb(north, ['10.1.0.1'], {}, { name });
      await putExport(north, name);
      await league.clock.advance(2000);
    }
    await league.lead();
    assert.deepEqual(
      west.all('serviceimports').map(({ metadata }) => metadata.name),
      ['a', 'b'],
    );
    assert.match(messageIn(north, 'Ready', 'shop/c'), /^TooMany: /);
    await north.remove('serviceexports', 'shop/a');
    await league.settle();
    assert.deepEqual(
      west.all('serviceimports').map(({ metadata }) => metadata.name),
      ['b', 'c'],
    );
    assert.deepEqual(toldIn(north, 'shop/c'), good);
  });

  test('keep their endpoints of a cluster whose exports a new leader cannot read', async () => {
    const league = await setUp();
    const { north, west } = league;
    await putWeb(north, ['10.1.0.1']);
    await putExport(north);
    const die = await league.lead();
    await die();
    north.denied.add('serviceexports');
    await league.lead('bruges.example');
    await league.settle(30_000);
    assert.deepEqual(endpointsOf(west), ['north 10.1.0.1']);
    assert.equal(importIn(west)?.spec.type, 'ClusterSetIP');
    north.denied.delete('serviceexports');
    await north.remove('serviceexports', 'shop/web');
    await league.settle(60_000);
    assert.deepEqual(writtenIn(west), []);
    assert.deepEqual(league.refusals, []);
  });

  test('are nothing where no cluster serves the API, and its members are healthy', async () => {
    const league = await setUp({ isServed: false });
    await putWeb(league.north, ['10.1.0.1']);
    await league.lead();
    assert.equal(league.members.get('north')?.state.state, 'Ready');
    assert.deepEqual(
      league.clusters.map(({ writes }) => writes),
      [[], [], []],
    );
  });

  test('are shown as federated Services', async () => {
    const league = await setUp();
    await putWeb(league.north, ['10.1.0.1']);
    await putExport(league.north);
    await league.lead();
    const { services } = listServices(listOptions(league));
    const [view, ...others] = services;
    assert.deepEqual(others, []);
    assert.equal(view?.key, 'shop/web.clusterset');
    assert.equal(view.scope, 'exported');
    assert.deepEqual(
      view.copies.map(({ clusterID, status, endpoints }) => [clusterID, status, endpoints]),
      [
        ['north', 'True', 1],
        ['south', 'True', 1],
        ['west', 'True', 1],
      ],
    );
  });
});

const invalid = (reason: string): readonly string[] => [
  `Valid=False ${reason}`,
  'Ready=False Failed',
  'Conflict=False NoConflicts',
];

const own = (kind: 'Service' | 'ServiceImport', name: string): object => ({
  apiVersion: kind === 'Service' ? 'v1' : mcsApiVersion,
  kind,
  metadata: { name, namespace: 'shop', annotations: { 'clusters.hansa.dev/import': 'web' } },
  spec: {
    ...(kind === 'ServiceImport' && { type: 'ClusterSetIP', ips: ['192.0.2.9'] }),
    ports: [{ port: 80, protocol: 'TCP' }],
  },
});

const listOptions = (league: McsLeague) => ({
  members: league.members,
  namespace: systemNamespace,
  monotonicMs: league.clock.monotonic(),
  dnsPrefix: 'dns.example',
  rules: [annotatedCopies(systemNamespace), exportedServices()],
});
