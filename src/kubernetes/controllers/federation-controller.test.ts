import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { testRuntime } from '../../core/reconcile/test-runtime.ts';
import { openStore } from '../../core/store/open.ts';
import type { LeavingView } from '../leaving/leaving-members.ts';
import type { FederationStatus } from '../members/federation-status.ts';
import { paths, type TestCluster } from '../members/test-cluster.ts';
import { testLeague } from '../members/test-league.ts';
import { federationController } from './federation-controller.ts';

async function setUp(ids: readonly string[] = ['app1']) {
  const league = testLeague(ids);
  const { clock, home, members } = league;
  const store = await openStore({ driver: 'memory' }, { clock });
  const runtime = testRuntime({
    clock,
    random: new SeededRandom('status'),
    metrics: new MetricsRegistry(),
    store,
  });
  league.list('home', ...ids);
  members.start();
  const leaving: LeavingView[] = [];
  const listeners = new Set<() => void>();
  runtime.start(
    federationController({
      members,
      leaving: {
        list: () => leaving,
        onChange: (listener) => {
          listeners.add(listener);
          return () => void listeners.delete(listener);
        },
      },
      home,
      clock,
    }),
  );
  await clock.advance(5000);
  const status = (): FederationStatus =>
    (home.find(paths.federations, 'federation') as { readonly status?: FederationStatus }).status ??
    {};
  const writes = (): number => home.requests.filter((each) => each.startsWith('PUT')).length;
  const setLeaving = (...views: readonly LeavingView[]): void => {
    leaving.splice(0, leaving.length, ...views);
    for (const listener of listeners) listener();
  };
  return { ...league, status, writes, setLeaving };
}

const readyOf = ({ conditions = [] }: FederationStatus) =>
  conditions.find(({ type }) => type === 'Ready');

describe('the controller of Federation', () => {
  test('writes the state of all members, and then nothing while nothing changes', async () => {
    const { clock, status, writes } = await setUp();
    assert.deepEqual(
      status().members?.map(({ clusterID, state }) => [clusterID, state]),
      [
        ['app1', 'Ready'],
        ['home', 'Ready'],
      ],
    );
    assert.equal(readyOf(status())?.status, 'True');
    const before = writes();
    await clock.advance(3_600_000);
    assert.equal(writes(), before);
  });

  test('writes once for each change', async () => {
    const { clock, clusters, status, writes, members } = await setUp();
    const before = writes();
    (clusters.get('https://app1.example') as TestCluster).goAway();
    await clock.advance(15_000);
    assert.equal(status().members?.[0]?.reason, 'Unreachable');
    assert.equal(readyOf(status())?.reason, 'MembersUnreachable');
    assert.equal(writes(), before + 1);
    members.get('home')?.sawLease({ holder: 'lubeck.example/h/1/u', epoch: 7 }, 'a');
    await clock.advance(2000);
    members.get('home')?.sawLease({ holder: 'lubeck.example/h/1/u', epoch: 7 }, 'b');
    await clock.advance(2000);
    assert.equal(writes(), before + 2);
    const { leader, epoch } = status().members?.[1] ?? {};
    assert.deepEqual([leader, epoch], ['lubeck.example/h/1/u', 7]);
  });

  test('shows clusters that left until they are gone', async () => {
    const { clock, status, setLeaving } = await setUp();
    assert.equal('leaving' in status(), false);
    setLeaving({ clusterID: 'app9', sinceMs: 0, reason: 'Unreachable', message: 'x'.repeat(5000) });
    await clock.advance(2000);
    assert.deepEqual(status().leaving, [
      {
        clusterID: 'app9',
        since: '1970-01-01T00:00:00Z',
        reason: 'Unreachable',
        message: 'x'.repeat(4096),
      },
    ]);
    setLeaving();
    await clock.advance(2000);
    assert.equal('leaving' in status(), false);
  });

  test('does not write again what an older CRD drops', async () => {
    const { clock, home, writes, setLeaving } = await setUp();
    const replace = home.replace.bind(home);
    home.replace = (path, object) => {
      const { status, ...rest } = object as { readonly status: FederationStatus };
      const { leaving: _, ...known } = status;
      return replace(path, { ...rest, status: known });
    };
    const before = writes();
    setLeaving({ clusterID: 'app9', sinceMs: 0, reason: 'Unreachable', message: 'x' });
    await clock.advance(60_000);
    assert.equal(writes(), before + 1);
  });

  test('repairs what another one wrote, at most once a second', async () => {
    const { clock, home, status, writes } = await setUp();
    const before = writes();
    for (let round = 0; round < 50; round++) {
      const found = home.find(paths.federations, 'federation') as object;
      home.put(paths.federations, { ...found, status: { members: [] } });
      await clock.advance(100);
    }
    await clock.advance(2000);
    assert.equal(status().members?.length, 2);
    assert.ok(writes() - before <= 7, String(writes() - before));
  });

  test('writes nothing into a cluster without Federation, or that is no supervisor', async () => {
    const { clock, home, writes } = await setUp();
    home.remove(paths.federations, 'federation');
    await clock.advance(2000);
    const before = writes();
    home.claim('supervisor.hansa.dev', 'false');
    await clock.advance(60_000);
    assert.equal(writes(), before);
  });
});
