// Edits that meet: of members at the same time, with clocks that differ, and of members that show old versions again.
// The part runs on in-memory clusters.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { MemoryCluster, MemoryLeague } from '../league/test-memory-league.ts';
import { versionAnnotation } from '../names.ts';
import { contents, hourMs, policy, policyLeague, recordOf } from './test-policy-league.ts';

const started = async (prepare: (league: MemoryLeague) => void = () => undefined) => {
  const league = await policyLeague();
  prepare(league);
  await league.lead();
  const [a, b, c] = league.clusters;
  assert.ok(a !== undefined && b !== undefined && c !== undefined);
  return { league, a, b, c };
};

const edit = (cluster: MemoryCluster, content: string): Promise<void> =>
  cluster.apply('networkpolicies', policy(content));
const everywhere = (content: string | undefined) => [content, content, content];

function checkStamps({ clusters }: MemoryLeague): void {
  const stamps = clusters.map((cluster) => recordOf(cluster)?.spec.stamp);
  assert.notEqual(stamps[0], undefined);
  for (const stamp of stamps) assert.deepEqual(stamp, stamps[0]);
}

/** At rest, and no leader writes any more. */
async function checkRest(league: MemoryLeague, content: string | undefined): Promise<void> {
  await league.settle(30_000);
  assert.deepEqual(contents(league), everywhere(content));
  checkStamps(league);
  const writes = league.clusters.map((cluster) => cluster.writes.length);
  await league.settle(20 * 60_000);
  assert.deepEqual(
    league.clusters.map((cluster) => cluster.writes.length),
    writes,
  );
  assert.deepEqual(league.refusals, []);
}

suite('edits of one policy in two members', () => {
  test('in one millisecond: the cluster with the greater ID wins', async () => {
    const { league, a, b } = await started();
    await edit(a, 'v1');
    await league.settle();
    await Promise.all([edit(b, 'of b'), edit(a, 'of a')]);
    await checkRest(league, 'of b');
  });

  test('in one millisecond that create it: one of them wins everywhere', async () => {
    const { league, a, c } = await started();
    await Promise.all([edit(c, 'of c'), edit(a, 'of a')]);
    await checkRest(league, 'of c');
  });

  test('in one millisecond, in all members', async () => {
    const { league, a, b, c } = await started();
    await edit(a, 'v1');
    await league.settle();
    await Promise.all([edit(b, 'of b'), edit(c, 'of c'), edit(a, 'of a')]);
    await checkRest(league, 'of c');
  });

  test('with the same content are no conflict', async () => {
    const { league, a, b } = await started();
    await edit(a, 'v1');
    await league.settle();
    await Promise.all([edit(b, 'v2'), edit(a, 'v2')]);
    await checkRest(league, 'v2');
  });

  test('of which one deletes it: all members agree', async () => {
    const { league, a, b } = await started();
    await edit(b, 'v1');
    await league.settle();
    await Promise.all([a.remove('networkpolicies', 'shop/deny'), edit(b, 'of b')]);
    await league.settle(30_000);
    const [first, ...others] = contents(league);
    for (const other of others) assert.equal(other, first);
    checkStamps(league);
  });
});

suite('an API server whose clock is wrong by an hour', () => {
  for (const [how, skewMs] of [
    ['ahead', hourMs],
    ['behind', -hourMs],
  ] as const) {
    test(`${how}: each next edit wins, wherever it is made`, async () => {
      const { league, a, b, c } = await started((each) => each.cluster('b').clock.jumpWall(skewMs));
      for (const [index, cluster] of [a, b, c, b, a, b, b, c].entries()) {
        await edit(cluster, `v${index}`);
        await league.settle();
        assert.deepEqual(contents(league), everywhere(`v${index}`));
        checkStamps(league);
      }
      await b.remove('networkpolicies', 'shop/deny');
      await checkRest(league, undefined);
    });

    test(`${how}: edits in one millisecond end with one of them`, async () => {
      const { league, a, b } = await started((each) => each.cluster('b').clock.jumpWall(skewMs));
      await edit(a, 'v1');
      await league.settle();
      await Promise.all([edit(b, 'of b'), edit(a, 'of a')]);
      await checkRest(league, 'of b');
    });
  }
});

suite('a supervisor whose clock is an hour ahead', () => {
  test('leads, and later edits under one with a right clock still win', async () => {
    const league = await policyLeague();
    const ahead = await league.supervise('bruges.example');
    ahead.clock.jumpWall(hourMs);
    await league.settle();
    const [a, b, c] = league.clusters;
    assert.ok(a !== undefined && b !== undefined && c !== undefined);
    await edit(a, 'ahead');
    await league.settle();
    assert.deepEqual(contents(league), everywhere('ahead'));
    assert.ok((recordOf(b)?.spec.stamp?.timeMs ?? 0) > league.clock.now() + hourMs / 2);
    await ahead.stop();
    await league.lead();
    await edit(b, 'right');
    await league.settle();
    assert.deepEqual(contents(league), everywhere('right'));
    await c.remove('networkpolicies', 'shop/deny');
    await checkRest(league, undefined);
  });
});

suite('a member that shows old versions again', () => {
  /** v1, which a has as its user wrote it and b as a replica, and then v2. */
  const replayed = async () => {
    const scene = await started();
    const { league, a, b } = scene;
    await edit(a, 'v1');
    await league.settle();
    const old = {
      policy: b.find('networkpolicies', 'shop/deny'),
      record: recordOf(b),
      written: a.find('networkpolicies', 'shop/deny'),
    };
    await league.settle(5000);
    await edit(a, 'v2');
    await league.settle();
    assert.deepEqual(contents(league), everywhere('v2'));
    return { ...scene, old };
  };

  test('its user goes back to an old content: that is a new edit', async () => {
    const { league, b } = await replayed();
    await b.patch('networkpolicies', 'shop/deny', policy('v1'));
    await checkRest(league, 'v1');
  });

  test('its user cannot apply an old object with the marks of a site', async () => {
    const { league, b, old } = await replayed();
    assert.ok(old.policy?.metadata.annotations?.[versionAnnotation] !== undefined);
    await assert.rejects(b.apply('networkpolicies', old.policy), /only sites add or change marks/);
    await checkRest(league, 'v2');
  });

  test('an old record alone, past admission, is written again', async () => {
    const { league, a, b, old } = await replayed();
    assert.ok(old.record !== undefined);
    for (const cluster of [a, b]) {
      cluster.kube.put('policyrecords', '', old.record.metadata.name, old.record);
    }
    await checkRest(league, 'v2');
  });

  test('an old policy and its record, past admission, are as after a restore', async () => {
    const { league, b, old } = await replayed();
    assert.ok(old.record !== undefined && old.policy !== undefined);
    b.kube.put('policyrecords', '', old.record.metadata.name, old.record);
    b.kube.put('networkpolicies', 'shop', 'deny', old.policy);
    await checkRest(league, 'v2');
  });

  test('an old replica that is created again, past admission, is replaced', async () => {
    const { league, b, old } = await replayed();
    assert.ok(old.policy !== undefined);
    const { uid: _, ...metadata } = old.policy.metadata;
    b.kube.put('networkpolicies', 'shop', 'deny', undefined);
    b.kube.put('networkpolicies', 'shop', 'deny', {
      ...old.policy,
      metadata: { ...metadata, uid: 'another' },
    });
    await league.settle(30_000);
    assert.equal(new Set(contents(league)).size, 1);
    checkStamps(league);
    assert.notEqual(contents(league)[0], 'v1');
  });
});
