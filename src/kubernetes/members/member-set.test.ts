import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { timestamp } from '../../api/object.ts';
import { admittedMembers } from './read-federation.ts';
import { paths, TestCluster } from './test-cluster.ts';
import { clusterSet, testLeague } from './test-league.ts';

async function started(ids: readonly string[], ...listed: readonly string[]) {
  const league = testLeague(ids);
  league.list(...listed);
  league.members.start();
  await league.clock.advance(0);
  return league;
}

const of = (league: ReturnType<typeof testLeague>, id: string): TestCluster =>
  league.clusters.get(`https://${id}.example`) as TestCluster;

const service = (name: string, extra: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, namespace: 'shop', annotations: { 'svc.federated.hansa.dev': name } },
  spec: { ports: [{ port: 80 }] },
  ...extra,
});

function readFederationMembers(): ReadonlyMap<string, string> {
  const ids = ['app1', 'app2', 'app3'].map((clusterID) => ({ clusterID }));
  const members = [
    { clusterID: 'app1', admitted: '2020-01-01T00:00:00Z' },
    { clusterID: 'app2', admitted: 'long ago' },
    7,
  ];
  const status = { members } as never;
  return admittedMembers(ids, { status }, new Map([['app2', 'before']]), 0);
}

describe('the members of a cluster set', () => {
  test('are those that Federation lists, and are read', async () => {
    const league = await started(['app1', 'app2'], 'home', 'app1', 'app2');
    assert.deepEqual(
      league.members.list().map(({ clusterID, state }) => [clusterID, state.state]),
      [
        ['home', 'Ready'],
        ['app1', 'Ready'],
        ['app2', 'Ready'],
      ],
    );
  });

  test('are found by the federated Service that their Services belong to', async () => {
    const league = await started(['app1'], 'app1');
    of(league, 'app1').put(paths.services, service('web'));
    await league.clock.advance(0);
    const found = league.members.get('app1')?.services.byIndex('federated', 'shop/web');
    assert.deepEqual(
      found?.map(({ metadata }) => metadata.name),
      ['web'],
    );
  });

  test('are not connected while the home cluster is no supervisor', async () => {
    const league = testLeague(['app1']);
    league.home.remove(paths.claims, 'supervisor.hansa.dev');
    league.list('app1');
    league.members.start();
    await league.clock.advance(1000);
    assert.deepEqual(league.members.list(), []);
    assert.deepEqual(of(league, 'app1').requests, []);
    league.home.claim('supervisor.antreaplus.vmware-tanzu.com', 'true');
    await league.clock.advance(0);
    assert.equal(league.stateOf('app1'), 'Ready');
  });

  test('are disconnected when the home cluster stops to be a supervisor', async () => {
    const league = await started(['app1'], 'app1');
    league.home.claim('supervisor.hansa.dev', 'false');
    await league.clock.advance(0);
    assert.deepEqual(league.members.list(), []);
    assert.equal(of(league, 'app1').openWatches, 0);
  });

  test('leave when Federation no longer lists them: watches end and connections close', async () => {
    const league = await started(['app1', 'app2'], 'app1', 'app2');
    league.list('app2');
    await league.clock.advance(0);
    assert.equal(league.stateOf('app1'), undefined);
    assert.deepEqual([of(league, 'app1').openWatches, of(league, 'app1').isClosed], [0, true]);
    assert.equal(league.stateOf('app2'), 'Ready');
    assert.equal(league.heard.at(-1), 'app1');
  });

  test('keep their connection when other settings change', async () => {
    const league = await started(['app1'], 'app1');
    const before = league.members.get('app1');
    league.list({ clusterID: 'app1', routable: true });
    await league.clock.advance(0);
    assert.equal(league.members.get('app1'), before);
    assert.equal(before?.settings.routable, true);
    assert.equal(league.heard.at(-1), 'app1');
  });

  test('are admitted when they are first listed, or when the status of Federation says', async () => {
    const league = await started(['app1', 'app2'], 'app1');
    const admitted = (id: string): string | undefined => league.members.get(id)?.admittedAt;
    const first = timestamp(league.clock.now());
    await league.clock.advance(60_000);
    league.list('app1', 'app2');
    await league.clock.advance(0);
    assert.deepEqual([admitted('app1'), admitted('app2')], [first, timestamp(league.clock.now())]);
    const known = readFederationMembers();
    assert.equal(known.get('app1'), '2020-01-01T00:00:00Z');
    assert.equal(known.get('app2'), 'before', 'a status that cannot be read says nothing');
    assert.equal(known.get('app3'), '1970-01-01T00:00:00Z');
  });

  test('get another connection when their server changes', async () => {
    const league = await started(['app1'], 'app1');
    const moved = new TestCluster('app1');
    league.clusters.set('https://moved.example', moved);
    league.list({ clusterID: 'app1', server: 'https://moved.example' });
    await league.clock.advance(0);
    assert.equal(league.members.get('app1')?.client, moved);
    assert.equal(of(league, 'app1').isClosed, true);
    assert.equal(league.stateOf('app1'), 'Ready');
  });

  test('stay while the home cluster is away', async () => {
    const league = await started(['app1'], 'app1');
    league.home.goAway();
    await league.clock.advance(600_000);
    assert.equal(league.stateOf('app1'), 'Ready');
    assert.match(String(league.members.home.failure), /connection refused/);
  });

  test('go with the set: nothing is left open', async () => {
    const league = await started(['app1'], 'home', 'app1');
    league.members.stop();
    await league.clock.advance(60_000);
    assert.deepEqual([league.home.openWatches, of(league, 'app1').openWatches], [0, 0]);
  });
});

