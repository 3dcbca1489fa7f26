// Tests `hansa cluster leave` with test API servers.

import assert from 'node:assert/strict';
import { after, afterEach, beforeEach, suite, test } from 'node:test';
import { stopServers } from '../../core/kube/test-api-server.ts';
import { federationPath } from '../client/cluster-facts.ts';
import { failure, startKube, type Call, type TestKube } from './test-kube.ts';
import { TestScene } from './test-scene.ts';

const services = '/api/v1/namespaces/shop/services';
const natives = '/apis/clusters.hansa.dev/v1alpha1/namespaces/shop/nativeservices';
const slices = '/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices';
const account = '/api/v1/namespaces/hansa-system/serviceaccounts/hansa';
const copied = {
  'fed-svc.antreaplus.vmware-tanzu.com': 'web',
  'clusters.hansa.dev/epoch': '3',
};

const copy = (name: string) => ({
  metadata: {
    name,
    namespace: 'shop',
    annotations: { ...copied, 'fed-svc.antreaplus.vmware-tanzu.com': name },
  },
  spec: {},
});

suite('hansa cluster leave', () => {
  let scene: TestScene;
  let home: TestKube;
  let app2: TestKube;
  /** What the API server of app2 does otherwise. */
  let answer: (call: Call) => ReturnType<typeof failure> | undefined;
  beforeEach(async () => {
    answer = () => undefined;
    scene = new TestScene();
    home = await startKube();
    app2 = await startKube((call) => answer(call));
    scene.addKube('app1', home);
    scene.addKube('app2', app2);
    for (const kube of [home, app2]) kube.put('/api/v1/namespaces/shop', {});
    const first = await run('join', 'app1', '--supervisor');
    const second = await run('join', 'app2', '--home-kubeconfig', 'app1.kubeconfig');
    assert.deepEqual([first.error, second.error], [undefined, undefined]);
  });
  afterEach(() => scene.end());
  after(() => stopServers());

  const run = (command: string, name: string, ...args: readonly string[]) =>
    scene.cluster([command, name, '--kubeconfig', `${name}.kubeconfig`, ...args]);
  const leave = (...args: readonly string[]) =>
    run('leave', 'app2', '--home-kubeconfig', 'app1.kubeconfig', ...args);
  const memberIDs = (): readonly string[] => {
    const { members } = (home.objects.get(federationPath)?.spec ?? { members: [] }) as {
      members: readonly { readonly clusterID: string }[];
    };
    return members.map(({ clusterID }) => clusterID);
  };
  /** Everything in app2 but what was there before it joined. */
  const left = (): readonly string[] =>
    [...app2.objects.keys()].filter((path) => path !== '/api/v1/namespaces/shop');

  test('shows what it deletes, asks, and leaves nothing', async () => {
    const ran = await leave();
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.match(
      ran.notes,
      /In Federation of the home cluster, this deletes:\n {2}the member app2/,
    );
    assert.match(ran.notes, /Cluster app2, and its credential/);
    assert.match(ran.notes, /CustomResourceDefinition federations\.clusters\.hansa\.dev/);
    assert.match(ran.notes, /ServiceAccount hansa-system\/hansa/);
    assert.deepEqual(ran.questions, ['Let app2 leave?']);
    assert.equal(ran.printed, 'app2 left the cluster set');
    assert.deepEqual(left(), []);
    assert.deepEqual(memberIDs(), ['app1']);
    assert.deepEqual([...scene.clusters.keys()], ['app1']);
  });

  test('tells the site that it removes the copies itself, before the credential goes', async () => {
    const asked: (readonly unknown[])[] = [];
    scene.answer = ({ method, path }) =>
      void asked.push([method, path, scene.clusters.has('app2')]);
    assert.equal((await leave()).error, undefined);
    assert.deepEqual(asked, [['DELETE', '/hansa/v1/kubernetes/leaving/app2', true]]);
  });

  test('deletes copies and our condition, and nothing of a user', async () => {
    app2.put(`${services}/web`, copy('web'));
    const labels = { 'endpointslice.kubernetes.io/managed-by': 'clusters.hansa.dev' };
    app2.put(`${slices}/web-x`, {
      metadata: { name: 'web-x', namespace: 'shop', labels, annotations: copied },
    });
    // A label alone is no proof: anybody can write it.
    app2.put(`${slices}/mine`, { metadata: { name: 'mine', namespace: 'shop', labels } });
    const [one] = Object.keys(copied) as [string];
    app2.put(`${services}/half`, {
      metadata: { name: 'half', namespace: 'shop', annotations: { [one]: 'x' } },
    });
    const conditions = [{ type: 'clusters.hansa.dev/Federated' }, { type: 'Mine' }];
    app2.put(`${services}/api`, { status: { conditions } });
    const ran = await leave();
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.match(ran.notes, /1 copied Service\n {2}1 EndpointSlice\n {2}1 condition/);
    assert.deepEqual(
      left().toSorted(),
      [`${slices}/mine`, `${services}/api`, `${services}/half`].toSorted(),
    );
    assert.deepEqual(app2.objects.get(`${services}/api`)?.['status'], {
      conditions: [{ type: 'Mine' }],
    });
  });

  test('keeps copies that a user took over, without our marks', async () => {
    const labels = { 'endpointslice.kubernetes.io/managed-by': 'clusters.hansa.dev', mine: 'x' };
    const annotations = { ...copied, 'clusters.hansa.dev/deleting': '3', mine: 'x' };
    const spec = { selector: { app: 'web' } };
    const own = { namespace: 'shop', labels, annotations };
    app2.put(`${services}/web`, { metadata: { name: 'web', ...own }, spec });
    // Made from the manifest of a copy, where no policy refused its epoch.
    app2.put(`${services}/other`, { metadata: { name: 'other', ...own }, spec: {} });
    app2.put(`${slices}/web-x`, { metadata: { name: 'web-x', ...own } });
    const ran = await leave();
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.match(ran.notes, /Services of users stay, and lose the marks of copies: .*shop\/web/);
    assert.deepEqual(left().toSorted(), [`${services}/other`, `${services}/web`]);
    for (const name of ['web', 'other']) {
      const { metadata } = app2.objects.get(`${services}/${name}`) ?? {};
      assert.deepEqual(metadata?.labels, { mine: 'x' });
      assert.deepEqual(metadata?.annotations, { mine: 'x' });
    }
    assert.deepEqual(app2.objects.get(`${services}/web`)?.spec, spec);
  });

  test('deletes ExternalEntities of sites, and none of a user', async () => {
    const entities = '/apis/crd.antrea.io/v1alpha2/namespaces/shop/externalentities';
    const entity = (name: string, annotations: Readonly<Record<string, string>>) => ({
      metadata: { name, namespace: 'shop', annotations },
      spec: {},
    });
    app2.put(`${entities}/web-1`, entity('web-1', copied));
    app2.put(`${entities}/web-2`, entity('web-2', copied));
    app2.put(`${entities}/mine`, entity('mine', {}));
    const ran = await leave();
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.match(ran.notes, /\n {2}2 ExternalEntities\n/);
    assert.deepEqual(left(), [`${entities}/mine`]);
  });

  test('deletes VM Services, and refuses while there are machines of users', async () => {
    const vms = '/apis/clusters.hansa.dev/v1alpha1/namespaces/shop/virtualmachines';
    const labels = { 'endpointslice.kubernetes.io/managed-by': 'vms.clusters.hansa.dev' };
    const annotations = {
      'vm.antreaplus.vmware-tanzu.com': 'web',
      'clusters.hansa.dev/epoch': '3',
    };
    const own = { namespace: 'shop', labels, annotations };
    app2.put(`${services}/web`, { metadata: { name: 'web', ...own }, spec: {} });
    app2.put(`${slices}/web-x`, { metadata: { name: 'web-x', ...own } });
    const { 'clusters.hansa.dev/epoch': _, ...unproved } = annotations;
    const mine = { name: 'mine', namespace: 'shop', labels, annotations: unproved };
    app2.put(`${services}/mine`, { metadata: mine, spec: {} });
    app2.put(`${vms}/web-1`, { metadata: { name: 'web-1', namespace: 'shop' } });
    const { error } = await leave();
    assert.match(error?.message ?? '', /VirtualMachine shop\/web-1.*--delete-objects/);
    app2.objects.delete(`${vms}/web-1`);
    const ran = await leave();
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.match(ran.notes, /1 VM Service\n {2}1 EndpointSlice\n/);
    assert.deepEqual(left(), [`${services}/mine`]);
  });

  test('tries again while a policy still keeps the marks of a Service', async () => {
    const spec = { selector: { app: 'web' } };
    app2.put(`${services}/web`, {
      metadata: { name: 'web', namespace: 'shop', annotations: copied },
      spec,
    });
    let refusals = 3;
    answer = ({ method, path }) =>
      method === 'PATCH' && path === `${services}/web` && refusals-- > 0
        ? failure(422, 'Invalid', 'only Hansa sites change epochs')
        : undefined;
    assert.equal((await leave()).error, undefined);
    assert.deepEqual(app2.objects.get(`${services}/web`)?.metadata.annotations, {});
  });

  test('keeps a copy that changed meanwhile, and says so', async () => {
    app2.put(`${services}/web`, copy('web'));
    answer = ({ method, path }) =>
      method === 'DELETE' && path === `${services}/web`
        ? failure(409, 'Conflict', 'it changed')
        : undefined;
    const { error } = await leave();
    assert.equal(error?.code, 'HANSA_CONFLICT');
    assert.match(
      error?.message ?? '',
      /^A copy or replica changed while it was deleted, and stays\. Run the command again/,
    );
    answer = () => undefined;
    assert.equal((await leave()).error, undefined);
    assert.deepEqual(left(), []);
  });

  test('deletes copies that the site wrote while it was stopping', async () => {
    answer = ({ method, path }) => {
      if (method === 'DELETE' && path.includes('/clusterroles/')) {
        app2.put(`${services}/late`, copy('late'));
      }
      return undefined;
    };
    assert.equal((await leave()).error, undefined);
    assert.deepEqual(left(), []);
  });

  test('waits until the site has given up its Lease', async () => {
    const lease = '/apis/coordination.k8s.io/v1/namespaces/hansa-system/leases/hansa-leader';
    app2.put(lease, { spec: { holderIdentity: 'lubeck.example/host/1/x' } });
    let looks = 0;
    answer = ({ method, path }) => {
      if (method === 'GET' && path === lease && ++looks === 4) {
        app2.put(lease, { spec: { holderIdentity: '' } });
      }
      return undefined;
    };
    assert.equal((await leave()).error, undefined);
    assert.equal(looks, 4);
    assert.deepEqual(left(), []);
  });

  test('refuses while the CRDs have objects of users, unless told', async () => {
    app2.put(`${natives}/db`, { metadata: { name: 'db', namespace: 'shop' } });
    const { error, questions } = await leave();
    assert.equal(error?.code, 'HANSA_CONFLICT');
    assert.match(error?.message ?? '', /NativeService shop\/db.*--delete-objects/);
    assert.deepEqual(questions, []);
    assert.deepEqual(memberIDs(), ['app1', 'app2']);
    const ran = await leave('--delete-objects');
    assert.match(ran.notes, /NativeService shop\/db \(of users\)/);
    assert.deepEqual(left(), []);
  });

  test('keeps a namespace in which a user has something, or that a user created', async () => {
    const secret = '/api/v1/namespaces/hansa-system/secrets/mine';
    app2.put(secret, {});
    const ran = await leave();
    assert.match(ran.notes, /The namespace hansa-system stays: it contains secrets\/mine/);
    assert.deepEqual(left(), ['/api/v1/namespaces/hansa-system', secret]);
    const namespace = '/api/v1/namespaces/hansa-system';
    app2.objects.clear();
    app2.put(namespace, {});
    await run('join', 'app2', '--home-kubeconfig', 'app1.kubeconfig');
    const again = await leave();
    assert.equal(again.error, undefined, again.error?.message);
    assert.deepEqual(left(), [namespace]);
  });

  test('keeps a namespace if a kind cannot be listed', async () => {
    answer = ({ path }) =>
      path === '/apis/coordination.k8s.io/v1'
        ? failure(503, 'ServiceUnavailable', 'down')
        : undefined;
    const ran = await leave();
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.deepEqual(left(), ['/api/v1/namespaces/hansa-system']);
    assert.match(ran.notes, /it contains \/apis\/coordination\.k8s\.io\/v1\/\?/);
  });

  test('deletes the namespace while discovery still lists a kind that is gone', async () => {
    answer = ({ path }) =>
      path.startsWith('/apis/coordination.k8s.io/v1')
        ? failure(404, 'NotFound', 'no such kind')
        : undefined;
    assert.equal((await leave()).error, undefined);
    assert.deepEqual(left(), []);
  });

  test('keeps what another site needs', async () => {
    scene.trustDomain = 'bruges.example';
    scene.clusters.delete('app2');
    await run('join', 'app2', '--home-kubeconfig', 'app1.kubeconfig');
    scene.trustDomain = 'lubeck.example';
    app2.put(`${services}/web`, copy('web'));
    const ran = await leave();
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.match(ran.notes, /stay, because other sites lead this cluster: bruges\.example/);
    assert.ok(app2.objects.has(`${services}/web`));
    assert.ok(app2.objects.has(federationPath));
    assert.ok(app2.objects.has(`${account}-bruges.example`));
    assert.ok(!app2.objects.has(account));
    const bindings = left().filter((path) => path.includes('bindings/'));
    assert.ok(
      bindings.every((path) => !path.includes('lubeck.example')),
      bindings.join('\n'),
    );
  });

  for (const [name, use] of [
    ['hansa-token-reviewer-lubeck.example', 'reviews tokens'],
    ['hansa-sync-lubeck.example', 'syncs objects'],
  ] as const) {
    test(`keeps the account and the Cluster where the site also ${use}`, async () => {
      const labels = {
        'app.kubernetes.io/managed-by': 'hansa',
        'hansa.dev/trust-domain': 'lubeck.example',
      };
      const binding = `/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/${name}`;
      app2.put(binding, { metadata: { name, labels } });
      const ran = await leave();
      assert.equal(ran.error, undefined, ran.error?.message);
      assert.ok(app2.objects.has(account));
      assert.ok(app2.objects.has(binding));
      assert.ok(scene.clusters.has('app2'));
      assert.match(
        ran.notes,
        /The namespace hansa-system stays: it contains .*serviceaccounts\/hansa/,
      );
    });
  }

  test('of the supervisor waits for the other members', async () => {
    const early = await run('leave', 'app1');
    assert.equal(early.error?.code, 'HANSA_CONFLICT');
    assert.match(early.error?.message ?? '', /leads app2 from it.*hansa cluster leave app2/);
    await leave();
    const ran = await run('leave', 'app1');
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.deepEqual([...home.objects.keys()], ['/api/v1/namespaces/shop']);
    assert.equal(scene.clusters.size, 0);
  });

  test('can be repeated after it failed', async () => {
    answer = ({ method, path }) =>
      method === 'DELETE' && path === account
        ? failure(403, 'Forbidden', 'cannot delete serviceaccounts')
        : undefined;
    const { error } = await leave();
    assert.equal(error?.code, 'HANSA_FORBIDDEN');
    assert.match(error?.message ?? '', /Cannot delete ServiceAccount hansa-system\/hansa/);
    answer = () => undefined;
    const again = await leave();
    assert.equal(again.error, undefined, again.error?.message);
    assert.deepEqual(left(), []);
    assert.equal((await leave()).error, undefined);
  });

  test('tries again while a policy still keeps the ID', async () => {
    let refusals = 3;
    answer = ({ method, path }) =>
      method === 'DELETE' && path.endsWith('/id.k8s.io') && refusals-- > 0
        ? failure(422, 'Invalid', 'Federation refers to this cluster')
        : undefined;
    assert.equal((await leave()).error, undefined);
    assert.deepEqual(left(), []);
  });

  test('refuses the kubeconfig of another cluster', async () => {
    scene.addKube('app2', await startKube());
    const { error } = await leave();
    assert.match(error?.message ?? '', /the kubeconfig is for .*Choose the kubeconfig or context/);
  });
});
