import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { silentLog } from '../../core/log/test-log.ts';
import type { Controller, ControllerHost } from '../../core/reconcile/controller.ts';
import { TestCluster } from '../members/test-cluster.ts';
import { testLeague } from '../members/test-league.ts';
import { MemberControllers } from './member-controllers.ts';

/** Ends of controllers wait until `release`. */
function testHost() {
  const running = new Set<string>();
  const events: string[] = [];
  const waiting: (() => void)[] = [];
  let holds = false;
  const host: ControllerHost = {
    start: ({ name }) => {
      assert.ok(!running.has(name), 'names are unique');
      running.add(name);
      events.push(`+${name}`);
      return {
        stop: async () => {
          events.push(`-${name}`);
          if (holds) await new Promise<void>((resolve) => waiting.push(resolve));
          running.delete(name);
        },
      };
    },
  };
  return {
    host,
    running,
    events,
    hold: () => {
      holds = true;
    },
    release: () => {
      holds = false;
      for (const go of waiting.splice(0)) go();
    },
  };
}

async function setUp(...ids: readonly string[]) {
  const league = testLeague(ids);
  const hosted = testHost();
  const controllers = new MemberControllers({
    members: league.members,
    host: hosted.host,
    log: silentLog,
    controllerOf: ({ clusterID }): Controller => ({
      name: clusterID,
      sources: [],
      reconcile: async () => undefined,
    }),
    leadershipOf: () => ({ campaign: async () => undefined }),
  });
  league.list(...ids);
  league.members.start();
  await league.clock.advance(0);
  const cluster = (id: string) => league.clusters.get(`https://${id}.example`) as TestCluster;
  return { ...league, ...hosted, controllers, cluster };
}

describe('the controller of a member', () => {
  test('starts when the member is read, and not twice', async () => {
    const { events, members } = await setUp('app1', 'app2');
    assert.deepEqual(events.toSorted(), ['+app1', '+app2']);
    members.get('app1')?.sawLease({ holder: 'x', epoch: 1 }, 'm');
    assert.equal(events.length, 2);
  });

  test('goes on while the member is unreachable', async () => {
    const { clock, events, cluster } = await setUp('app1');
    cluster('app1').goAway();
    await clock.advance(60_000);
    assert.deepEqual(events, ['+app1']);
  });

  test('stops when the member is refused, and starts again when it is right', async () => {
    const { clock, events, cluster } = await setUp('app1');
    cluster('app1').claim('id.k8s.io', 'other');
    await clock.advance(0);
    assert.deepEqual(events, ['+app1', '-app1']);
    cluster('app1').claim('id.k8s.io', 'app1');
    await clock.advance(0);
    assert.deepEqual(events, ['+app1', '-app1', '+app1']);
  });

  test('stops when the member leaves, before its objects are forgotten', async () => {
    const { clock, list, events, running, members } = await setUp('app1', 'app2');
    const services = members.get('app1')?.services;
    let wasRead: boolean | undefined;
    members.onChange((id) => {
      if (id === 'app1') wasRead ??= services?.isSynced;
    });
    list('app2');
    await clock.advance(0);
    assert.deepEqual([...running], ['app2']);
    assert.equal(events.at(-1), '-app1');
    assert.equal(wasRead, true);
  });

  test('of a new connection waits for the end of the one before', async () => {
    const { clock, clusters, list, events, hold, release } = await setUp('app1');
    hold();
    clusters.set('https://moved.example', new TestCluster('app1'));
    list({ clusterID: 'app1', server: 'https://moved.example' });
    await clock.advance(0);
    assert.deepEqual(events, ['+app1', '-app1']);
    release();
    await clock.advance(0);
    assert.deepEqual(events, ['+app1', '-app1', '+app1']);
  });

  test('ends with the league', async () => {
    const { clock, controllers, running, cluster } = await setUp('app1', 'app2');
    await controllers.stop();
    cluster('app1').claim('id.k8s.io', 'other');
    cluster('app1').claim('id.k8s.io', 'app1');
    await clock.advance(0);
    assert.deepEqual([...running], []);
  });
});
