// Tests `hansa cluster join` with test API servers.

import assert from 'node:assert/strict';
import { after, afterEach, beforeEach, suite, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { stopServers } from '../../core/kube/test-api-server.ts';
import { federationPath } from '../client/cluster-facts.ts';
import { parsePrefix } from './prefix-option.ts';
import { accountToken, type Call, failure, issuer, startKube, type TestKube } from './test-kube.ts';
import { TestScene } from './test-scene.ts';

const claims = '/apis/clusters.hansa.dev/v1alpha1/clusterclaims/';
const account = '/api/v1/namespaces/hansa-system/serviceaccounts/hansa';
const fencing =
  '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/hansa-league-copies';

const writes = ({ calls }: TestKube): readonly string[] =>
  calls
    .filter(({ method, isDryRun }) => method !== 'GET' && !isDryRun)
    .map(({ method, path }) => `${method} ${path}`);
const claim = ({ objects }: TestKube, name: string): unknown =>
  objects.get(`${claims}${name}`)?.spec?.['value'];
const members = ({ objects }: TestKube): unknown => objects.get(federationPath)?.spec?.['members'];

suite('hansa cluster join', () => {
  let scene: TestScene;
  let home: TestKube;
  /** What the API server of app1 does otherwise. */
  let answer: (call: Call) => ReturnType<typeof failure> | undefined;
  beforeEach(async () => {
    answer = () => undefined;
    scene = new TestScene();
    home = await startKube((call) => answer(call));
    scene.addKube('app1', home);
  });
  afterEach(() => scene.end());
  after(() => stopServers());

  const join = (name: string, ...args: readonly string[]) =>
    scene.cluster(['join', name, '--kubeconfig', `${name}.kubeconfig`, ...args]);
  const joinHome = (...args: readonly string[]) => join('app1', '--supervisor', ...args);

  test('shows what it creates, asks, installs it, and makes the first cluster the supervisor', async () => {
    const ran = await joinHome('--endpoint-prefix', '10.1.0.0/16', '--routable', '--dns');
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.match(ran.notes, /CustomResourceDefinition federations\.clusters\.hansa\.dev/);
    assert.match(ran.notes, /ServiceAccount hansa-system\/hansa/);
    assert.match(ran.notes, /may .*create.* services/);
    assert.match(ran.notes, /ValidatingAdmissionPolicy hansa-league-copies/);
    assert.match(
      ran.notes,
      /the member app1 of the cluster set default, endpoints in 10\.1\.0\.0\/16/,
    );
    assert.deepEqual(ran.questions, ['Join app1?']);
    assert.equal(ran.printed, 'app1 joined the cluster set default');
    assert.equal(claim(home, 'id.k8s.io'), 'app1');
    assert.equal(claim(home, 'clusterset.k8s.io'), 'default');
    assert.equal(claim(home, 'namespace.clusters.hansa.dev'), 'hansa-system');
    assert.equal(claim(home, 'supervisor.antreaplus.vmware-tanzu.com'), 'true');
    assert.deepEqual(members(home), [
      { clusterID: 'app1', routable: true, dns: true, endpointPrefixes: ['10.1.0.0/16'] },
    ]);
    const { spec } = scene.clusters.get('app1') ?? {};
    assert.equal(spec?.local, true);
    assert.equal(spec?.['apiServer'], home.server);
    assert.equal(spec?.['issuer'], issuer);
    assert.deepEqual(spec?.['validation'], { mode: 'jwks' });
    assert.deepEqual(scene.credentials.get('app1'), {
      token: accountToken,
      apiServer: home.server,
    });
    for (const secret of [accountToken, 'admin-token', 'c2ln']) {
      assert.ok(!`${ran.printed}${ran.notes}`.includes(secret), 'prints no credential');
    }
  });

  test('adds a member to Federation of the home cluster, and keeps the others', async () => {
    await joinHome();
    const app2 = await startKube();
    scene.addKube('app2', app2);
    const flags = ['--home-kubeconfig', 'app1.kubeconfig', '--endpoint-prefix', 'fd00:2::/32'];
    const ran = await join('app2', ...flags);
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.deepEqual(members(home), [
      { clusterID: 'app1' },
      { clusterID: 'app2', endpointPrefixes: ['fd00:2::/32'] },
    ]);
    assert.deepEqual(app2.objects.get(federationPath)?.spec, { clusterSet: 'default' });
    assert.equal(claim(app2, 'supervisor.antreaplus.vmware-tanzu.com'), undefined);
    assert.equal(scene.clusters.get('app2')?.spec.local, undefined);
  });

  test('finds the home cluster in the same kubeconfig by its API server', async () => {
    await joinHome();
    const app2 = await startKube();
    scene.addKube('app2', app2);
    const [one, two] = [home.kubeconfig, app2.kubeconfig] as [KubeconfigParts, KubeconfigParts];
    scene.writeConfig('app2.kubeconfig', {
      kind: 'Config',
      clusters: [
        { name: 'one', cluster: one.clusters[0]?.cluster },
        { name: 'two', cluster: two.clusters[0]?.cluster },
      ],
      users: one.users,
      contexts: [
        { name: 'first', context: { cluster: 'one', user: 'u' } },
        { name: 'second', context: { cluster: 'two', user: 'u' } },
      ],
    });
    const ran = await join('app2', '--context', 'second');
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.equal((members(home) as readonly unknown[]).length, 2);
  });

  test('without a way to the home cluster says which flag is missing, and changes nothing', async () => {
    await joinHome();
    const app2 = await startKube();
    scene.addKube('app2', app2);
    const { error } = await join('app2');
    assert.equal(error?.code, 'HANSA_USAGE');
    assert.match(error?.message ?? '', /Federation of the cluster app1 .*--home-kubeconfig/);
    assert.deepEqual(writes(app2), []);
    const wrong = await join('app2', '--home-kubeconfig', 'app2.kubeconfig');
    assert.match(wrong.error?.message ?? '', /--home-kubeconfig is for .*--home-context/);
  });

  test('can be repeated, and repairs what is missing', async () => {
    await joinHome('--endpoint-prefix', '10.1.0.0/16');
    home.objects.delete(account);
    home.objects.delete(`${claims}id.k8s.io`);
    scene.credentials.clear();
    const ran = await join('app1', '-o', 'json');
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.deepEqual(JSON.parse(ran.printed), {
      name: 'app1',
      created: false,
      id: 'app1',
      clusterSet: 'default',
      isSupervisor: true,
      namespace: 'hansa-system',
      state: 'Ready',
    });
    assert.ok(home.objects.has(account));
    assert.equal(claim(home, 'id.k8s.io'), 'app1');
    assert.deepEqual(members(home), [{ clusterID: 'app1', endpointPrefixes: ['10.1.0.0/16'] }]);
    assert.ok(scene.credentials.has('app1'));
  });

  test('writes the member again if somebody else changed Federation meanwhile', async () => {
    await joinHome();
    let isFirst = true;
    answer = ({ method, path }) => {
      if (method !== 'PUT' || path !== federationPath || !isFirst) return undefined;
      isFirst = false;
      return failure(409, 'Conflict', 'the object has been modified');
    };
    scene.addKube('app2', await startKube());
    const ran = await join('app2', '--home-kubeconfig', 'app1.kubeconfig');
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.equal(isFirst, false);
    assert.equal((members(home) as readonly unknown[]).length, 2);
  });

  test('keeps an ID that differs from the name in a label of the Cluster', async () => {
    const ran = await joinHome('--id', 'hamburg', '--cluster-set', 'north');
    assert.equal(ran.printed, 'app1 joined the cluster set north as hamburg');
    assert.deepEqual(scene.clusters.get('app1')?.metadata.labels, {
      'clusters.hansa.dev/id': 'hamburg',
    });
    const again = await joinHome('--id', 'bremen');
    assert.equal(again.error?.code, 'HANSA_CONFLICT');
    assert.match(again.error?.message ?? '', /has the ID hamburg .*Leave --id out/);
  });

  test('refuses a cluster that belongs to another cluster set', async () => {
    await joinHome();
    const app2 = await startKube();
    scene.addKube('app2', app2);
    for (const plural of ['clusterclaims', 'federations']) {
      const name = `${plural}.clusters.hansa.dev`;
      app2.put(`/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${name}`, {});
    }
    app2.put(`${claims}clusterset.k8s.io`, { spec: { name: 'clusterSet.k8s.io', value: 'south' } });
    const { error } = await join('app2', '--home-kubeconfig', 'app1.kubeconfig');
    assert.equal(error?.code, 'HANSA_CONFLICT');
    assert.match(error?.message ?? '', /belongs to south \(ClusterClaim clusterSet\.k8s\.io\)/);
    const other = await join('app2', '--home-kubeconfig', 'app1.kubeconfig', '--cluster-set', 'x');
    assert.match(other.error?.message ?? '', /this site leads default \(Federation in app1\)/);
    assert.deepEqual(writes(app2), []);
  });

  test('refuses a cluster whose sites have another system namespace', async () => {
    await joinHome();
    const before = writes(home).length;
    const { error } = await join('app1', '--namespace', 'other-system');
    assert.equal(error?.code, 'HANSA_CONFLICT');
    assert.match(
      error?.message ?? '',
      /system namespace other-system in app1: .* have hansa-system .*--kubernetes-namespace hansa-system/,
    );
    assert.equal(writes(home).length, before);
  });

  test('refuses two clusters with one ID', async () => {
    await joinHome('--id', 'hamburg');
    const app2 = await startKube();
    scene.addKube('app2', app2);
    const flags = ['--home-kubeconfig', 'app1.kubeconfig', '--id', 'hamburg'];
    const { error } = await join('app2', ...flags);
    assert.match(error?.message ?? '', /the ID hamburg belongs to the cluster app1 .*--id/);
    assert.deepEqual(writes(app2), []);
  });

  test('refuses an ID that Federation gives to another API server', async () => {
    await joinHome();
    const federation = home.objects.get(federationPath);
    home.put(federationPath, {
      ...federation,
      spec: {
        clusterSet: 'default',
        members: [{ clusterID: 'app1' }, { clusterID: 'app2', server: 'https://other:6443' }],
      },
    });
    scene.addKube('app2', await startKube());
    const { error } = await join('app2', '--home-kubeconfig', 'app1.kubeconfig');
    assert.match(error?.message ?? '', /the ID app2 for the API server https:\/\/other:6443/);
  });

  test('refuses one cluster under two names, and a name of another cluster', async () => {
    await joinHome();
    scene.writeConfig('twin.kubeconfig', home.kubeconfig);
    const twin = await join('twin', '--home-kubeconfig', 'app1.kubeconfig');
    assert.match(twin.error?.message ?? '', /under the name app1\. Use that name/);
    const other = await startKube();
    scene.addKube('app1', other);
    const moved = await join('app1');
    assert.match(moved.error?.message ?? '', /a cluster of this name at .*another kubeconfig/);
    assert.deepEqual(writes(other), []);
  });

  test('without a supervisor, or with two, says what to do', async () => {
    scene.addKube('app2', await startKube());
    const early = await join('app2');
    assert.equal(early.error?.code, 'HANSA_BAD_REQUEST');
    assert.match(early.error?.message ?? '', /has no supervisor cluster yet.*--supervisor/);
    await joinHome();
    const second = await join('app2', '--supervisor');
    assert.match(
      second.error?.message ?? '',
      /already leads from app1\. Each supervisor.*own site/,
    );
  });

  test('without a right says which, before it changes anything', async () => {
    const why = 'User "u" cannot patch resource "customresourcedefinitions"';
    const weak = await startKube(({ path }) =>
      path.includes('/customresourcedefinitions/') ? failure(403, 'Forbidden', why) : undefined,
    );
    scene.addKube('app1', weak);
    const { error, questions } = await joinHome();
    assert.equal(error?.code, 'HANSA_FORBIDDEN');
    assert.match(error?.message ?? '', /cannot patch resource .*Nothing was changed/);
    assert.deepEqual(questions, []);
    assert.deepEqual(writes(weak), []);
  });

  test('without the right to read claims says so', async () => {
    const weak = await startKube(({ path }) =>
      path.includes('/clusterclaims') ? failure(403, 'Forbidden', 'no claims') : undefined,
    );
    scene.addKube('app1', weak);
    const { error } = await joinHome();
    assert.equal(error?.code, 'HANSA_FORBIDDEN');
    assert.match(error?.message ?? '', /no claims.*cluster administrator/);
  });

  test('leaves policies out where the API server has none, with a warning', async () => {
    const old = await startKube(({ path }) =>
      path === '/apis/admissionregistration.k8s.io/v1'
        ? { status: 200, body: { resources: [{ name: 'validatingwebhookconfigurations' }] } }
        : undefined,
    );
    scene.addKube('app1', old);
    const ran = await joinHome();
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.match(ran.notes, /Warning: this API server has no admission policies/);
    assert.ok(!writes(old).some((line) => line.includes('validatingadmission')));
  });

  test('uses the ServiceAccount that hansa cluster add created', async () => {
    const path = '/api/v1/namespaces/kube-fed/serviceaccounts/hansa';
    home.put(path, {
      metadata: { name: 'hansa', labels: { 'hansa.dev/trust-domain': 'lubeck.example' } },
    });
    const ran = await joinHome();
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.match(ran.notes, /a token of ServiceAccount kube-fed\/hansa/);
    assert.ok(!home.objects.has(account));
    assert.ok(home.calls.some((call) => call.path === `${path}/token`));
  });

  test('gives a second site an account of its own, and keeps the users of the first', async () => {
    const labels = { 'hansa.dev/trust-domain': 'bruges.example' };
    home.put('/api/v1/namespaces/hansa-system', {});
    home.put(account, { metadata: { name: 'hansa', labels } });
    const annotations = { 'clusters.hansa.dev/principals': '["other-user"]' };
    home.put(fencing, { metadata: { name: 'hansa-league-copies', annotations } });
    const ran = await joinHome();
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.ok(home.objects.has(`${account}-lubeck.example`));
    assert.deepEqual(home.objects.get(account)?.metadata.labels, labels);
    assert.match(JSON.stringify(home.objects.get(fencing)), /other-user/);
    assert.deepEqual(
      home.objects.get('/api/v1/namespaces/hansa-system')?.metadata.labels,
      undefined,
    );
  });

  test('needs no ServiceAccount where the Cluster uses the JWT-SVID of the site', async () => {
    const spec = { issuer, apiServer: home.server, credential: { jwtSVID: { audience: 'x' } } };
    scene.clusters.set('app1', { metadata: { name: 'app1' }, spec });
    const ran = await joinHome();
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.ok(!home.objects.has(account));
    assert.equal(scene.credentials.size, 0);
    assert.match(JSON.stringify([...home.objects.values()]), /hansa:spiffe:\/\/lubeck\.example/);
  });

  test('says how to go on where the Cluster has another credential', async () => {
    const spec = { issuer, apiServer: home.server, credential: { tokenFile: 'x' } };
    scene.clusters.set('app1', { metadata: { name: 'app1' }, spec });
    const { error } = await joinHome();
    assert.match(error?.message ?? '', /credential from tokenFile.*hansa cluster manifests app1/);
  });

  test('fails where the site cannot use the member, with the reason of the site', async () => {
    scene.stateOf = () => ({ state: 'Refused', reason: 'WrongID', message: 'It says app9.' });
    const { printed, error } = await joinHome();
    assert.equal(printed, 'app1 joined the cluster set default');
    assert.equal(error?.code, 'HANSA_UNHEALTHY');
    assert.match(error?.message ?? '', /WrongID: It says app9\./);
  });

  test('gives up on a CRD that the API server never serves', async () => {
    const stuck = await startKube(({ method, path }) =>
      method === 'GET' && path.includes('/customresourcedefinitions/')
        ? { status: 200, body: { apiVersion: 'v1', kind: 'Crd', metadata: { name: 'x' } } }
        : undefined,
    );
    scene.addKube('app1', stuck);
    const { error } = await joinHome();
    assert.match(error?.message ?? '', /does not serve the CRD .*kubectl describe crd/);
    assert.equal(scene.clusters.size, 0);
  });

  test('with --dry-run prints manifests and changes nothing', async () => {
    const ran = await joinHome('--dry-run');
    const kinds = parseAllDocuments(ran.printed).map(
      (each) => (each.toJS() as { kind: string }).kind,
    );
    assert.equal(kinds[0], 'CustomResourceDefinition');
    assert.ok(kinds.includes('ClusterClaim'));
    assert.deepEqual(writes(home), []);
    assert.equal(scene.clusters.size, 0);
  });

  test('an endpoint prefix must be one', () => {
    assert.equal(parsePrefix('10.1.0.0/16'), '10.1.0.0/16');
    assert.equal(parsePrefix('fd00::/8'), 'fd00::/8');
    for (const bad of [
      '10.1.0.0',
      '10.1.0.0/33',
      'fd00::/129',
      'fe80::1%eth0/64',
      'x/8',
      '::/0/1',
      '1.2.3.4/',
    ]) {
      assert.throws(() => parsePrefix(bad), /Expected a prefix/, bad);
    }
  });
});

interface KubeconfigParts {
  readonly clusters: readonly { readonly cluster: object }[];
  readonly users: readonly object[];
}
