import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { copiesPart } from '../copies/copies-part.ts';
import { dnsPart } from '../dns/dns-part.ts';
import { annotationsOf, putPods, templated, toldIn } from '../dns/test-names.ts';
import type { MemberSettings } from '../members/member.ts';
import {
  epochAnnotation,
  hostnameAnnotation,
  memberCondition,
  namesSinceAnnotation,
  sinceAnnotation,
} from '../names.ts';
import type { Service } from '../objects.ts';
import { MemoryKubeClient } from '../../../test/fakes/memory-kube/memory-kube-client.ts';
import { type MemoryCluster, MemoryLeague, type Supervisor } from './test-memory-league.ts';

const ids = ['north', 'south', 'west', 'evil'];

interface Setting {
  readonly homes?: number;
  readonly member?: (id: string) => Partial<MemberSettings>;
}

/** The cluster evil is hostile; north is home. */
async function setUp({ homes = 1, member }: Setting = {}): Promise<MemoryLeague> {
  const league = new MemoryLeague({
    ids,
    homes,
    parts: (options) => [copiesPart(options), dnsPart({ ...options, settings: templated })],
    settings: (id, index) => ({
      routable: true,
      endpointPrefixes: [`10.${index + 1}.0.0/16`],
      ...(id === 'north' && { dns: true }),
      ...member?.(id),
    }),
  });
  await league.join();
  return league;
}

interface Put {
  readonly name?: string;
  readonly federated?: string;
  readonly port?: number;
  readonly hostname?: string;
}

async function put(
  cluster: MemoryCluster,
  { name = 'shop', federated = name, port = 80, hostname }: Put = {},
): Promise<void> {
  const index = ids.indexOf(cluster.id) + 1;
  await cluster.apply('services', {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name,
      namespace: 'shop',
      annotations: {
        'svc.global.federated.hansa.dev': federated,
        ...(hostname !== undefined && { [hostnameAnnotation]: hostname }),
      },
    },
    spec: { ports: [{ name: 'http', port, protocol: 'TCP' }], externalIPs: [`10.${index}.0.7`] },
  });
  await putPods(cluster, name, { pods: [`10.${index}.0.1`] });
}

/** Its API server says that what is created from now on is from 1999. */
function forgeDates(cluster: MemoryCluster): void {
  cluster.clock.jumpWall(Date.parse('1999-01-01T00:00:00Z') - cluster.clock.now());
}

const copyIn = (cluster: MemoryCluster, name = 'shop') =>
  cluster.find<Service>('services', `hansa-system/${name}`);

/** The ports of the copies, by cluster. */
const portsOf = ({ clusters }: MemoryLeague): readonly string[] =>
  clusters.map(
    (cluster) =>
      `${cluster.id} ${(copyIn(cluster)?.spec.ports ?? []).map(({ port }) => port).join()}`,
  );

const everywhere = (port: number): readonly string[] => ids.map((id) => `${id} ${port}`);

const reasonIn = (cluster: MemoryCluster): string | undefined =>
  cluster
    .find<Service>('services', 'shop/shop')
    ?.status?.conditions?.find(({ type }) => type === memberCondition)?.reason;

