// The controllers that report and show enforcement, on one replica and on two over one database.

import assert from 'node:assert/strict';
import { suite, type TestContext, test } from 'node:test';
import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { silentLog } from '../../core/log/test-log.ts';
import {
  EnforcementPoints,
  type RemoteEnforcement,
  type RemoteState,
} from '../../core/plane/enforcement.ts';
import { MemoryDatabase } from '../../core/store/memory/driver.ts';
import { openStore } from '../../core/store/open.ts';
import type { Store } from '../../core/store/store.ts';
import { auditWrites } from '../../server/audit/audit-writes.ts';
import { resourceClient } from '../../server/resources/resource-client.ts';
import { ResourceWriter } from '../../server/resources/writer.ts';
import { enforcementController } from '../controllers/enforcement-controller.ts';
import { enforcementReportController } from '../controllers/enforcement-report-controller.ts';
import { peerLines } from '../peers/peer-rows.ts';
import { LaggingPeers } from './lagging-peers.ts';
import { goneAfterMs, Replicas, replicasCollection } from './replicas.ts';
import { reportsCollection } from './reports.ts';

const point = (name: string, refuses: boolean) => ({ name, refuses: () => refuses });
const at = '2026-01-01T00:00:00Z';
const by = { controller: 'test' };
const name = 'bruges.example';

test('points and kinds of remote programs have names of their own', () => {
  const points = new EnforcementPoints();
  const take = points.register(point('join', true));
  points.register(point('api', true));
  assert.throws(() => points.register(point('join', true)), /two enforcement points/);
  assert.deepEqual(
    points.all.map((one) => one.name),
    ['api', 'join'],
  );
  take();
  points.register(point('join', false));
  const remote = remoteAgents();
  const leave = points.registerRemote(remote);
  assert.throws(() => points.registerRemote(remote), /each agent/);
  leave();
  points.registerRemote(remote);
});

suite('peer show', () => {
  const linesOf = (enforcement: object[]) =>
    peerLines(
      {
        name,
        state: 'suspended',
        url: 'https://bruges.example:8443',
        offers: [],
        enforcement: enforcement as never,
      },
      0,
    ).find(([label]) => label === 'enforced by')?.[1];

  test('names each point', () => {
    const rows = [
      { point: 'api', state: 'enforced', since: at },
      { point: 'join', state: 'pending', since: at },
    ];
    assert.equal(linesOf(rows), `api since ${at}; join (pending since ${at})`);
  });

  test('names what is pending, and counts the rest, where there are many', () => {
    const rows = Array.from({ length: 20 }, (_, index) => ({
      point: `agent/${String(index).padStart(2, '0')}`,
      state: index === 3 ? 'pending' : 'enforced',
      since: at,
    }));
    assert.equal(linesOf(rows), `agent/03 (pending since ${at}); 19 enforced`);
    const pending = rows.map((row) => ({ ...row, state: 'pending' }));
    assert.match(linesOf(pending) ?? '', /agent\/15 .*; 4 more pending$/);
  });
});

function remoteAgents() {
  const state = {
    connected: new Map<string, boolean>(),
    others: new Map<string, RemoteState>(),
    listeners: new Set<() => void>(),
  };
  const remote: RemoteEnforcement = {
    kind: 'agent',
    connected: () => state.connected,
    others: () => state.others,
    onChange: (listener) => {
      state.listeners.add(listener);
      return () => state.listeners.delete(listener);
    },
  };
  return Object.assign(remote, { state });
}

