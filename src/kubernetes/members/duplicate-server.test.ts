// Members that share a server in Federation.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { paths, TestCluster } from './test-cluster.ts';
import { testLeague } from './test-league.ts';

/** Two spellings of one server. */
const twins = [
  { clusterID: 'app1', server: 'https://APP1.example:443/' },
  { clusterID: 'twin', server: 'https://app1.example' },
];

/** `other` is what answers to the second entry, for example with another credential. */
function setUp(other?: TestCluster) {
  const league = testLeague(['app1', 'app2']);
  const app1 = league.clusters.get('https://app1.example') as TestCluster;
  league.clusters.set('https://APP1.example:443/', app1);
  if (other !== undefined) league.clusters.set('https://app1.example', other);
  const states = () => ['app1', 'twin'].map((id) => league.stateOf(id));
  return { ...league, app1, states };
}

describe('of two members with one server', () => {
  for (const [where, list] of [
    ['last', twins],
    ['first', twins.toReversed()],
  ] as const) {
    test(`the one with the ID of the cluster is used, with the wrong entry ${where}`, async () => {
      const { clock, clusters, members, list: federate, states } = setUp();
      federate(...list, 'app2');
      members.start();
      await clock.advance(0);
      assert.deepEqual(states(), ['Ready', 'Refused DuplicateServer']);
      assert.match(
        members.get('twin')?.state.message ?? '',
        /app1 has the same server.*Correct the server of twin/,
      );
      clusters.set('https://twin.example', new TestCluster('twin'));
      federate('app1', 'twin', 'app2');
      await clock.advance(0);
      assert.deepEqual(states(), ['Ready', 'Ready']);
    });

    test(`the one that can be reached is used, with the wrong entry ${where}`, async () => {
      const away = new TestCluster('twin');
      away.goAway();
      const { clock, members, list: federate, states } = setUp(away);
      federate(...list);
      members.start();
      await clock.advance(30_000);
      assert.deepEqual(states(), ['Ready', 'Refused DuplicateServer']);
    });
  }

  test('the one that is connected already keeps its connection', async () => {
    const { app1, clock, members, list, states } = setUp();
    const [good, wrong] = twins as [object, object];
    list(good);
    members.start();
    await clock.advance(0);
    const before = members.get('app1');
    const watches = () => app1.requests.filter((each) => each === `WATCH ${paths.services}`).length;
    const asked = watches();
    list(wrong, good);
    await clock.advance(60_000);
    assert.deepEqual(states(), ['Ready', 'Refused DuplicateServer']);
    assert.deepEqual([members.get('app1') === before, watches()], [true, asked]);
    list(good);
    await clock.advance(0);
    assert.deepEqual(states(), ['Ready', undefined]);
  });

  test('the first one is used where the cluster claims the ID of each', async () => {
    const { clock, members, list, states } = setUp(new TestCluster('twin'));
    list(...twins.toReversed());
    members.start();
    await clock.advance(0);
    assert.deepEqual(states(), ['Refused DuplicateServer', 'Ready']);
    list(...twins);
    await clock.advance(0);
    assert.deepEqual(states(), ['Ready', 'Refused DuplicateServer']);
  });

  test('neither is used where the cluster is a third one, and both say why', async () => {
    const { app1, clock, members, list, states } = setUp();
    app1.claim('id.k8s.io', 'third');
    list(...twins);
    members.start();
    await clock.advance(0);
    assert.deepEqual(states(), ['Refused ClusterIDMismatch', 'Refused ClusterIDMismatch']);
  });
});