describe('a member that dates its Services 1999', () => {
  test('pushes nobody out of a federated Service, and hears who came first', async () => {
    const league = await setUp();
    const [, south, , evil] = league.clusters as readonly [
      never,
      MemoryCluster,
      never,
      MemoryCluster,
    ];
    await put(south, { port: 80 });
    await league.lead();
    forgeDates(evil);
    await put(evil, { port: 81 });
    await league.settle();
    assert.deepEqual(portsOf(league), everywhere(80));
    assert.equal(reasonIn(south), 'Federated');
    assert.equal(reasonIn(evil), 'PortConflict');
    assert.deepEqual(league.refusals, []);
  });

  test('gains nothing from a restart, or from another supervisor that takes over', async () => {
    const league = await setUp({ homes: 2, member: () => ({ supervisor: true }) });
    const [, south, , evil] = league.clusters as readonly [
      never,
      MemoryCluster,
      never,
      MemoryCluster,
    ];
    await put(south, { port: 80 });
    const stop = await league.lead();
    forgeDates(evil);
    await put(evil, { port: 81 });
    await league.settle();
    await stop();
    const restarted = await league.lead();
    await league.settle();
    assert.deepEqual(portsOf(league), everywhere(80));
    await restarted();
    await league.supervise('hamburg.example', { home: 'south' });
    await league.settle(60_000);
    await put(south, { port: 80 });
    await league.settle();
    assert.deepEqual(portsOf(league), everywhere(80));
  });

  test('gains nothing where the copy in the home cluster is missing, or is deleted', async () => {
    const league = await setUp();
    const [north, south, west, evil] = league.clusters as readonly [
      MemoryCluster,
      MemoryCluster,
      MemoryCluster,
      MemoryCluster,
    ];
    const pay = (port: number) => ({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: {
        name: 'pay-1',
        namespace: 'bank',
        annotations: { 'svc.federated.hansa.dev': 'pay' },
      },
      spec: { ports: [{ name: 'http', port, protocol: 'TCP' }] },
    });
    for (const cluster of [south, west, evil]) await cluster.namespace('bank');
    await south.apply('services', pay(80));
    await put(south, { port: 80 });
    await league.lead();
    forgeDates(evil);
    await evil.apply('services', pay(81));
    await put(evil, { port: 81 });
    await league.settle();
    await north.remove('services', 'hansa-system/shop');
    await league.settle();
    assert.deepEqual(portsOf(league), everywhere(80));
    const payIn = (cluster: MemoryCluster): unknown =>
      cluster.find<Service>('services', 'bank/pay')?.spec.ports?.map(({ port }) => port);
    assert.deepEqual([north, south, west, evil].map(payIn), [undefined, [80], [80], [80]]);
    // Now the home cluster gets a copy too, and decides from then on.
    await north.namespace('bank');
    await league.settle();
    assert.deepEqual([north, south, west, evil].map(payIn), [[80], [80], [80], [80]]);
  });

  test('keeps its place only while it takes part', async () => {
    const league = await setUp();
    const [, south, west, evil] = league.clusters as readonly [
      never,
      MemoryCluster,
      MemoryCluster,
      MemoryCluster,
    ];
    await put(evil, { port: 81 });
    await league.lead();
    await put(south, { port: 80 });
    await league.settle();
    assert.deepEqual(portsOf(league), everywhere(81), 'it was first');
    await evil.remove('services', 'shop/shop');
    await league.settle();
    forgeDates(evil);
    await put(evil, { port: 81 });
    await put(west, { port: 82 });
    await league.settle();
    assert.deepEqual(portsOf(league), everywhere(80));
  });

  test('does not take the name of another federated Service', async () => {
    const league = await setUp();
    const [north, south, , evil] = league.clusters as readonly [
      MemoryCluster,
      MemoryCluster,
      never,
      MemoryCluster,
    ];
    const hostname = 'pay.example.com';
    await put(south, { hostname });
    await league.lead();
    forgeDates(evil);
    await put(evil, { name: 'thief', hostname });
    await league.settle();
    assert.equal(annotationsOf(north)[`${templated.prefix}/hostname`], hostname);
    assert.equal(toldIn(evil, 'shop/thief'), 'False HostnameTaken');
    assert.equal(toldIn(south), 'True Published');
  });

  test('does not take a name while its Service has no address, or the site restarts', async () => {
    const league = await setUp();
    const [north, south, , evil] = league.clusters as readonly [
      MemoryCluster,
      MemoryCluster,
      never,
      MemoryCluster,
    ];
    const hostname = 'pay.example.com';
    await put(south, { hostname });
    const stop = await league.lead();
    await putPods(south, 'shop', { pods: [], notReady: ['10.2.0.1'] });
    await league.settle();
    assert.equal(annotationsOf(north)[`${templated.prefix}/hostname`], undefined);
    await stop();
    forgeDates(evil);
    await put(evil, { name: 'thief', hostname });
    await league.lead();
    assert.equal(toldIn(evil, 'shop/thief'), 'False HostnameTaken');
    await putPods(south, 'shop', { pods: ['10.2.0.1'] });
    await league.settle();
    assert.equal(annotationsOf(north)[`${templated.prefix}/hostname`], hostname);
  });

  test('does not choose another name for a Service that it joins', async () => {
    const league = await setUp();
    const [north, south, , evil] = league.clusters as readonly [
      MemoryCluster,
      MemoryCluster,
      never,
      MemoryCluster,
    ];
    await put(south, { hostname: 'pay.example.com' });
    await league.lead();
    forgeDates(evil);
    await put(evil, { hostname: 'evil.example.com' });
    await league.settle();
    assert.equal(annotationsOf(north)[`${templated.prefix}/hostname`], 'pay.example.com');
  });

  for (const carrier of ['north', 'west']) {
    test(`takes no name by writing into its own copies since when it has it, with ${carrier}`, async () => {
      const league = await setUp({ member: (id) => ({ dns: id === carrier || id === 'evil' }) });
      const [, south, , evil] = league.clusters as readonly [
        never,
        MemoryCluster,
        never,
        MemoryCluster,
      ];
      const hostname = 'pay.example.com';
      await put(south, { hostname });
      await league.lead();
      await put(evil, { name: 'thief', hostname });
      await league.settle();
      const copy = copyIn(evil, 'thief');
      const annotations = {
        ...copy?.metadata.annotations,
        [namesSinceAnnotation]: `${hostname}=1`,
      };
      const changed = { ...copy, metadata: { ...copy?.metadata, annotations } };
      const mallory = new MemoryKubeClient({ cluster: evil.kube, user: 'site:mallory' });
      await mallory.replace('/api/v1/namespaces/hansa-system/services/thief', changed);
      await league.settle();
      assert.equal(toldIn(south), 'True Published');
      const records = league.clusters.map((cluster) =>
        Object.hasOwn(copyIn(cluster, 'thief')?.metadata.annotations ?? {}, namesSinceAnnotation),
      );
      assert.deepEqual(records.slice(0, 3), [false, false, false]);
    });
  }

  test('gains nothing by writing into its own copies who came first', async () => {
    const league = await setUp({ member: (id) => (id === 'evil' ? { dns: true } : {}) });
    const [, south, , evil] = league.clusters as readonly [
      never,
      MemoryCluster,
      never,
      MemoryCluster,
    ];
    await put(south, { port: 80 });
    await league.clock.advance(60_000);
    await put(evil, { port: 81 });
    await league.lead();
    assert.deepEqual(portsOf(league), everywhere(80));
    // An administrator of the cluster has no rules to keep.
    const copy = copyIn(evil);
    const annotations = { ...copy?.metadata.annotations, [sinceAnnotation]: 'evil=1 south=2' };
    const changed = { ...copy, metadata: { ...copy?.metadata, annotations } };
    const mallory = new MemoryKubeClient({ cluster: evil.kube, user: 'site:mallory' });
    await mallory.replace('/api/v1/namespaces/hansa-system/services/shop', changed);
    await league.settle();
    assert.deepEqual(portsOf(league).slice(0, 3), everywhere(80).slice(0, 3));
  });
});