describe('a member is refused', () => {
  const refused = async (change: (cluster: TestCluster) => void, id = 'app1') => {
    const league = testLeague([id, 'app2']);
    change(of(league, id));
    league.list('app1', 'app2');
    league.members.start();
    await league.clock.advance(0);
    return league;
  };

  test('if it claims another ID, and is used when it claims the right one', async () => {
    const league = await refused((cluster) => cluster.claim('id.k8s.io', 'other'));
    assert.equal(league.stateOf('app1'), 'Refused ClusterIDMismatch');
    assert.match(String(league.members.get('app1')?.state.message), /"other".*Correct the server/);
    assert.ok(!of(league, 'app1').requests.some((each) => each.includes('services')));
    assert.equal(league.stateOf('app2'), 'Ready');
    of(league, 'app1').claim('id.k8s.io', 'app1');
    await league.clock.advance(0);
    assert.equal(league.stateOf('app1'), 'Ready');
  });

  test('if it claims no ID, or two', async () => {
    const none = await refused((cluster) => cluster.remove(paths.claims, 'id.k8s.io'));
    assert.equal(none.stateOf('app1'), 'Refused ClusterIDMissing');
    const two = await refused((cluster) => cluster.claim('id.k8s.io', 'app9', 'second'));
    assert.equal(two.stateOf('app1'), 'Refused ClusterIDAmbiguous');
  });

  test('if its claim or its Federation names another cluster set', async () => {
    const claimed = await refused((cluster) => cluster.claim('clusterSet.k8s.io', 'other'));
    assert.equal(claimed.stateOf('app1'), 'Refused ClusterSetMismatch');
    const federated = await refused((cluster) =>
      cluster.put(paths.federations, {
        apiVersion: 'clusters.hansa.dev/v1alpha1',
        kind: 'Federation',
        metadata: { name: 'federation' },
        spec: { clusterSet: 'other' },
      }),
    );
    assert.equal(federated.stateOf('app1'), 'Refused ClusterSetMismatch');
    const right = await refused((cluster) => cluster.claim('clusterSet.k8s.io', clusterSet));
    assert.equal(right.stateOf('app1'), 'Ready');
  });

  test('if the sites that lead it have another system namespace', async () => {
    const league = await refused((cluster) =>
      cluster.claim('namespace.clusters.hansa.dev', 'other-system'),
    );
    assert.equal(league.stateOf('app1'), 'Refused NamespaceMismatch');
    const { message = '' } = league.members.get('app1')?.state ?? {};
    assert.match(
      message,
      /"other-system".* "hansa-system"\. .*--kubernetes-namespace other-system/,
    );
    of(league, 'app1').claim('namespace.clusters.hansa.dev', 'hansa-system');
    await league.clock.advance(0);
    assert.equal(league.stateOf('app1'), 'Ready');
  });

  test('if it changes its ID later: its objects are forgotten', async () => {
    const league = await started(['app1'], 'app1');
    of(league, 'app1').put(paths.services, service('web'));
    await league.clock.advance(0);
    of(league, 'app1').claim('id.k8s.io', 'home');
    await league.clock.advance(0);
    assert.equal(league.stateOf('app1'), 'Refused ClusterIDMismatch');
    assert.deepEqual([...(league.members.get('app1')?.services.objects() ?? [])], []);
    assert.equal(league.members.get('app1')?.isRead, false);
  });
});

