import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { VirtualMachine } from '../../api/kinds/virtual-machine.ts';
import { copiesPart } from '../copies/copies-part.ts';
import { type MemoryCluster, MemoryLeague } from '../league/test-memory-league.ts';
import { copyAnnotation, memberCondition, vmAnnotation } from '../names.ts';
import type { EndpointSlice, Service } from '../objects.ts';
import { type MachineSpec, machine } from './test-machines.ts';
import { vmsPart } from './vms-part.ts';

const taggedKey = 'svc.global.federated.antreaplus.vmware-tanzu.com';

async function setUp(): Promise<{
  readonly league: MemoryLeague;
  readonly north: MemoryCluster;
  readonly south: MemoryCluster;
}> {
  const league = new MemoryLeague({
    parts: (options) => [copiesPart(options), vmsPart(options)],
  });
  await league.join();
  return { league, north: league.cluster('north'), south: league.cluster('south') };
}

const put = (cluster: MemoryCluster, name: string, spec: Partial<MachineSpec> = {}) =>
  cluster.apply('virtualmachines', machine(name, spec));

const addressed = (address: string, tags?: Readonly<Record<string, string>>) => ({
  networkInterfaces: [{ internalIP: address }],
  ...(tags !== undefined && { tags }),
});

const serviceIn = (cluster: MemoryCluster, key = 'shop/web') =>
  cluster.find<Service>('services', key);

/** The addresses in the slices of a Service, sorted. */
function addressesIn(cluster: MemoryCluster, key = 'shop/web'): readonly string[] {
  const [namespace = '', name = ''] = key.split('/');
  return cluster
    .all<EndpointSlice>('endpointslices', namespace)
    .filter(({ metadata }) => metadata.labels?.['kubernetes.io/service-name'] === name)
    .flatMap(({ endpoints }) => endpoints ?? [])
    .flatMap(({ addresses }) => addresses)
    .toSorted();
}

/** As `web True Published`. */
function toldIn(cluster: MemoryCluster, name: string): string {
  const { status } = cluster.find<VirtualMachine>('virtualmachines', `shop/${name}`) ?? {};
  const [condition, ...others] = status?.conditions ?? [];
  assert.deepEqual(others, []);
  if (condition === undefined) return 'nothing';
  return `${status?.service ?? '-'} ${condition.status} ${condition.reason}`;
}