/** One replica of a site, with points of its own. */
async function replica(
  t: TestContext,
  { host, clock, database }: { host: string; clock: VirtualClock; database: MemoryDatabase },
) {
  const store = await openStore({ driver: 'memory', database }, { clock });
  const writer = new ResourceWriter({
    store,
    clock,
    random: new SeededRandom(host),
    admit: () => [],
    auditRow: auditWrites({ record: () => ({ encode: () => Buffer.from('{}') }) }),
  });
  const peers = resourceClient<FederationPeer>(federationPeerKind, { store, writer, clock });
  const replicas = new Replicas({ store, clock, log: silentLog, host, dataDir: '/data' });
  await replicas.start();
  const enforcement = new EnforcementPoints();
  const refusing = new Map([['api', true]]);
  for (const each of ['api', 'join']) {
    enforcement.register({ name: each, refuses: () => refusing.get(each) ?? true });
  }
  const agents = remoteAgents();
  enforcement.registerRemote(agents);
  const parts = { store, clock, resources: (() => peers) as never, enforcement, replicas };
  const reports = enforcementReportController(parts);
  const shows = enforcementController(parts);
  t.after(() => store.close());
  return {
    store,
    peers,
    replicas,
    refusing,
    agents: agents.state,
    /** Other replicas find changes when they ask the database. */
    sync: () => store.leases.list(),
    report: () => reports.reconcile(name, {} as never),
    show: async () => {
      await shows.reconcile(name, {} as never);
      const { status } = (await peers.get(name)) as FederationPeer;
      return status?.enforcement?.map((row) => `${row.point} ${row.state}`);
    },
  };
}

async function site(t: TestContext) {
  const place = { clock: new VirtualClock(), database: new MemoryDatabase() };
  const hub = await replica(t, { ...place, host: 'hub' });
  await hub.peers.create(
    { name, spec: { url: 'https://bruges.example:8443', desiredState: 'active' } },
    by,
  );
  const wish = (desiredState: 'active' | 'suspended') =>
    hub.peers.patchSpec(name, ({ spec }) => ({ ...spec, desiredState }), by);
  return { ...place, hub, wish, another: () => replica(t, { ...place, host: 'pier' }) };
}

suite('the status of a stopped peer', () => {
  test('tells when a point that lagged has caught up, and is cleared when the peer resumes', async (t) => {
    const { hub, wish } = await site(t);
    await hub.report();
    assert.equal(await hub.show(), undefined);
    await wish('suspended');
    hub.refusing.set('join', false);
    assert.deepEqual(await hub.report(), { requeueAfterMs: 100 });
    assert.deepEqual(await hub.show(), ['api enforced', 'join pending']);
    hub.refusing.set('join', true);
    assert.equal(await hub.report(), undefined);
    assert.deepEqual(await hub.show(), ['api enforced', 'join enforced']);
    const { revision } = hub.store;
    await hub.report();
    await hub.show();
    assert.equal(hub.store.revision, revision);
    await wish('active');
    await hub.report();
    assert.equal(await hub.show(), undefined);
    assert.equal(hub.store.count(reportsCollection), 0);
  });

  test('names the agents that are pending, also those that are not connected', async (t) => {
    const { hub, wish } = await site(t);
    await wish('suspended');
    hub.agents.connected.set('crane', true);
    hub.agents.others.set('barge', 'unknown');
    await hub.report();
    assert.deepEqual(await hub.show(), [
      'agent/barge pending',
      'agent/crane enforced',
      'api enforced',
      'join enforced',
    ]);
    hub.agents.others.delete('barge');
    hub.agents.connected.set('barge', true);
    await hub.report();
    assert.deepEqual((await hub.show())?.slice(0, 2), [
      'agent/barge enforced',
      'agent/crane enforced',
    ]);
  });

  test('has the rows of every replica, and a replica that has not reported is pending', async (t) => {
    const { hub, wish, another } = await site(t);
    await wish('suspended');
    await hub.report();
    const pier = await another();
    await hub.sync();
    assert.deepEqual(await hub.show(), [
      'api@hub enforced',
      'join@hub enforced',
      'replica/pier pending',
    ]);
    pier.refusing.set('api', false);
    await pier.report();
    await hub.sync();
    const rows = [
      'api@hub enforced',
      'api@pier pending',
      'join@hub enforced',
      'join@pier enforced',
    ];
    assert.deepEqual(await hub.show(), rows);
    // The report of one never replaces that of the other.
    await hub.report();
    assert.deepEqual(await hub.show(), rows);
    await pier.replicas.stop();
    await hub.sync();
    assert.deepEqual(await hub.show(), ['api enforced', 'join enforced']);
    assert.equal(hub.store.count(reportsCollection), 1);
  });

  test('shows a replica that died as pending, and drops it after ten minutes', async (t) => {
    const { clock, hub, wish } = await site(t);
    await wish('suspended');
    await hub.report();
    await putReplica(hub.store, 'dead', 'pier');
    await clock.advance(goneAfterMs - 60_000);
    assert.deepEqual(await hub.show(), [
      'api@hub enforced',
      'join@hub enforced',
      'replica/pier pending',
    ]);
    await clock.advance(120_000);
    assert.deepEqual(await hub.show(), ['api enforced', 'join enforced']);
  });

  test('leaves no report when the peer is deleted', async (t) => {
    const { hub, wish } = await site(t);
    await wish('suspended');
    await hub.report();
    await hub.peers.delete(name, by);
    await hub.report();
    assert.equal(hub.store.count(reportsCollection), 0);
  });
});

