// Tests `hansa policy` with a site that answers from a table.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { HansaError } from '../../core/errors/error.ts';
import { kubernetesPaths } from '../paths.ts';
import type { FederatedPolicyView, PolicyInCluster } from '../policies/view/shown-policy.ts';
import { policyHealthOf, warningsOf } from './policy-details.ts';
import { TestScene } from './test-scene.ts';

const stamp = { timeMs: Date.parse('2026-05-01T08:00:00Z'), counter: 0, clusterID: 'app1' };

const cluster = (clusterID: string, more: Partial<PolicyInCluster> = {}): PolicyInCluster => ({
  clusterID,
  status: 'True',
  reason: 'Replicated',
  message: 'This cluster has the newest version of shop/web.',
  holds: { state: 'Live', stamp },
  ...more,
});

const web: FederatedPolicyView = {
  key: 'networkpolicies.networking.k8s.io/shop/web',
  group: 'networking.k8s.io',
  resource: 'networkpolicies',
  kind: 'NetworkPolicy',
  namespace: 'shop',
  name: 'web',
  state: 'Live',
  version: { origin: 'app1', edited: '2026-05-01T08:00:00Z', stamp, hash: 'abcdef0123456789' },
  clusters: [cluster('app1'), cluster('app2')],
  selection: { status: 'True', reason: 'Selected', message: '' },
};
const wide: FederatedPolicyView = {
  ...web,
  key: 'clusternetworkpolicies.crd.antrea.io//deny.all',
  group: 'crd.antrea.io',
  resource: 'clusternetworkpolicies',
  kind: 'ClusterNetworkPolicy',
  namespace: '',
  name: 'deny.all',
};
const inTheWay = cluster('app2', {
  status: 'False',
  reason: 'UserPolicyInTheWay',
  message: 'This cluster has a policy shop/web without the annotation.',
});

suite('the health of a federated policy', () => {
  const health = (change: Partial<FederatedPolicyView>) =>
    policyHealthOf({ ...web, ...change }).health;
  const without = (reason: string, status: PolicyInCluster['status'] = 'False') => ({
    clusters: [cluster('app1'), cluster('app2', { status, reason })],
  });

  test('is Replicated where all clusters have the newest version', () => {
    assert.deepEqual(policyHealthOf(web), { health: 'Replicated', why: '' });
  });

  test('does not depend on clusters without the namespace or the kind', () => {
    assert.equal(health(without('NamespaceMissing')), 'Replicated');
    assert.equal(health(without('NotServed')), 'Replicated');
  });

  test('is Conflict where a user must do something', () => {
    for (const reason of ['UserPolicyInTheWay', 'RejectedByServer', 'TooLarge', 'Stale']) {
      assert.equal(health(without(reason)), 'Conflict', reason);
    }
    const clusters = [cluster('app0', { status: 'False', reason: 'Pending' }), inTheWay];
    assert.deepEqual(policyHealthOf({ ...web, clusters }), {
      health: 'Conflict',
      why: `app2: ${inTheWay.message}`,
    });
  });

  test('is Pending until all have written it, and Degraded where a cluster is away', () => {
    assert.equal(health(without('Pending')), 'Pending');
    assert.equal(health(without('TimedOut', 'Unknown')), 'Degraded');
  });

  test('is Deleted or Ended when all clusters know', () => {
    assert.equal(health({ state: 'Deleted' }), 'Deleted');
    assert.equal(health({ state: 'Ended' }), 'Ended');
    assert.equal(health({ state: 'Deleted', ...without('Pending') }), 'Pending');
  });

  test('has warnings beside it', () => {
    assert.deepEqual(warningsOf(web), []);
    const selection = { status: 'False', reason: 'OnlyLocalPeers', message: 'local' } as const;
    const stored = cluster('app2', { reason: 'StoredDifferently', message: 'differs' });
    assert.deepEqual(warningsOf({ ...web, selection, clusters: [stored] }), [
      'local',
      'app2: differs',
    ]);
    const unknown = { ...selection, status: 'Unknown' } as const;
    assert.deepEqual(warningsOf({ ...web, selection: unknown }), []);
  });
});

