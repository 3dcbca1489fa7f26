import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { policyAnnotation } from '../names.ts';
import { policiesPart } from './policies-part.ts';
import { defaultPolicyKinds, parsePolicyKinds } from './policy-kinds.ts';
import { recordObject, sentRecord } from './policy-records.ts';
import { recordNameOf } from './policy-ref.ts';
import { emptyRecord } from './policy-version.ts';
import { readPolicy } from './read-policy.ts';
import type { MemoryLeague } from '../league/test-memory-league.ts';
import {
  adminPolicies,
  adminPolicy,
  contentIn,
  contents,
  deleteCrd,
  dnsPrefix,
  endCrd,
  hourMs,
  installCrd,
  networkPolicies,
  policy,
  policyLeague,
  reasonIn,
  recordOf,
  renewCrd,
  strictPolicies,
} from './test-policy-league.ts';

const started = async () => {
  const league = await policyLeague();
  const stop = await league.lead();
  const [a, b, c] = ['a', 'b', 'c'].map((id) => league.cluster(id));
  assert.ok(a !== undefined && b !== undefined && c !== undefined);
  return { league, stop, a, b, c };
};

const reasons = (league: MemoryLeague): readonly (string | undefined)[] =>
  league.clusters.map((cluster) => reasonIn(cluster));

const everywhere = (content: string | undefined) => [content, content, content];

suite('a policy with the annotation', () => {
  test('is created, changed and deleted in all members, from any of them', async () => {
    const { league, a, b, c } = await started();
    await a.apply('networkpolicies', policy('v1'));
    await league.settle();
    assert.deepEqual(contents(league), everywhere('v1'));
    assert.deepEqual(reasons(league), everywhere('Replicated'));
    await b.apply('networkpolicies', policy('v2'));
    await league.settle();
    assert.deepEqual(contents(league), everywhere('v2'));
    await c.remove('networkpolicies', 'shop/deny');
    await league.settle();
    assert.deepEqual(contents(league), everywhere(undefined));
    assert.equal(recordOf(a)?.spec.state, 'Deleted');
    assert.deepEqual(league.refusals, []);
  });

  test('is left alone once it is in all members', async () => {
    const { league, a } = await started();
    await a.apply('networkpolicies', policy('v1'));
    await league.settle();
    const writes = league.clusters.map((cluster) => cluster.writes.length);
    await league.settle(20 * 60_000);
    assert.deepEqual(
      league.clusters.map((cluster) => cluster.writes.length),
      writes,
    );
  });

  test('keeps what a user added for a tool, and gets no finalizer', async () => {
    const { league, a, b } = await started();
    await a.apply('networkpolicies', policy('v1'));
    await league.settle();
    await b.patch('networkpolicies', 'shop/deny', {
      metadata: { annotations: { 'argocd.argoproj.io/tracking-id': 'x' } },
    });
    await a.apply('networkpolicies', policy('v2'));
    await league.settle();
    const metadata = b.find('networkpolicies', 'shop/deny')?.metadata;
    assert.equal(metadata?.annotations?.['argocd.argoproj.io/tracking-id'], 'x');
    assert.equal((metadata as { finalizers?: unknown } | undefined)?.finalizers, undefined);
    assert.deepEqual(contents(league), everywhere('v2'));
  });

  test('comes to a namespace that is created later', async () => {
    const { league, a, c } = await started();
    await c.remove('namespaces', 'shop');
    await league.settle();
    await a.apply('networkpolicies', policy('v1'));
    await league.settle();
    assert.deepEqual(contents(league), ['v1', 'v1', undefined]);
    await c.namespace('shop');
    await league.settle();
    assert.deepEqual(contents(league), everywhere('v1'));
  });

  test('is no version once the annotation is removed, and stays where a user made it', async () => {
    const { league, a } = await started();
    await a.apply('networkpolicies', policy('v1'));
    await league.settle();
    await a.patch('networkpolicies', 'shop/deny', {
      metadata: { annotations: { [policyAnnotation]: null } },
    });
    await league.settle();
    assert.deepEqual(contents(league), ['v1', undefined, undefined]);
    assert.equal(reasonIn(a), 'FederationEnded');
  });

  test("does not replace a user's own policy, and says so", async () => {
    const { league, a, c } = await started();
    await c.apply('networkpolicies', policy('own', 'deny', ''));
    await a.apply('networkpolicies', policy('v1'));
    await league.settle();
    assert.deepEqual(contents(league), ['v1', 'v1', 'own']);
    assert.equal(reasonIn(c), 'UserPolicyInTheWay');
    await c.remove('networkpolicies', 'shop/deny');
    await league.settle();
    assert.deepEqual(contents(league), everywhere('v1'));
  });

  test('that an API server refuses stays as it was there, and the record says why', async () => {
    const league = await policyLeague();
    const [a, c] = [league.cluster('a'), league.cluster('c')];
    c.kube.stopServing(adminPolicies.plural);
    c.kube.serve(strictPolicies);
    await league.lead();
    await a.apply(adminPolicies.plural, adminPolicy(1));
    await league.settle();
    const priorities = () =>
      league.clusters.map(
        (cluster) =>
          cluster.find<{ spec: { priority: unknown } }>(adminPolicies.plural, 'tenants')?.spec
            .priority,
      );
    assert.deepEqual(priorities(), [1, 1, 1]);
    await a.apply(adminPolicies.plural, adminPolicy('high'));
    await league.settle(40_000);
    assert.deepEqual(priorities(), ['high', 'high', 1]);
    const told = c
      .all<{ status?: { conditions?: { reason: string; message: string }[] } }>('policyrecords')
      .flatMap(({ status }) => status?.conditions ?? []);
    const [refused] = told.filter(({ reason }) => reason === 'RejectedByServer');
    assert.match(refused?.message ?? '', /must be a number/);
    await a.apply(adminPolicies.plural, adminPolicy(2));
    await league.settle();
    assert.deepEqual(priorities(), [2, 2, 2]);
  });
});