describe('who came first', () => {
  test('is decided by age among claims that are new', async () => {
    const league = await setUp();
    const [, south, west] = league.clusters as readonly [
      never,
      MemoryCluster,
      MemoryCluster,
      never,
    ];
    await put(west, { port: 82 });
    await league.clock.advance(60_000);
    await put(south, { port: 80 });
    await league.lead();
    assert.deepEqual(portsOf(league), everywhere(82));
  });

  test('cannot be changed by users of a cluster', async () => {
    const league = await setUp();
    const [north, south] = league.clusters as readonly [MemoryCluster, MemoryCluster, never, never];
    await put(south);
    await league.lead();
    assert.match(copyIn(north)?.metadata.annotations?.[sinceAnnotation] ?? '', /^south=\d+$/);
    for (const mark of [sinceAnnotation, namesSinceAnnotation]) {
      const patch = { metadata: { annotations: { [mark]: 'evil=1' } } };
      await assert.rejects(north.patch('services', 'hansa-system/shop', patch), /only sites/);
    }
  });

  test('is written once, with the copy', async () => {
    const league = await setUp({ member: () => ({ dns: false }) });
    const [, south, west] = league.clusters as readonly [
      never,
      MemoryCluster,
      MemoryCluster,
      never,
    ];
    await put(south);
    await put(west);
    await league.lead();
    await league.settle(60_000);
    const writes = league.clusters.map(({ writes: all }) =>
      all.filter((write) => /(CREATE|UPDATE) services hansa-system/.test(write)),
    );
    assert.deepEqual(
      writes,
      ids.map(() => ['CREATE services hansa-system/shop']),
    );
  });

  test('is the same in all clusters after two supervisors could not reach all of them', async () => {
    const homes = ['north', 'south'];
    const league = await setUp({
      homes: 2,
      member: (id) => ({ supervisor: homes.includes(id) }),
    });
    const [north, south, west] = league.clusters as readonly [
      MemoryCluster,
      MemoryCluster,
      MemoryCluster,
      never,
    ];
    const apart = { delayMs: () => 5 };
    const sites: readonly Supervisor[] = [
      await league.supervise('lubeck.example', apart),
      await league.supervise('hamburg.example', { ...apart, home: 'south' }),
    ];
    await league.settle(60_000);
    // Each reaches one half.
    for (const id of ['south', 'evil']) sites[0]?.cut.add(id);
    for (const id of ['north', 'west']) sites[1]?.cut.add(id);
    await league.settle(60_000);
    await put(north, { port: 80 });
    await league.settle(20_000);
    await put(south, { port: 81 });
    await league.settle(60_000);
    assert.deepEqual(portsOf(league), ['north 80', 'south 81', 'west 80', 'evil 81']);
    for (const site of sites) site.cut.clear();
    await league.settle(300_000);
    assert.deepEqual(portsOf(league), everywhere(80), 'the first one');
    assert.equal(copyIn(west)?.metadata.annotations?.[epochAnnotation] === undefined, false);
    assert.deepEqual(
      league.clusters.map((cluster) =>
        copyIn(cluster)?.metadata.annotations?.[sinceAnnotation]?.replaceAll(/=\d+/g, ''),
      ),
      ids.map(() => 'north south'),
    );
  });
});

