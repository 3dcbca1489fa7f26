// Tests `hansa service` with a site that answers from a table.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { HansaError } from '../../core/errors/error.ts';
import { kubernetesPaths } from '../paths.ts';
import type {
  CopyView,
  FederatedServiceView,
  MemberServiceView,
} from '../services/service-view.ts';
import { healthOf } from './service-details.ts';
import { TestScene } from './test-scene.ts';

const member = (clusterID: string, more: Partial<MemberServiceView> = {}): MemberServiceView => ({
  clusterID,
  kind: 'Service',
  namespace: 'shop',
  name: 'web',
  type: 'ClusterIP',
  isReady: true,
  endpoints: 2,
  status: 'True',
  reason: 'Federated',
  message: 'Other clusters reach it.',
  ...more,
});

const copy = (clusterID: string, more: Partial<CopyView> = {}): CopyView => ({
  clusterID,
  endpoints: 2,
  from: ['app1'],
  status: 'True',
  reason: 'Copied',
  message: '',
  ...more,
});

const web: FederatedServiceView = {
  key: 'shop/web',
  scope: 'namespaced',
  namespace: 'shop',
  name: 'web',
  ports: [{ name: 'http', port: 80, protocol: 'TCP' }],
  members: [member('app1'), member('app2')],
  copies: [copy('app1'), copy('app2', { from: ['app2'] })],
  names: { carried: [], problem: undefined },
};

const clash =
  'The port "http" is 81/TCP here and 80/TCP in app1, which comes first. It is left out.';

suite('the health of a federated Service', () => {
  const health = (change: Partial<FederatedServiceView>) => healthOf({ ...web, ...change }).health;

  test('is Healthy where all members and copies are', () => {
    assert.deepEqual(healthOf(web), { health: 'Healthy', why: '' });
  });

  test('is Down without a ready endpoint', () => {
    assert.equal(health({ members: [member('app1', { endpoints: 0, isReady: false })] }), 'Down');
    assert.equal(health({ members: [] }), 'Down');
  });

  test('is Conflict where members disagree on a port, or a user has an object of the name', () => {
    const other = member('app2', { reason: 'PortConflict', message: clash });
    assert.deepEqual(healthOf({ ...web, members: [member('app1'), other] }), {
      health: 'Conflict',
      why: `app2: ${clash}`,
    });
    const taken = copy('app2', { status: 'False', reason: 'CopyConflict', message: 'taken' });
    assert.equal(health({ copies: [copy('app1'), taken] }), 'Conflict');
  });

  test('does not depend on clusters without the namespace', () => {
    const none = copy('app3', { status: 'False', reason: 'NoNamespace', endpoints: 0 });
    assert.equal(health({ copies: [copy('app1'), none] }), 'Healthy');
  });

  test('is Degraded where a member is left out, or a cluster is away', () => {
    const out = member('app2', { status: 'False', reason: 'NotRoutable' });
    assert.equal(health({ members: [member('app1'), out] }), 'Degraded');
    assert.equal(health({ copies: [copy('app1', { status: 'Unknown' })] }), 'Degraded');
  });
});