suite('a deletion', () => {
  test('of a namespace does not spread', async () => {
    const { league, a, c } = await started();
    await a.apply('networkpolicies', policy('v1'));
    await league.settle();
    await c.remove('namespaces', 'shop');
    await league.settle();
    await league.settle();
    assert.deepEqual(contents(league), ['v1', 'v1', undefined]);
    await c.namespace('shop');
    await league.settle();
    assert.deepEqual(contents(league), everywhere('v1'));
  });

  test('of a CRD does not spread', async () => {
    const { league, a, b } = await started();
    await a.apply(adminPolicies.plural, adminPolicy(1));
    await league.settle();
    await deleteCrd(b);
    await league.settle(40_000);
    assert.ok(a.find(adminPolicies.plural, 'tenants') !== undefined);
    b.kube.serve(adminPolicies);
    await installCrd(b);
    await league.settle(60_000);
    assert.ok(b.find(adminPolicies.plural, 'tenants') !== undefined);
  });

  test('of a CRD that is back before a watch ends is noticed', async () => {
    const { league, a, b } = await started();
    await a.apply(adminPolicies.plural, adminPolicy(1));
    await league.settle();
    endCrd(b);
    await league.settle();
    assert.ok(a.find(adminPolicies.plural, 'tenants') !== undefined);
    assert.equal(b.find(adminPolicies.plural, 'tenants'), undefined);
    await renewCrd(b);
    await league.settle(60_000);
    assert.ok(b.find(adminPolicies.plural, 'tenants') !== undefined);
  });

  test('while no supervisor runs is found by comparing', async () => {
    const { league, stop, a } = await started();
    await a.apply('networkpolicies', policy('v1'));
    await league.settle();
    await stop();
    await a.remove('networkpolicies', 'shop/deny');
    await league.lead('bruges.example');
    await league.settle();
    assert.deepEqual(contents(league), everywhere(undefined));
  });

  test('is not undone by a restore of etcd, and a restore deletes nothing elsewhere', async () => {
    const { league, a, c } = await started();
    await a.apply('networkpolicies', policy('v1'));
    await league.settle();
    const backup = c.kube.backup();
    await league.settle(5000);
    await b1(league);
    await a.remove('networkpolicies', 'shop/deny');
    await league.settle();
    c.kube.restore(backup);
    await league.settle(90_000);
    assert.deepEqual(contents(league), everywhere(undefined));
    assert.deepEqual(contents(league, 'new'), everywhere('n'));
  });

  test('is forgotten after the retention, once all members know of it', async () => {
    const league = await policyLeague({ retentionMs: hourMs });
    await league.lead();
    const a = league.cluster('a');
    await a.apply('networkpolicies', policy('v1'));
    await league.settle();
    await a.remove('networkpolicies', 'shop/deny');
    await league.settle(hourMs / 2);
    assert.equal(recordOf(a)?.spec.state, 'Deleted');
    await league.settle(hourMs);
    for (const cluster of league.clusters) assert.equal(recordOf(cluster), undefined);
  });
});