test('a member asks only for names below those that Federation allows it', async () => {
  const league = await setUp({
    member: (id) => (id === 'evil' ? { dnsNames: ['evil.example.com', 'fed.example'] } : {}),
  });
  const [north, south, , evil] = league.clusters as readonly [
    MemoryCluster,
    MemoryCluster,
    never,
    MemoryCluster,
  ];
  const hostnameOf = (name: string): string | undefined =>
    annotationsOf(north, name)[`${templated.prefix}/hostname`];
  await put(evil, { name: 'bad', hostname: 'pay.example.com' });
  await put(evil, { name: 'near', hostname: 'notevil.example.com' });
  await put(evil, { name: 'good', hostname: 'a.evil.example.com,evil.example.com' });
  await put(evil, { name: 'made' });
  await put(evil, { name: 'joint', hostname: 'pay.example.com' });
  await put(south, { name: 'joint', hostname: 'joint.example.com' });
  await league.lead();
  assert.equal(hostnameOf('bad'), undefined);
  assert.equal(hostnameOf('near'), undefined);
  assert.equal(toldIn(evil, 'shop/bad'), 'False HostnameRefused');
  assert.equal(hostnameOf('good'), 'a.evil.example.com,evil.example.com');
  assert.equal(hostnameOf('made'), 'made.fed.example');
  assert.equal(hostnameOf('joint'), 'joint.example.com', 'it does not keep others from a name');
});
