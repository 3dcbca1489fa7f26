// Tests `hansa cluster sync` and `unsync` with test API servers.

import assert from 'node:assert/strict';
import { after, afterEach, beforeEach, suite, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { stopServers } from '../../core/kube/test-api-server.ts';
import { parseKind } from './cluster-sync.ts';
import { type Call, failure, issuer, startKube, type TestKube } from './test-kube.ts';
import { TestScene } from './test-scene.ts';

const crds = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
const rbac = '/apis/rbac.authorization.k8s.io/v1';
const account = '/api/v1/namespaces/kube-fed/serviceaccounts/hansa';

const changes = ({ calls }: TestKube): readonly string[] =>
  calls
    .filter(({ method, isDryRun }) => method !== 'GET' && !isDryRun)
    .map(({ method, path }) => `${method} ${path}`);

suite('hansa cluster sync', () => {
  let scene: TestScene;
  let kube: TestKube;
  let answer: (call: Call) => ReturnType<typeof failure> | undefined;
  beforeEach(async () => {
    answer = () => undefined;
    scene = new TestScene();
    kube = await startKube((call) => answer(call));
    scene.addKube('app1', kube);
    kube.put(account, {
      metadata: { name: 'hansa', labels: { 'hansa.dev/trust-domain': 'lubeck.example' } },
    });
    register({});
    scene.others.set('Role/gitops', {});
    scene.others.set('Role/other', {});
  });
  afterEach(() => scene.end());
  after(() => stopServers());

  /** A Cluster whose objects the site follows already. */
  const register = (spec: object, state = 'True'): void => {
    const conditions = [
      { type: 'ResourcesSynced', status: state, message: 'Look.', observedGeneration: 1 },
    ];
    scene.clusters.set('app1', {
      metadata: { name: 'app1', generation: 1 },
      spec: { issuer, apiServer: kube.server, ...spec },
      status: { conditions },
    } as never);
  };
  const sync = (...args: readonly string[]) =>
    scene.cluster(['sync', 'app1', '--kubeconfig', 'app1.kubeconfig', ...args]);
  const wanted = ['--kind', 'SPIFFEFederation', 'JoinToken', '--role', 'gitops'];
  const markOf = () => scene.clusters.get('app1')?.spec['sync'];
  const roleOf = () => {
    const binding = scene.others.get('RoleBinding/cluster-sync-app1');
    return (binding?.spec as { readonly role: string } | undefined)?.role;
  };

  test('shows what it creates, asks, installs it, gives the role and marks the cluster', async () => {
    const ran = await sync(...wanted);
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.deepEqual(ran.questions, ['Sync app1?']);
    assert.match(ran.notes, /CustomResourceDefinition spiffefederations\.hansa\.dev/);
    assert.match(ran.notes, /may update spiffefederations\/status\.hansa\.dev/);
    assert.match(ran.notes, /cluster:app1 has the role gitops/);
    assert.deepEqual(changes(kube), [
      `PATCH ${crds}/spiffefederations.hansa.dev`,
      `PATCH ${crds}/jointokens.hansa.dev`,
      `PATCH ${rbac}/clusterroles/hansa-sync-lubeck.example`,
      `PATCH ${rbac}/clusterrolebindings/hansa-sync-lubeck.example`,
    ]);
    const binding = kube.objects.get(`${rbac}/clusterrolebindings/hansa-sync-lubeck.example`);
    assert.deepEqual(binding?.['subjects'], [
      { kind: 'ServiceAccount', namespace: 'kube-fed', name: 'hansa' },
    ]);
    assert.deepEqual(markOf(), { kinds: ['SPIFFEFederation', 'JoinToken'] });
    assert.deepEqual(scene.others.get('RoleBinding/cluster-sync-app1'), {
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'RoleBinding',
      metadata: { name: 'cluster-sync-app1' },
      spec: { role: 'gitops', subjects: [{ kind: 'User', name: 'cluster:app1' }] },
    });
    assert.match(ran.printed, /syncs SPIFFEFederation, JoinToken of app1, with the role gitops/);
  });

  test('repeated keeps the kinds and the role, and can change the role', async () => {
    await sync(...wanted);
    const again = await sync();
    assert.equal(again.error, undefined, again.error?.message);
    assert.deepEqual(
      [markOf(), roleOf()],
      [{ kinds: ['SPIFFEFederation', 'JoinToken'] }, 'gitops'],
    );
    const changed = await sync('--kind', 'jointoken', '--role', 'other');
    assert.match(changed.notes, /the role other instead of the role gitops/);
    assert.deepEqual([markOf(), roleOf()], [{ kinds: ['JoinToken'] }, 'other']);
  });

  test('gives the site the rights to read, and to write the status, and no others', async () => {
    await sync(...wanted);
    const role = kube.objects.get(`${rbac}/clusterroles/hansa-sync-lubeck.example`);
    assert.deepEqual(role?.['rules'], [
      {
        apiGroups: ['hansa.dev'],
        resources: ['spiffefederations', 'jointokens'],
        verbs: ['get', 'list', 'watch'],
      },
      {
        apiGroups: ['hansa.dev'],
        resources: ['spiffefederations/status', 'jointokens/status'],
        verbs: ['update'],
      },
      {
        apiGroups: ['apiextensions.k8s.io'],
        resources: ['customresourcedefinitions'],
        resourceNames: ['spiffefederations.hansa.dev', 'jointokens.hansa.dev'],
        verbs: ['get'],
      },
    ]);
  });

  test('with --dry-run prints manifests, and changes nothing', async () => {
    const ran = await sync(...wanted, '--dry-run');
    const kinds = parseAllDocuments(ran.printed).map(
      (document) => (document.toJS() as { kind: string }).kind,
    );
    assert.deepEqual(kinds, [
      'CustomResourceDefinition',
      'CustomResourceDefinition',
      'ClusterRole',
      'ClusterRoleBinding',
    ]);
    assert.doesNotMatch(ran.printed, /\bdefault:/, 'the site sets defaults');
    assert.deepEqual([changes(kube), markOf(), roleOf()], [[], undefined, undefined]);
  });

  test('binds the user that the site authenticates as', async () => {
    const subjectOf = () =>
      kube.objects.get(`${rbac}/clusterrolebindings/hansa-sync-lubeck.example`)?.['subjects'];
    const user = (name: string) => [{ kind: 'User', apiGroup: 'rbac.authorization.k8s.io', name }];
    register({ credential: { jwtSVID: { audience: 'x' } } });
    await sync(...wanted);
    assert.deepEqual(subjectOf(), user('hansa:spiffe://lubeck.example/hansa/site'));
    register({ credential: { tokenFile: 'app1/token' } });
    const unknown = await sync(...wanted);
    assert.match(unknown.error?.message ?? '', /--user/);
    await sync(...wanted, '--user', 'someone');
    assert.deepEqual(subjectOf(), user('someone'));
  });

  test('refuses clusters, kinds and roles that do not fit, before it changes anything', async () => {
    const cases: readonly [args: readonly string[], pattern: RegExp][] = [
      [['--kind', 'JoinToken'], /--role/],
      [['--role', 'gitops'], /--kind/],
      [['--kind', 'JoinToken', '--role', 'missing'], /no role "missing"/],
      [['--kind', 'Cluster', '--role', 'gitops'], /"Cluster" cannot be synced/],
      [['--kind', 'Site', '--role', 'gitops'], /cannot be synced/],
    ];
    for (const [args, pattern] of cases) {
      const { error } = await sync(...args);
      assert.match(error?.message ?? '', pattern, args.join(' '));
    }
    register({ apiServer: 'https://elsewhere.example:6443' });
    assert.match((await sync(...wanted)).error?.message ?? '', /the kubeconfig is for/);
    register({ apiServer: undefined });
    assert.match((await sync(...wanted)).error?.message ?? '', /has no apiServer/);
    scene.clusters.clear();
    assert.match((await sync(...wanted)).error?.message ?? '', /hansa cluster add app1/);
    assert.deepEqual([changes(kube), roleOf()], [[], undefined]);
  });

  test('without a right in the cluster changes nothing', async () => {
    answer = ({ path, method }) =>
      method === 'PATCH' && path.includes('/clusterroles/')
        ? failure(403, 'Forbidden', 'cannot patch clusterroles')
        : undefined;
    const { error } = await sync(...wanted);
    assert.equal(error?.code, 'HANSA_FORBIDDEN');
    assert.deepEqual([changes(kube), markOf(), roleOf()], [[], undefined, undefined]);
  });

  test('says why, if the site cannot read the objects yet', async () => {
    register({}, 'False');
    const { error } = await sync(...wanted);
    assert.equal(error?.code, 'HANSA_UNHEALTHY');
    assert.match(error?.message ?? '', /is marked, but .* Look\./);
  });

  test('takes kinds as kubectl has them', () => {
    assert.equal(parseKind('spiffefederations'), 'SPIFFEFederation');
    assert.equal(parseKind('JOINTOKEN'), 'JoinToken');
    for (const bad of ['', 's', 'cluster', 'pods', 'join token']) {
      assert.throws(() => parseKind(bad), /cannot be synced/);
    }
  });

  test('is undone by unsync, which changes nothing in the cluster', async () => {
    await sync(...wanted);
    kube.calls.length = 0;
    const patches: unknown[] = [];
    scene.answer = (request) => void patches.push([request.method, request.path, request.body]);
    const ran = await scene.cluster(['unsync', 'app1']);
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.deepEqual(ran.questions, ['Stop to take over objects from app1?']);
    assert.deepEqual(patches, [
      ['PATCH', '/apis/hansa.dev/v1alpha1/clusters/app1', { spec: { sync: null } }],
    ]);
    assert.equal(roleOf(), undefined);
    assert.match(ran.notes, /hansa delete JoinToken -l clusters\.hansa\.dev\/origin=app1/);
    assert.match(ran.notes, /kubectl delete .*hansa-sync-lubeck\.example/);
    assert.deepEqual(changes(kube), []);
    assert.match((await scene.cluster(['unsync', 'app9'])).error?.message ?? '', /no cluster app9/);
  });
});