describe('the part for machines', () => {
  test('makes a Service and its slices out of tagged machines, and tells the machines', async () => {
    const { league, north, south } = await setUp();
    await put(north, 'web-1', addressed('10.1.0.1'));
    await put(north, 'web-2', addressed('10.1.0.2'));
    await put(north, 'plain', { tags: { team: 'shop' } });
    await league.lead();
    const service = serviceIn(north);
    assert.equal(service?.metadata.annotations?.[vmAnnotation], 'web');
    assert.equal(service.spec.type, 'ClusterIP');
    assert.ok((service.spec.clusterIP ?? '') !== '', 'it has an address of the cluster');
    assert.deepEqual(addressesIn(north), ['10.1.0.1', '10.1.0.2']);
    assert.equal(toldIn(north, 'web-1'), 'web True Published');
    assert.equal(toldIn(north, 'plain'), 'nothing');
    assert.equal(serviceIn(south), undefined, 'machines are known in their own cluster only');
    assert.equal(north.writes.length, 4, 'a Service, a slice and two statuses');
    assert.deepEqual(league.refusals, []);
  });

  test('removes the Service and its slices with the last machine', async () => {
    const { league, north } = await setUp();
    await put(north, 'web-1', addressed('10.1.0.1'));
    await put(north, 'web-2', addressed('10.1.0.2'));
    await league.lead();
    await north.remove('virtualmachines', 'shop/web-1');
    await league.settle();
    assert.deepEqual(addressesIn(north), ['10.1.0.2']);
    await north.remove('virtualmachines', 'shop/web-2');
    await league.settle();
    assert.equal(serviceIn(north), undefined);
    assert.deepEqual(addressesIn(north), []);
    assert.deepEqual(league.refusals, []);
  });

  test('moves a machine to another Service with its tag, and forgets one that lost it', async () => {
    const { league, north } = await setUp();
    await put(north, 'web-1');
    await league.lead();
    await put(north, 'web-1', { tags: { 'svc.antreaplus.vmware.com': 'shop' } });
    await league.settle();
    assert.equal(serviceIn(north), undefined);
    assert.deepEqual(addressesIn(north, 'shop/shop'), ['10.1.0.1']);
    assert.equal(toldIn(north, 'web-1'), 'shop True Published');
    await put(north, 'web-1', { tags: {} });
    await league.settle();
    assert.equal(serviceIn(north, 'shop/shop'), undefined);
    assert.equal(toldIn(north, 'web-1'), 'nothing');
  });

  test('derives the name from the ID where the tag is empty, and tells it', async () => {
    const { league, north } = await setUp();
    await put(north, 'a', { id: 'i-0abc', tags: { 'svc.hansa.dev': '' } });
    await league.lead();
    assert.deepEqual(addressesIn(north, 'shop/i-0abc'), ['10.1.0.1']);
    assert.equal(toldIn(north, 'a'), 'i-0abc True Published');
  });

  test('tells a machine what is wrong with it, and publishes it when that ends', async () => {
    const { league, north } = await setUp();
    await put(north, 'twice', { tags: { 'svc.hansa.dev': 'a', 'svc.antreaplus.vmware.com': 'b' } });
    await put(north, 'illegal', { tags: { 'svc.hansa.dev': 'Not Legal' } });
    await put(north, 'lost', { tags: { 'svc.hansa.dev': 'lost' }, networkInterfaces: [] });
    await put(north, 'shut', { tags: { 'svc.hansa.dev': 'shut' }, ports: [] });
    await league.lead();
    assert.equal(toldIn(north, 'twice'), '- False ConflictingTags');
    assert.equal(toldIn(north, 'illegal'), '- False IllegalName');
    assert.equal(toldIn(north, 'lost'), '- False NoAddress');
    assert.equal(toldIn(north, 'shut'), '- False NoPorts');
    assert.deepEqual(
      north.all('services').map(({ metadata }) => metadata.name),
      ['lost'],
    );
    for (const name of ['twice', 'illegal', 'lost', 'shut']) await put(north, name);
    await league.settle();
    for (const name of ['twice', 'illegal', 'lost', 'shut']) {
      assert.match(toldIn(north, name), /^web True /, name);
    }
    assert.equal(serviceIn(north, 'shop/lost'), undefined);
  });

  test("never adopts a user's Service, and takes the name when it is free", async () => {
    const { league, north } = await setUp();
    const own = {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'web', namespace: 'shop', annotations: { [vmAnnotation]: 'web' } },
      spec: { selector: { app: 'web' }, ports: [{ port: 80 }] },
    };
    await north.apply('services', own);
    const before = serviceIn(north);
    await put(north, 'web-1');
    await league.lead();
    assert.deepEqual(serviceIn(north), before);
    assert.deepEqual(addressesIn(north), []);
    assert.equal(toldIn(north, 'web-1'), '- False ServiceConflict');
    await north.remove('virtualmachines', 'shop/web-1');
    await league.settle();
    assert.deepEqual(serviceIn(north), before, 'nor deletes it');
    await put(north, 'web-1');
    await north.remove('services', 'shop/web');
    await league.settle();
    assert.equal(toldIn(north, 'web-1'), 'web True Published');
    assert.deepEqual(league.refusals, []);
  });

  test('repairs what users do to a Service and its slices, and keeps their annotations', async () => {
    const { league, north } = await setUp();
    await put(north, 'web-1');
    await league.lead();
    await north.patch('services', 'shop/web', {
      metadata: { annotations: { 'example.com/note': 'mine', [vmAnnotation]: null } },
      spec: { ports: [{ port: 1234 }], externalIPs: ['192.0.2.1'] },
    });
    const [slice] = north.all<EndpointSlice>('endpointslices', 'shop');
    const name = `shop/${slice?.metadata.name}`;
    await north.patch('endpointslices', name, { endpoints: [] });
    await league.settle();
    const { metadata, spec } = serviceIn(north) as Service;
    assert.deepEqual(
      spec.ports?.map(({ port }) => port),
      [80],
    );
    assert.equal(spec.externalIPs, undefined);
    assert.equal(metadata.annotations?.['example.com/note'], 'mine');
    assert.equal(metadata.annotations[vmAnnotation], 'web');
    assert.deepEqual(addressesIn(north), ['10.1.0.1']);
    await north.remove('endpointslices', name);
    await north.remove('services', 'shop/web');
    await league.settle();
    assert.deepEqual(addressesIn(north), ['10.1.0.1']);
    assert.deepEqual(league.refusals, []);
  });

  test('stops to update a Service that a user took over, until the selector goes', async () => {
    const { league, north } = await setUp();
    await put(north, 'web-1');
    await league.lead();
    await north.patch('services', 'shop/web', { spec: { selector: { app: 'mine' } } });
    await put(north, 'web-2', addressed('10.1.0.2'));
    await league.settle();
    assert.deepEqual(addressesIn(north), ['10.1.0.1']);
    assert.equal(toldIn(north, 'web-2'), '- False ServiceHasSelector');
    await north.patch('services', 'shop/web', { spec: { selector: null } });
    await league.settle();
    assert.deepEqual(addressesIn(north), ['10.1.0.1', '10.1.0.2']);
    assert.equal(toldIn(north, 'web-2'), 'web True Published');
  });

  test('restores a status that a user changed', async () => {
    const { league, north } = await setUp();
    await put(north, 'web-1');
    await league.lead();
    await north.patch('virtualmachines', 'shop/web-1', { status: null }, '/status');
    await league.settle();
    assert.equal(toldIn(north, 'web-1'), 'web True Published');
  });

  test('leaves all as it is while the site may not read machines', async () => {
    const { league, north } = await setUp();
    await put(north, 'web-1');
    const die = await league.lead();
    await die();
    north.denied.add('virtualmachines');
    await put(north, 'web-1', addressed('10.1.0.2'));
    await league.lead('bremen.example');
    await league.settle(60_000);
    assert.deepEqual(addressesIn(north), ['10.1.0.1']);
    assert.equal(league.members.get('north')?.state.state, 'Ready');
    north.denied.clear();
    await league.settle(60_000);
    assert.deepEqual(addressesIn(north), ['10.1.0.2']);
  });

  test('works in a cluster that gets the CRD later', async () => {
    const { league, north } = await setUp();
    const kind = north.kube.stopServing('virtualmachines');
    await league.lead();
    assert.equal(league.members.get('north')?.state.state, 'Ready');
    north.kube.serve(kind);
    await put(north, 'web-1');
    await league.settle(60_000);
    assert.deepEqual(addressesIn(north), ['10.1.0.1']);
  });

  test('comes back with a namespace that was deleted', async () => {
    const { league, north } = await setUp();
    await put(north, 'web-1');
    await league.lead();
    await north.remove('namespaces', 'shop');
    await league.settle();
    assert.deepEqual(north.all('services'), []);
    await north.namespace('shop');
    await put(north, 'web-1');
    await league.settle();
    assert.deepEqual(addressesIn(north), ['10.1.0.1']);
    assert.deepEqual(league.refusals, []);
  });

  test('writes nothing again under a new leader', async () => {
    const { league, north } = await setUp();
    await put(north, 'web-1');
    const die = await league.lead();
    await die();
    north.writes.length = 0;
    await league.lead('bremen.example');
    assert.deepEqual(north.writes, []);
    await north.remove('virtualmachines', 'shop/web-1');
    await league.settle();
    assert.deepEqual(north.all('services'), []);
    assert.deepEqual(league.refusals, []);
  });
});