suite('hansa service', () => {
  let scene: TestScene;
  let services: readonly FederatedServiceView[];
  beforeEach(() => {
    scene = new TestScene();
    services = [
      web,
      { ...web, key: '*/pay', scope: 'global', namespace: 'hansa-system', name: 'pay' },
    ];
    scene.answer = ({ path }) => {
      if (path === kubernetesPaths.services) return { services };
      const found = services.find(({ key }) => path.endsWith(`/${encodeURIComponent(key)}`));
      if (found === undefined) throw new HansaError('HANSA_NOT_FOUND', 'no such Service');
      return found;
    };
  });
  afterEach(() => scene.end());

  test('list has a line for each one', async () => {
    const { printed } = await scene.service(['list']);
    assert.match(printed, /^NAME +MEMBERS +PORTS +ENDPOINTS +HEALTH$/m);
    assert.match(printed, /^shop\/web +app1,app2 +80\/TCP +4 +Healthy$/m);
    assert.match(printed, /^pay +app1,app2 /m);
  });

  test('list -o wide says why, -o name only names, and -o json everything', async () => {
    services = [
      {
        ...web,
        members: [member('app1'), member('app2', { reason: 'PortConflict', message: clash })],
      },
    ];
    const wide = await scene.service(['list', '-o', 'wide']);
    assert.match(wide.printed, /Conflict +app2: The port "http" is 81\/TCP here/);
    assert.equal((await scene.service(['list', '-o', 'name'])).printed, 'shop/web');
    const { printed } = await scene.service(['list', '-o', 'json']);
    const told = JSON.parse(printed) as { services: readonly { health: string }[] };
    assert.equal(told.services[0]?.health, 'Conflict');
  });

  test('list reads all pages', async () => {
    const answer = scene.answer;
    const asked: unknown[] = [];
    scene.answer = (request) => {
      if (request.path !== kubernetesPaths.services) return answer(request);
      asked.push(request.query?.['continue']);
      return asked.length === 1
        ? { services: services.slice(0, 1), metadata: { continue: 'next' } }
        : { services: services.slice(1), metadata: {} };
    };
    const { printed } = await scene.service(['list', '-o', 'name']);
    assert.deepEqual(asked, [undefined, 'next']);
    assert.equal(printed.trim().split('\n').length, 2);
  });

  test('list without any says what to do', async () => {
    services = [];
    const { notes } = await scene.service(['list']);
    assert.match(notes, /leads no cluster set\. .*hansa cluster join NAME/);
  });

  test('show has members, and the leader and copy of each cluster', async () => {
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
        { clusterID: 'app3', state: 'Unreachable', since: '', reason: 'Timeout', message: '' },
      ],
    });
    const { printed } = await scene.service(['show', 'shop/web']);
    assert.match(printed, /^service +shop\/web$/m);
    assert.match(printed, /^health +Healthy$/m);
    assert.match(printed, /^app2 +shop\/web +ClusterIP +2 +Federated +Other clusters reach it\.$/m);
    assert.match(printed, /^app1 +Ready +lubeck\.example +7 +2 +app1 +current$/m);
    assert.match(printed, /^app3 +Unreachable +- +- +- +- +none$/m);
  });

  test('show tells limits of clusters, and how many members are not shown', async () => {
    const message = 'Other clusters get the 2 oldest federated Services of app2';
    const out = member('app2', { status: 'False', reason: 'TooMany', message });
    services = [{ ...web, members: [member('app1'), out], moreMembers: 40 }];
    const { printed } = await scene.service(['show', 'shop/web']);
    assert.match(printed, /^health +Degraded: app2: Other clusters get the 2 oldest/m);
    assert.match(printed, /^app2 +shop\/web +ClusterIP +2 +TooMany +Other clusters get/m);
    assert.match(printed, /^members +the oldest 2; 40 more exist$/m);
  });

  test('show has the DNS names, where they lead, and why there is none', async () => {
    const without = await scene.service(['show', 'shop/web']);
    assert.doesNotMatch(without.printed, /^names/m);
    const carried = [
      { clusterID: 'app1', hostnames: ['web.example'], targets: ['192.0.2.1', '192.0.2.2'] },
    ];
    const problem = { clusterID: 'app2', message: 'b.example is refused.' };
    services = [{ ...web, names: { carried, problem } }];
    const { printed } = await scene.service(['show', 'shop/web']);
    assert.match(
      printed,
      /^names +web\.example → 192\.0\.2\.1, 192\.0\.2\.2, on the copy in app1$/m,
    );
    assert.match(printed, /^names +app2: b\.example is refused\.$/m);
  });

  test('show finds a global one by its name alone, and shows control characters harmlessly', async () => {
    const { printed } = await scene.service(['show', 'pay', '-o', 'json']);
    assert.equal((JSON.parse(printed) as { name: string }).name, 'pay');
    services = [{ ...web, members: [member('app1', { message: '\u001b[31mred' })] }];
    const shown = await scene.service(['show', 'shop/web']);
    assert.ok(!shown.printed.includes('\u001b'));
  });

  test('show of an unknown or illegal name says so', async () => {
    const { error } = await scene.service(['show', 'nothing']);
    assert.equal(error?.code, 'HANSA_NOT_FOUND');
    assert.match(error?.message ?? '', /hansa service list/);
    for (const bad of ['a/b/c', '/x', 'x/']) {
      assert.equal((await scene.service(['show', bad])).error?.code, 'HANSA_USAGE', bad);
    }
  });
});