const b1 = (league: MemoryLeague): Promise<void> =>
  league.cluster('b').apply('networkpolicies', policy('n', 'new'));

suite('a supervisor', () => {
  test('marks each member as in sync every hour', async () => {
    const { league, a } = await started();
    const mark = () =>
      a.find<{ spec: { syncedMs: number } }>('policyrecords', 'synced')?.spec.syncedMs ?? 0;
    await league.settle();
    const first = mark();
    assert.ok(first > 0);
    await league.settle(3 * hourMs);
    assert.ok(mark() - first >= 2 * hourMs);
  });

  test('completes what one that died left, without a new version', async () => {
    const { league, stop, a, b } = await started();
    await a.apply('networkpolicies', policy('v1'));
    await league.settle();
    await stop();
    // It wrote the policy, and did not come to write the record.
    const record = recordOf(b);
    assert.ok(record !== undefined);
    b.kube.put('policyrecords', '', record.metadata.name, undefined);
    await league.lead('bruges.example');
    await league.settle();
    assert.deepEqual(recordOf(b)?.spec.stamp, recordOf(a)?.spec.stamp);
    assert.deepEqual(contents(league), everywhere('v1'));
  });

  test('writes a record again that a user deleted', async () => {
    const { league, a, b } = await started();
    await a.apply('networkpolicies', policy('v1'));
    await league.settle();
    const record = recordOf(b);
    assert.ok(record !== undefined);
    await b.remove('policyrecords', record.metadata.name);
    await league.settle();
    assert.deepEqual(recordOf(b)?.spec.stamp, recordOf(a)?.spec.stamp);
  });

  test('ignores records with the name or the stamp of a forger', async () => {
    const { league, a, b } = await started();
    await a.apply('networkpolicies', policy('v1'));
    await league.settle();
    const record = recordOf(b);
    assert.ok(record?.spec.stamp !== undefined);
    const { name } = record.metadata;
    // Past admission, as in a cluster without it.
    const forge = (spec: object, as = name): void =>
      b.kube.put('policyrecords', '', as, { ...record, spec: { ...record.spec, ...spec } });
    const { stamp } = record.spec;
    forge({ state: 'Deleted', stamp: { ...stamp, timeMs: stamp.timeMs + 1e6 } }, 'policy-other');
    forge({ state: 'Deleted', stamp: { ...stamp, timeMs: stamp.timeMs + 48 * hourMs } });
    await league.settle(60_000);
    assert.deepEqual(contents(league), everywhere('v1'));
  });

  test('leaves members that do not serve a kind alone, and they are ready', async () => {
    const league = await policyLeague();
    for (const { kube } of league.clusters.slice(1)) kube.stopServing(networkPolicies.plural);
    await league.lead();
    const a = league.cluster('a');
    await a.apply('networkpolicies', policy('v1'));
    await league.settle(40_000);
    assert.equal(contentIn(a), 'v1');
    assert.deepEqual(
      league.members.list().map(({ state }) => state.state),
      ['Ready', 'Ready', 'Ready'],
    );
  });
});

suite('a member that may only receive policies', () => {
  const startedWith = async () => {
    const league = await policyLeague({
      settings: (id) => (id === 'c' ? { policies: 'Receive' } : {}),
    });
    await league.lead();
    const [a, b, c] = ['a', 'b', 'c'].map((id) => league.cluster(id));
    assert.ok(a !== undefined && b !== undefined && c !== undefined);
    return { league, a, b, c };
  };

  test('has the policies of others, and changes none of them', async () => {
    const { league, a, b, c } = await startedWith();
    await a.apply('networkpolicies', policy('v1'));
    await league.settle();
    assert.deepEqual(contents(league), everywhere('v1'));
    await c.apply('networkpolicies', policy('mine'));
    await league.settle();
    assert.deepEqual(contents(league), everywhere('v1'));
    await c.remove('networkpolicies', 'shop/deny');
    await league.settle();
    assert.deepEqual(contents(league), everywhere('v1'));
    await b.apply('networkpolicies', policy('v2'));
    await league.settle();
    assert.deepEqual(contents(league), everywhere('v2'));
    await b.remove('networkpolicies', 'shop/deny');
    await league.settle();
    assert.deepEqual(contents(league), everywhere(undefined));
    assert.deepEqual(league.refusals, []);
  });

  test('keeps its own policies for itself, and says so', async () => {
    const { league, c } = await startedWith();
    await c.apply('networkpolicies', policy('mine'));
    await league.settle();
    assert.deepEqual(contents(league), [undefined, undefined, 'mine']);
    assert.equal(reasonIn(c), 'ReceivesOnly');
    await c.remove('networkpolicies', 'shop/deny');
    await league.settle();
    assert.equal(recordOf(c), undefined);
  });

  test('deletes nothing in others with a forged record', async () => {
    const { league, a, c } = await startedWith();
    await a.apply('networkpolicies', policy('v1'));
    await league.settle();
    const forged = recordOf(c);
    assert.ok(forged?.spec.stamp !== undefined);
    const stamp = { ...forged.spec.stamp, timeMs: league.clock.now() + 30_000, clusterID: 'c' };
    const spec = { ...forged.spec, state: 'Deleted', stamp, versionHash: '', storedHash: '' };
    c.kube.put('networkpolicies', 'shop', 'deny', undefined);
    c.kube.put('policyrecords', '', forged.metadata.name, { ...forged, spec });
    await league.settle();
    assert.deepEqual(contents(league), everywhere('v1'));
  });
});