suite('hansa policy', () => {
  let scene: TestScene;
  let policies: readonly FederatedPolicyView[];
  beforeEach(() => {
    scene = new TestScene();
    policies = [web, wide];
    scene.answer = ({ path, query }) => {
      if (path === kubernetesPaths.policies) {
        const named = query?.['name'];
        const short = ({ namespace, name }: FederatedPolicyView): string =>
          namespace === '' ? name : `${namespace}/${name}`;
        return {
          policies: policies.filter((one) => named === undefined || short(one) === named),
        };
      }
      const found = policies.find(({ key }) => path.endsWith(`/${encodeURIComponent(key)}`));
      if (found === undefined) throw new HansaError('HANSA_NOT_FOUND', 'no such policy');
      return found;
    };
  });
  afterEach(() => scene.end());

  test('list has a line for each one', async () => {
    const { printed } = await scene.policy(['list']);
    assert.match(printed, /^NAME +KIND +ORIGIN +EDITED +CLUSTERS +STATE$/m);
    assert.match(
      printed,
      /^shop\/web +NetworkPolicy +app1 +2026-05-01T08:00:00Z +2\/2 +Replicated$/m,
    );
    assert.match(printed, /^deny\.all +ClusterNetworkPolicy +app1 /m);
  });

  test('list -o wide says why, -o name only names, and -o json everything', async () => {
    policies = [{ ...web, clusters: [cluster('app1'), inTheWay] }, wide];
    const shown = await scene.policy(['list', '-o', 'wide']);
    assert.match(
      shown.printed,
      /1\/2 +Conflict +abcdef0123 +app2: This cluster has a policy shop\/web without the annotation/,
    );
    assert.equal(
      (await scene.policy(['list', '-o', 'name'])).printed,
      'networkpolicies.networking.k8s.io/shop/web\nclusternetworkpolicies.crd.antrea.io/deny.all',
    );
    const { printed } = await scene.policy(['list', '-o', 'json']);
    const told = JSON.parse(printed) as { policies: readonly { health: string }[] };
    assert.equal(told.policies[0]?.health, 'Conflict');
    assert.match((await scene.policy(['list', '-o', 'yaml'])).printed, /health: Conflict/);
  });

  test('list marks policies with a warning', async () => {
    const selection = { status: 'False', reason: 'OnlyLocalPeers', message: 'local' } as const;
    policies = [{ ...web, selection }];
    assert.match((await scene.policy(['list'])).printed, /Replicated, warning$/m);
    assert.match((await scene.policy(['list', '-o', 'wide'])).printed, /abcdef0123 +local$/m);
  });

  test('list leaves out deleted policies that all clusters know of, unless --all', async () => {
    policies = [{ ...web, state: 'Deleted' }, wide];
    assert.doesNotMatch((await scene.policy(['list'])).printed, /shop\/web/);
    assert.match((await scene.policy(['list', '--all'])).printed, /^shop\/web .* Deleted$/m);
  });

  test('list reads all pages', async () => {
    const asked: unknown[] = [];
    scene.answer = ({ query }) => {
      asked.push(query?.['continue']);
      return asked.length === 1
        ? { policies: [web], metadata: { continue: 'next' } }
        : { policies: [wide], metadata: {} };
    };
    const { printed } = await scene.policy(['list', '-o', 'name']);
    assert.deepEqual(asked, [undefined, 'next']);
    assert.equal(printed.split('\n').length, 2);
  });

  test('list without any says what to do', async () => {
    policies = [];
    const { notes } = await scene.policy(['list']);
    assert.match(notes, /leads no cluster set\. .*hansa cluster join NAME/);
    const league = scene.league();
    scene.league = () => ({ ...league, supervisor: true });
    assert.match((await scene.policy(['list'])).notes, /kubectl annotate networkpolicy NAME/);
  });

  test('show has the last edit, and the leader and version of each cluster', async () => {
    const old = { ...stamp, timeMs: stamp.timeMs - 60_000, clusterID: 'app3' };
    const pending = cluster('app3', {
      status: 'False',
      reason: 'Pending',
      message: 'not yet',
      holds: { state: 'Live', stamp: old },
    });
    policies = [
      { ...web, clusters: [cluster('app1'), { ...inTheWay, holds: { state: 'Absent' } }, pending] },
    ];
    scene.league = () => ({
      namespace: 'hansa-system',
      supervisor: true,
      members: [
        {
          clusterID: 'app1',
          state: 'Ready',
          since: '',
          reason: 'Ready',
          message: '',
          leader: 'lubeck.example/h/1/x',
          epoch: 7,
        },
      ],
    });
    const { printed } = await scene.policy(['show', 'shop/web']);
    assert.match(printed, /^policy +networkpolicies\.networking\.k8s\.io\/shop\/web$/m);
    assert.match(printed, /^edited +2026-05-01T08:00:00Z in app1$/m);
    assert.match(printed, /^version +abcdef0123$/m);
    assert.match(printed, /^state +Conflict: app2: /m);
    assert.match(printed, /^app1 +lubeck\.example +7 +newest +Replicated +This cluster has/m);
    assert.match(printed, /^app2 +- +- +none +UserPolicyInTheWay +/m);
    assert.match(printed, /^app3 +- +- +of 2026-05-01T07:59:00Z in app3 +Pending +not yet$/m);
  });

  test('show finds a policy by its full name, and shows control characters harmlessly', async () => {
    for (const name of [
      'deny.all',
      'clusternetworkpolicies.crd.antrea.io/deny.all',
      'networkpolicies.networking.k8s.io/shop/web',
    ]) {
      const { printed, error } = await scene.policy(['show', name, '-o', 'json']);
      assert.equal(error, undefined, name);
      assert.ok(name.endsWith((JSON.parse(printed) as { name: string }).name));
    }
    policies = [{ ...web, clusters: [cluster('app1', { message: '\u001b[31mred' })] }];
    assert.ok(!(await scene.policy(['show', 'shop/web'])).printed.includes('\u001b'));
  });

  test('show of a name that policies of two kinds have asks which', async () => {
    const antrea = {
      ...web,
      group: 'crd.antrea.io',
      key: 'networkpolicies.crd.antrea.io/shop/web',
    };
    policies = [web, antrea];
    const { error } = await scene.policy(['show', 'shop/web']);
    assert.equal(error?.code, 'HANSA_USAGE');
    assert.match(error?.message ?? '', /networkpolicies\.crd\.antrea\.io\/shop\/web/);
  });

  test('show of an unknown or illegal name says so', async () => {
    for (const name of ['nothing', 'a/b', 'pods.example.org/a/b']) {
      const { error } = await scene.policy(['show', name]);
      assert.equal(error?.code, 'HANSA_NOT_FOUND', name);
      assert.match(error?.message ?? '', /hansa policy list/);
    }
    for (const bad of ['a/b/c', '/x', 'x/', 'a.b/c/d/e']) {
      assert.equal((await scene.policy(['show', bad])).error?.code, 'HANSA_USAGE', bad);
    }
  });
});
