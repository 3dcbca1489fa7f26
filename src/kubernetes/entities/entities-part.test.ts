import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Paced } from '../copies/origin-pacer.ts';
import { removeOwnCopies } from '../leaving/remove-own-copies.ts';
import { deletingAnnotation, epochAnnotation, originKey } from '../names.ts';
import type { EndpointSlice } from '../objects.ts';
import { isOwnSlice } from '../services/slice-source.ts';
import { MemoryKubeClient } from '../../../test/fakes/memory-kube/memory-kube-client.ts';
import { type ExternalEntity, externalEntityKind } from './compile-external-entities.ts';
import {
  addressesIn,
  copyNamespace,
  entitiesIn,
  EntityLeague,
  type EntityLeagueOptions,
  entityResource,
  putPods,
  putWeb,
} from './test-entities.ts';

const { plural } = externalEntityKind;
const both = ['web north 10.1.0.1', 'web south 10.2.0.1'];

async function setUp(options: EntityLeagueOptions = {}): Promise<EntityLeague> {
  const league = new EntityLeague(options);
  await league.join();
  await putWeb(league.north, ['10.1.0.1']);
  await putWeb(league.south, ['10.2.0.1']);
  return league;
}

function firstIn(league: EntityLeague, origin = 'south'): ExternalEntity {
  const found = entitiesIn(league.north).find(
    ({ metadata }) => metadata.annotations?.[originKey] === origin,
  );
  assert.ok(found, `north has an ExternalEntity of ${origin}`);
  return found;
}

const keyOf = ({ metadata }: ExternalEntity): string => `${metadata.namespace}/${metadata.name}`;

const writesTo = (league: EntityLeague): readonly string[] =>
  league.clusters.flatMap(({ writes }) => writes.filter((write) => write.includes(plural)));