describe('a member is unreachable', () => {
  test('after ten seconds without its API server, and ready again after it came back', async () => {
    const league = await started(['app1', 'app2'], 'app1', 'app2');
    const { clock, members } = league;
    const since = { sinceMs: clock.now(), sinceMonotonicMs: clock.monotonic() };
    of(league, 'app1').goAway();
    await league.clock.advance(9000);
    assert.equal(league.stateOf('app1'), 'Ready');
    await league.clock.advance(1500);
    assert.equal(league.stateOf('app1'), 'Unreachable Unreachable');
    assert.partialDeepStrictEqual(members.get('app1')?.state, since);
    assert.equal(league.members.get('app1')?.isRead, true);
    const changes = league.heard.length;
    await league.clock.advance(300_000);
    assert.partialDeepStrictEqual(members.get('app1')?.state, since);
    assert.equal(league.heard.length, changes, 'each attempt is no change');
    of(league, 'app1').comeBack();
    await league.clock.advance(31_000);
    assert.equal(league.stateOf('app1'), 'Ready');
    assert.equal(league.stateOf('app2'), 'Ready');
  });

  test('until its Lease answers again: then it is read at once', async () => {
    const league = await started(['app1'], 'app1');
    const member = league.members.get('app1');
    of(league, 'app1').goAway();
    member?.missedLease(new Error('no answer'));
    await league.clock.advance(300_000);
    of(league, 'app1').comeBack();
    member?.sawLease({ holder: 'x', epoch: 3 }, 'mark');
    await league.clock.advance(0);
    assert.equal(league.stateOf('app1'), 'Ready');
  });

  test('until it no longer refuses, which an API server does for a while after its start', async () => {
    for (const status of [401, 403, 404, 500]) {
      const league = await started(['app1'], 'app1');
      const member = league.members.get('app1');
      of(league, 'app1').goAway();
      member?.missedLease(new Error('no answer'));
      await league.clock.advance(300_000);
      of(league, 'app1').comeBack();
      of(league, 'app1').refusals.set(paths.services, status);
      member?.sawLease({ holder: 'x', epoch: 3 }, 'mark');
      await league.clock.advance(5000);
      assert.match(String(league.stateOf('app1')), /^Unreachable/);
      of(league, 'app1').refusals.clear();
      member?.sawLease({ holder: 'x', epoch: 3 }, 'mark');
      await league.clock.advance(0);
      assert.equal(league.stateOf('app1'), 'Ready');
    }
  });

  test('does not make an API server that refuses for longer busier', async () => {
    const league = await started(['app1'], 'app1');
    const member = league.members.get('app1');
    of(league, 'app1').goAway();
    member?.missedLease(new Error('no answer'));
    await league.clock.advance(300_000);
    of(league, 'app1').comeBack();
    of(league, 'app1').refusals.set(paths.services, 403);
    const attempts = async (seconds: number): Promise<number> => {
      const before = of(league, 'app1').requests.length;
      for (let passed = 0; passed < seconds; passed++) {
        member?.sawLease({ holder: 'x', epoch: 3 }, 'mark');
        await league.clock.advance(1000);
      }
      const { requests } = of(league, 'app1');
      return requests.slice(before).filter((each) => each.endsWith(paths.services)).length;
    };
    assert.ok((await attempts(30)) <= 31);
    assert.ok((await attempts(300)) <= 20);
  });

  test('keeps what was read of it', async () => {
    const league = await started(['app1'], 'app1');
    of(league, 'app1').put(paths.services, service('web'));
    await league.clock.advance(0);
    of(league, 'app1').goAway();
    await league.clock.advance(600_000);
    assert.equal(league.members.get('app1')?.services.byIndex('federated', 'shop/web').length, 1);
  });

  test('if it never answered', async () => {
    const league = testLeague(['app1']);
    of(league, 'app1').goAway();
    league.list('app1');
    league.members.start();
    await league.clock.advance(0);
    assert.equal(league.stateOf('app1'), 'Connecting');
    await league.clock.advance(11_000);
    assert.equal(league.stateOf('app1'), 'Unreachable Unreachable');
  });

  for (const [status, reason] of [
    [401, 'Unauthorized'],
    [403, 'Forbidden'],
    [500, 'Failing'],
  ] as const) {
    test(`if it answers ${status} for one collection: ${reason}`, async () => {
      const league = testLeague(['app1']);
      of(league, 'app1').refusals.set(paths.nodes, status);
      league.list('app1');
      league.members.start();
      await league.clock.advance(12_000);
      assert.equal(league.stateOf('app1'), `Unreachable ${reason}`);
      of(league, 'app1').refusals.clear();
      await league.clock.advance(31_000);
      assert.equal(league.stateOf('app1'), 'Ready');
    });
  }

  test('if it has no CRDs yet, with how to install them', async () => {
    const league = testLeague(['app1']);
    of(league, 'app1').refusals.set('/apis/clusters.hansa.dev', 404);
    league.list('app1');
    league.members.start();
    await league.clock.advance(12_000);
    assert.equal(league.stateOf('app1'), 'Unreachable NotInstalled');
    assert.match(String(league.members.get('app1')?.state.message), /hansa cluster join app1/);
  });

  test('if it loses its ID after it was read, as when its CRDs are deleted: its objects stay', async () => {
    const league = await started(['app1'], 'app1');
    of(league, 'app1').put(paths.services, service('web'));
    await league.clock.advance(0);
    of(league, 'app1').remove(paths.claims, 'id.k8s.io');
    await league.clock.advance(11_000);
    assert.equal(league.stateOf('app1'), 'Unreachable ClusterIDMissing');
    assert.equal(league.members.get('app1')?.services.byIndex('federated', 'shop/web').length, 1);
    of(league, 'app1').claim('id.k8s.io', 'app1');
    await league.clock.advance(0);
    assert.equal(league.stateOf('app1'), 'Ready');
  });

  test('if its Lease cannot be read, although watches are only silent', async () => {
    const league = await started(['app1'], 'app1');
    const member = league.members.get('app1');
    member?.missedLease(new Error('no answer'));
    await league.clock.advance(11_000);
    assert.equal(league.stateOf('app1'), 'Unreachable Failing');
    member?.sawLease({ holder: 'x', epoch: 3 }, 'mark');
    assert.equal(league.stateOf('app1'), 'Ready');
    assert.deepEqual(member?.leader, { holder: 'x', epoch: 3 });
  });

  test('if nobody says where it is', async () => {
    const league = await started([], 'app1');
    assert.equal(league.stateOf('app1'), 'Unreachable NoServer');
    await assert.rejects(league.members.get('app1')?.client.get('/api') as Promise<never>, {
      code: 'HANSA_UNAVAILABLE',
    });
  });
});