test('a policy with another scope than its kind is not brought to other members', async () => {
  const { league, a, b, c } = await started();
  const forged = adminPolicy(1);
  const metadata = { ...forged.metadata, namespace: 'shop', uid: 'forged' };
  c.kube.put('adminnetworkpolicies', 'shop', 'tenants', { ...forged, metadata });
  const { group, plural } = adminPolicies;
  const ref = { group, plural, namespace: 'shop', name: 'tenants' };
  const { hash = '' } = readPolicy(forged).held;
  const stamp = { timeMs: league.clock.now(), counter: 0, clusterID: 'c' };
  const held = {
    ...emptyRecord,
    state: 'Live',
    stamp,
    versionHash: hash,
    storedHash: hash,
  } as const;
  c.kube.put('policyrecords', '', recordNameOf(ref), sentRecord(recordObject(ref, held)));
  await league.settle();
  assert.deepEqual(
    [a, b].map((cluster) => cluster.find('adminnetworkpolicies', 'tenants')),
    [undefined, undefined],
  );
});

test('a refused version is not looked at again once it is deleted', async () => {
  const [kind = ''] = defaultPolicyKinds.split(',').filter((each) => each.includes('/admin'));
  const settings = { kinds: parsePolicyKinds(kind), retentionMs: 168 * hourMs };
  const results = new Map<string, unknown>();
  const league = await policyLeague({
    parts: ({ member, members, clock }) => {
      const part = policiesPart({ member, members, clock, settings, dnsPrefix });
      const reconcile: typeof part.reconcile = async (key, context) => {
        const result = await part.reconcile(key, context);
        results.set(`${member.clusterID} ${key}`, result);
        return result;
      };
      return [{ ...part, reconcile }];
    },
  });
  const [a, c] = [league.cluster('a'), league.cluster('c')];
  c.kube.stopServing(adminPolicies.plural);
  c.kube.serve(strictPolicies);
  await league.lead();
  const key = 'c adminnetworkpolicies.policy.networking.k8s.io//tenants';
  await a.apply(adminPolicies.plural, adminPolicy('high'));
  await league.settle(40_000);
  assert.notEqual(results.get(key), undefined);
  await a.remove(adminPolicies.plural, 'tenants');
  await league.settle(600_000);
  assert.ok(results.has(key));
  assert.equal(results.get(key), undefined);
});

test('a member with many policies delays no policy of another one', async () => {
  const many = 300;
  const league = await policyLeague();
  // Each request takes some time, so that the runs of the controller are all in use.
  const { cut } = await league.supervise('lubeck.example', { delayMs: () => 5 });
  await league.settle(30_000);
  const [a, b, c] = ['a', 'b', 'c'].map((id) => league.cluster(id));
  assert.ok(a !== undefined && b !== undefined && c !== undefined);
  const floods = (): number =>
    c.all('networkpolicies').filter(({ metadata }) => metadata.name.startsWith('flood')).length;
  cut.add('c');
  for (let at = 0; at < many; at++) await a.apply('networkpolicies', policy('v1', `flood-${at}`));
  await league.settle(60_000);
  cut.delete('c');
  while (floods() === 0) await league.clock.advance(1);
  await b.apply('networkpolicies', policy('v1', 'calm'));
  while (contentIn(c, 'calm') === undefined) await league.clock.advance(1);
  assert.ok(floods() < many / 2, `${floods()} policies of the other member came first`);
  await league.settle(60_000);
  assert.equal(floods(), many);
  assert.deepEqual(league.refusals, []);
});