suite('the ExternalEntities of a federated Service', () => {
  test('hold its endpoints in all clusters, also while a local member is ready', async () => {
    const league = await setUp();
    await league.lead();
    for (const cluster of league.clusters) assert.deepEqual(addressesIn(cluster), both);
    const slices = league.north.all<EndpointSlice>('endpointslices').filter(isOwnSlice);
    assert.deepEqual(
      slices.map(({ metadata }) => metadata.labels?.[originKey]),
      ['north'],
    );
    // Those of slices that the copy has are called like them.
    assert.equal(firstIn(league, 'north').metadata.name, slices[0]?.metadata.name);
    assert.ok(firstIn(league).metadata.annotations?.[epochAnnotation]);
    assert.equal(firstIn(league).metadata.namespace, copyNamespace);
    assert.deepEqual(league.refusals, []);
  });

  test('follow endpoints and members', async () => {
    const league = await setUp();
    await league.lead();
    await putPods(league.south, ['10.2.0.1', '10.2.0.2']);
    await league.settle();
    assert.deepEqual(addressesIn(league.north), [...both, 'web south 10.2.0.2']);
    await league.south.remove('services', 'shop/web');
    await league.settle();
    for (const cluster of league.clusters) {
      assert.deepEqual(addressesIn(cluster), ['web north 10.1.0.1']);
    }
    await league.north.remove('services', 'shop/web');
    await league.settle();
    for (const cluster of league.clusters) assert.deepEqual(addressesIn(cluster), []);
    assert.deepEqual(league.refusals, []);
  });

  test('leave out addresses that a cluster may not have', async () => {
    const league = await setUp();
    await putPods(league.south, ['10.2.0.1', '10.1.0.99', '203.0.113.1']);
    await league.lead();
    assert.deepEqual(addressesIn(league.west), both);
  });

  test('count for the cluster of their endpoints, and wait for its turn', async () => {
    const deleted: string[] = [];
    const write = ([origin]: readonly string[]): void => {
      if (origin === 'south') throw new Paced('south must wait');
    };
    const run = { isParked: false, stay: () => {}, end: () => {}, write };
    const deletes = (origin: string): void => void deleted.push(origin);
    const league = await setUp({
      pacer: { join: () => ({ begin: () => ({ ...run, deletes }), stop: () => {} }) },
    });
    await league.lead();
    for (const cluster of league.clusters) assert.deepEqual(addressesIn(cluster), [both[0]]);
    await league.north.remove('services', 'shop/web');
    await league.settle();
    for (const cluster of league.clusters) assert.deepEqual(addressesIn(cluster), []);
    assert.deepEqual(new Set(deleted), new Set(['north']));
  });

  test('of a copy are not compiled for each change of an endpoint that flaps', async () => {
    let looks = 0;
    const league = await setUp({ looked: () => looks++ });
    await league.lead();
    looks = 0;
    for (let at = 0; at < 100; at++) {
      await putPods(league.south, [`10.2.0.${at}`]);
      await league.clock.advance(20);
    }
    // Two in each second, in each of the three clusters, and twice for each look.
    assert.ok(looks <= 36, `${looks} looks in two seconds`);
    await league.settle();
    assert.deepEqual(addressesIn(league.north), ['web north 10.1.0.1', 'web south 10.2.0.99']);
  });

  test('need no write while nothing changes, also by the next leader', async () => {
    const league = await setUp();
    const die = await league.lead();
    const before = writesTo(league).length;
    assert.ok(before > 0);
    await league.settle(120_000);
    await die();
    await league.lead('bruges.example');
    await league.settle(60_000);
    assert.deepEqual(writesTo(league).slice(before), []);
  });

  test('come when the cluster gets Antrea, and cost nothing before', async () => {
    const league = await setUp({ isServed: false });
    await league.lead();
    assert.deepEqual(
      league.members.list().map(({ state }) => state.state),
      ['Ready', 'Ready', 'Ready'],
    );
    assert.deepEqual(writesTo(league), []);
    league.north.kube.serve(entityResource);
    await league.settle(120_000);
    assert.deepEqual(addressesIn(league.north), both);
    assert.deepEqual(writesTo(league).length, 2);
    assert.deepEqual(league.refusals, []);
  });

  test('wait for the rights, and the member is ready without them', async () => {
    const league = await setUp();
    league.north.denied.add(plural);
    await league.lead();
    assert.deepEqual(addressesIn(league.north), []);
    assert.equal(league.members.get('north')?.state.state, 'Ready');
    assert.deepEqual(addressesIn(league.south), both);
    league.north.denied.clear();
    await league.settle(120_000);
    assert.deepEqual(addressesIn(league.north), both);
  });

  test('stay while their cluster cannot be read after a restart of the site', async () => {
    const league = await setUp();
    const die = await league.lead();
    await die();
    league.south.kube.isDown = true;
    league.south.kube.endWatches('reset');
    await league.lead('bruges.example');
    await league.settle(60_000);
    assert.deepEqual(addressesIn(league.north), both);
    league.south.kube.isDown = false;
    await putPods(league.south, ['10.2.0.7']);
    await league.settle(60_000);
    assert.deepEqual(addressesIn(league.north), ['web north 10.1.0.1', 'web south 10.2.0.7']);
  });

  test('have the addresses of load balancers with names, once these are known', async () => {
    let answer: readonly string[] = ['10.2.0.50'];
    const league = await setUp({ lookUp: () => Promise.resolve(answer) });
    await putWeb(league.south, ['172.16.0.1'], { type: 'LoadBalancer' });
    const loadBalancer = { ingress: [{ hostname: 'lb.example' }] };
    await league.south.patch('services', 'shop/web', { status: { loadBalancer } }, '/status');
    const die = await league.lead();
    await league.settle(10_000);
    const expected = ['web north 10.1.0.1', 'web south 10.2.0.50'];
    assert.deepEqual(addressesIn(league.north), expected);
    // In its own cluster it is reached by its pods.
    assert.deepEqual(addressesIn(league.south), ['web north 10.1.0.1', 'web south 172.16.0.1']);
    answer = ['10.2.0.51'];
    await die();
    await league.lead('bruges.example');
    await league.settle(10_000);
    assert.deepEqual(addressesIn(league.north), ['web north 10.1.0.1', 'web south 10.2.0.51']);
  });
});