describe('a member is ready', () => {
  test('without the CRD NativeService, and without the right to read its Federation', async () => {
    const league = testLeague(['app1']);
    of(league, 'app1').refusals.set(paths.nativeServices, 404);
    of(league, 'app1').refusals.set(paths.federations, 403);
    league.list('app1');
    league.members.start();
    await league.clock.advance(60_000);
    assert.equal(league.stateOf('app1'), 'Ready');
    assert.equal(league.members.get('app1')?.isRead, true);
  });

  test('still, after its CRDs were deleted: that is no deletion by a user', async () => {
    const league = await started(['app1'], 'app1');
    const cluster = of(league, 'app1');
    cluster.refusals.set('/apis/clusters.hansa.dev', 404);
    cluster.goAway();
    cluster.comeBack();
    await league.clock.advance(120_000);
    assert.equal(league.stateOf('app1'), 'Ready');
  });
});

describe('a hostile member', () => {
  test('with objects of any shape breaks nothing, and delays no other member', async () => {
    const league = testLeague(['evil', 'app1']);
    const evil = of(league, 'evil');
    for (const [index, spec] of [null, 7, 'x', [], { ports: 7 }, { ports: [null, {}] }].entries()) {
      evil.put(paths.services, service(`s${index}`, { spec, status: spec }));
      evil.put(paths.slices, {
        ...service(`s${index}`),
        endpoints: spec,
        ports: spec,
        addressType: spec,
      });
      evil.put(paths.nodes, { ...service(`n${index}`), status: spec });
      evil.put(paths.namespaces, { ...service(`n${index}`), status: spec });
      evil.put(paths.nativeServices, { ...service(`n${index}`), spec });
      evil.put(paths.claims, { ...service(`c${index}`), spec });
    }
    league.list('evil', 'app1');
    league.members.start();
    await league.clock.advance(0);
    assert.deepEqual([league.stateOf('evil'), league.stateOf('app1')], ['Ready', 'Ready']);
    assert.equal([...(league.members.get('evil')?.services.objects() ?? [])].length, 6);
  });

  test('cannot make a Federation of home that lists anything else than members', async () => {
    const league = testLeague(['app1']);
    league.list(null as never, 7 as never, {}, { clusterID: '../x' }, { clusterID: 'app1' });
    league.members.start();
    await league.clock.advance(0);
    assert.deepEqual(
      league.members.list().map(({ clusterID }) => clusterID),
      ['app1'],
    );
  });
});