suite('a replica', () => {
  test('that starts again keeps its record, writes nothing while it is alone, and differs by its folder', async (t) => {
    const clock = new VirtualClock();
    const database = new MemoryDatabase();
    const store = await openStore({ driver: 'memory', database }, { clock });
    t.after(() => store.close());
    const parts = { store, clock, log: silentLog, host: 'hub' };
    const first = new Replicas({ ...parts, dataDir: '/a' });
    await first.start();
    const { revision } = store;
    await clock.advance(10 * goneAfterMs);
    await first.stop();
    const again = new Replicas({ ...parts, dataDir: '/a' });
    await again.start();
    assert.equal(store.revision, revision);
    assert.equal(again.id, first.id);
    const other = new Replicas({ ...parts, dataDir: '/b' });
    await other.start();
    assert.deepEqual(
      again.all.map(({ name: its }) => its).toSorted(),
      [first.id, other.id].map((id) => `hub-${id.slice(0, 4)}`).toSorted(),
    );
    await again.stop();
    assert.deepEqual(other.all, [{ id: other.id, name: 'hub' }]);
    await other.stop();
  });

  test('that renews its record stays, and one that was killed goes', async (t) => {
    const clock = new VirtualClock();
    const store = await openStore({ driver: 'memory' }, { clock });
    t.after(() => store.close());
    const parts = { store, clock, log: silentLog, dataDir: '/data' };
    const [hub, pier] = ['hub', 'pier'].map((host) => new Replicas({ ...parts, host })) as [
      Replicas,
      Replicas,
    ];
    await hub.start();
    await pier.start();
    await putReplica(store, 'dead', 'quay');
    let told = 0;
    hub.onChange(() => told++);
    await clock.advance(2 * goneAfterMs);
    assert.deepEqual(hub.all.map((one) => one.name).toSorted(), ['hub', 'pier']);
    assert.ok(told > 0);
    await pier.stop();
    assert.equal(store.count(replicasCollection), 1);
    await hub.stop();
  });
});

/** The record of a replica whose process does not run. */
async function putReplica(store: Store, id: string, host: string): Promise<void> {
  const bytes = Buffer.from(JSON.stringify({ host, beat: 1 }));
  await store.commit({
    put: [{ collection: replicasCollection, name: id, encode: () => bytes }],
  });
}

test('changes outside of the store wake the controllers for peers that lag, and for no others', async (t) => {
  const { clock, hub, wish } = await site(t);
  const changes = new Set<() => void>();
  const source = new LaggingPeers({
    store: hub.store,
    clock,
    changes: () => [
      (listener) => {
        changes.add(listener);
        return () => changes.delete(listener);
      },
    ],
  });
  const added: string[] = [];
  const running = source.start({ add: (key) => added.push(key), ended: () => undefined });
  const change = async () => {
    for (const listener of changes) for (let times = 0; times < 5; times++) listener();
    await clock.advance(1000);
    return added.splice(0);
  };
  assert.deepEqual(await change(), []);
  await wish('suspended');
  assert.deepEqual(await change(), [name]);
  hub.refusing.set('join', false);
  await hub.report();
  await hub.show();
  assert.deepEqual(await change(), [name]);
  hub.refusing.set('join', true);
  await hub.report();
  await hub.show();
  assert.deepEqual(await change(), []);
  running.stop();
  assert.equal(changes.size, 0);
});