suite('ExternalEntities and users', () => {
  test('are repaired, and come back', async () => {
    const league = await setUp();
    await league.lead();
    const entity = firstIn(league);
    await league.north.patch(plural, keyOf(entity), {
      metadata: { labels: { [originKey]: 'west' }, ownerReferences: null },
      spec: { endpoints: [{ ip: '198.51.100.1' }] },
    });
    await league.settle(10_000);
    assert.deepEqual(addressesIn(league.north), both);
    assert.deepEqual(firstIn(league).metadata.ownerReferences, entity.metadata.ownerReferences);
    await league.north.remove(plural, keyOf(entity));
    await league.settle(10_000);
    assert.deepEqual(addressesIn(league.north), both);
    assert.deepEqual(league.refusals, []);
  });

  test('of users are never touched, also with the labels or the name of ours', async () => {
    const league = await setUp();
    const die = await league.lead();
    const ours = firstIn(league);
    await die();
    const { name, namespace = '', labels = {} } = ours.metadata;
    await league.north.remove(plural, keyOf(ours));
    for (const each of [name, 'mine']) {
      await league.north.apply(plural, {
        apiVersion: ours.apiVersion,
        kind: ours.kind,
        metadata: { name: each, namespace, labels },
        spec: { endpoints: [{ ip: '198.51.100.1' }] },
      });
    }
    await league.lead('bruges.example');
    await league.settle(10_000);
    const user = 'web south 198.51.100.1';
    assert.deepEqual(addressesIn(league.north), ['web north 10.1.0.1', user, user]);
    await league.north.remove('services', 'shop/web');
    await league.south.remove('services', 'shop/web');
    await league.settle(10_000);
    assert.deepEqual(addressesIn(league.north), [user, user]);
    assert.deepEqual(league.refusals, []);
  });

  test('give up the name of one to ours when a user deletes it', async () => {
    const league = await setUp();
    const die = await league.lead();
    const ours = firstIn(league);
    await die();
    const { name, namespace = '' } = ours.metadata;
    await league.north.remove(plural, keyOf(ours));
    await league.north.apply(plural, {
      apiVersion: ours.apiVersion,
      kind: ours.kind,
      metadata: { name, namespace },
      spec: {},
    });
    await league.lead('bruges.example');
    await league.settle(10_000);
    assert.deepEqual(addressesIn(league.north), ['web north 10.1.0.1']);
    await league.north.remove(plural, keyOf(ours));
    await league.settle(10_000);
    assert.deepEqual(addressesIn(league.north), both);
  });

  test('go when a user takes over the copy', async () => {
    const league = await setUp();
    await league.lead();
    await league.north.patch('services', `${copyNamespace}/web`, {
      spec: { selector: { app: 'own' } },
    });
    await league.settle(10_000);
    assert.deepEqual(addressesIn(league.north), []);
    assert.deepEqual(addressesIn(league.west), both);
    assert.deepEqual(league.refusals, []);
  });

  test('cannot get an epoch from a user', async () => {
    const league = await setUp();
    await league.lead();
    for (const key of [epochAnnotation, deletingAnnotation]) {
      await assert.rejects(
        league.north.patch(plural, keyOf(firstIn(league)), {
          metadata: { annotations: { [key]: '99' } },
        }),
        /only sites add, change or remove epochs/,
      );
    }
  });
});

test('a member that leaves loses the ExternalEntities of sites, and no others', async () => {
  const league = await setUp();
  const die = await league.lead();
  const { apiVersion, kind, metadata } = firstIn(league);
  const { namespace = '' } = metadata;
  await league.north.apply(plural, {
    apiVersion,
    kind,
    metadata: { name: 'mine', namespace },
    spec: { endpoints: [{ ip: '198.51.100.1' }] },
  });
  await die();
  const client = new MemoryKubeClient({ cluster: league.north.kube, user: 'site:lubeck.example' });
  const removed = removeOwnCopies({
    client,
    epoch: 1_000_000,
    signal: new AbortController().signal,
    mayWrite: () => true,
  });
  await league.settle(10_000);
  await removed;
  assert.deepEqual(
    entitiesIn(league.north).map((each) => each.metadata.name),
    ['mine'],
  );
  assert.deepEqual(league.refusals, []);
});