describe('a VM Service with a tag for federation', () => {
  const federated = (address: string) =>
    addressed(address, { 'svc.hansa.dev': 'web', 'svc.global.federated.hansa.dev': 'all' });

  test('is reached from other clusters by the addresses of its machines, without routable', async () => {
    const league = new MemoryLeague({
      parts: (options) => [copiesPart(options), vmsPart(options)],
      settings: (_id, index) => ({ endpointPrefixes: [`10.${index + 1}.0.0/16`] }),
    });
    await league.join();
    const [north, south] = [league.cluster('north'), league.cluster('south')];
    await put(north, 'web-1', federated('10.1.0.1'));
    await put(north, 'web-2', federated('192.0.2.7'));
    await league.lead();
    assert.equal(serviceIn(north)?.metadata.annotations?.[taggedKey], 'all');
    const copy = serviceIn(south, 'hansa-system/all');
    assert.equal(copy?.metadata.annotations?.[copyAnnotation], 'all');
    assert.deepEqual(addressesIn(south, 'hansa-system/all'), ['10.1.0.1'], 'only those of north');
    assert.deepEqual(addressesIn(north, 'hansa-system/all'), ['10.1.0.1', '192.0.2.7']);
    const condition = serviceIn(north)?.status?.conditions?.find(
      ({ type }) => type === memberCondition,
    );
    assert.equal(condition?.reason, 'AddressesLeftOut');
    assert.deepEqual(league.refusals, []);
  });

  test('follows its machines in all clusters, and goes with the tag', async () => {
    const { league, north, south } = await setUp();
    await put(north, 'web-1', federated('10.1.0.1'));
    await league.lead();
    await put(north, 'web-2', federated('10.1.0.2'));
    await league.settle();
    assert.deepEqual(addressesIn(south, 'hansa-system/all'), ['10.1.0.1', '10.1.0.2']);
    await put(north, 'web-1', addressed('10.1.0.1'));
    await put(north, 'web-2', addressed('10.1.0.2'));
    await league.settle();
    assert.deepEqual(south.all('services'), []);
    assert.deepEqual(addressesIn(north), ['10.1.0.1', '10.1.0.2']);
    assert.equal(serviceIn(north)?.status?.conditions?.length ?? 0, 0);
    assert.deepEqual(league.refusals, []);
  });

  test('shares a federated Service with machines and Services of other clusters', async () => {
    const { league, north, south } = await setUp();
    await put(north, 'web-1', federated('10.1.0.1'));
    await put(south, 'web-1', federated('10.2.0.1'));
    await league.lead();
    assert.deepEqual(addressesIn(north, 'hansa-system/all'), ['10.1.0.1']);
    assert.deepEqual(addressesIn(south, 'hansa-system/all'), ['10.2.0.1']);
    await south.remove('virtualmachines', 'shop/web-1');
    await league.settle();
    assert.deepEqual(addressesIn(south, 'hansa-system/all'), ['10.1.0.1']);
  });
});
