// Tests `hansa spire` with a test API server.

import assert from 'node:assert/strict';
import { after, afterEach, beforeEach, suite, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { stopServers } from '../../core/kube/test-api-server.ts';
import { kubernetesPaths } from '../paths.ts';
import { issuer, startKube, type TestKube } from './test-kube.ts';
import { TestScene } from './test-scene.ts';

const crd =
  '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/spireservers.operator.openshift.io';
const account = '/api/v1/namespaces/kube-fed/serviceaccounts/hansa';

suite('hansa spire', () => {
  let scene: TestScene;
  let kube: TestKube;
  beforeEach(async () => {
    scene = new TestScene();
    kube = await startKube();
    scene.addKube('app1', kube);
    kube.put(account, {
      metadata: { name: 'hansa', labels: { 'hansa.dev/trust-domain': 'lubeck.example' } },
    });
    scene.clusters.set('app1', {
      metadata: { name: 'app1', generation: 1 },
      spec: { issuer, apiServer: kube.server },
      status: {
        conditions: [
          { type: 'SpireOperated', status: 'True', message: 'Look.', observedGeneration: 1 },
        ],
      },
    } as never);
  });
  afterEach(() => scene.end());
  after(() => stopServers());

  const install = (...args: readonly string[]) =>
    scene.spire(['install', 'app1', '--kubeconfig', 'app1.kubeconfig', ...args]);
  const written = () =>
    kube.calls
      .filter(({ method, isDryRun }) => method !== 'GET' && !isDryRun)
      .map(({ method, path }) => `${method} ${path}`);

  test('install shows what it creates, asks, installs it and marks the cluster', async () => {
    const ran = await install('--secret', 'tls', '--class-name', 'hansa');
    assert.equal(ran.error, undefined);
    assert.match(ran.notes, /CustomResourceDefinition spireservers\.operator\.openshift\.io/);
    assert.match(ran.notes, /may get secrets, only tls/);
    assert.deepEqual(ran.questions, ['Operate the SPIRE server of app1?']);
    assert.ok(written().includes(`PATCH ${crd}`));
    assert.deepEqual(scene.clusters.get('app1')?.spec['spire'], {
      namespace: 'spire',
      maxFederatedClusters: 50,
      className: 'hansa',
    });
  });

  test('install names the peers whose bundles count, until it is repeated without them', async () => {
    const peersOf = () => {
      const mark = scene.clusters.get('app1')?.spec['spire'] as
        | { bundlePeers?: unknown }
        | undefined;
      return mark?.bundlePeers;
    };
    await install('--bundle-peer', 'bruges.example', 'reval.example');
    assert.deepEqual(peersOf(), ['bruges.example', 'reval.example']);
    await install();
    assert.equal(peersOf(), undefined);
  });

  test('install leaves the CRD of another operator alone', async () => {
    kube.put(crd, { metadata: { name: 'spireservers.operator.openshift.io' } });
    const ran = await install();
    assert.equal(ran.error, undefined);
    assert.ok(!written().some((line) => line.includes('customresourcedefinitions')));
    assert.match(ran.notes, /is another operator's and stays as it is/);
  });

  test('install refuses a cluster that the site does not have, or has elsewhere', async () => {
    const unknown = await scene.spire(['install', 'app2', '--kubeconfig', 'app1.kubeconfig']);
    assert.match(unknown.error?.message ?? '', /The site has no cluster app2/);
    scene.clusters.set('app1', {
      metadata: { name: 'app1' },
      spec: { issuer, apiServer: 'https://other.example' },
    });
    const other = await install();
    assert.equal(other.error?.code, 'HANSA_CONFLICT');
    assert.deepEqual(written(), []);
  });

  for (const limit of ['0', '1001', 'many', '-1', '1.5']) {
    test(`a limit of ${limit} is refused`, async () => {
      const ran = await install(`--max-federated-clusters=${limit}`);
      assert.equal(ran.error?.code, 'HANSA_USAGE');
      assert.deepEqual(written(), []);
    });
  }

  test('manifests prints the CRD with the limit, and warns of a raised one', async () => {
    const ran = await scene.spire(['manifests', '--max-federated-clusters', '60']);
    assert.match(ran.notes, /limit of trust domains is 60/);
    assert.match(ran.printed, /maxItems: 60/);
    const kinds = parseAllDocuments(ran.printed).map(
      (each) => (each.toJS() as { readonly kind: string }).kind,
    );
    assert.deepEqual(kinds, [
      'CustomResourceDefinition',
      'Namespace',
      'ClusterRole',
      'ClusterRoleBinding',
      'Role',
      'RoleBinding',
      'ValidatingAdmissionPolicy',
      'ValidatingAdmissionPolicyBinding',
    ]);
    const without = await scene.spire([
      'manifests',
      '--no-crd',
      '--no-policies',
      '--user',
      'hansa:site',
    ]);
    assert.doesNotMatch(without.printed, /CustomResourceDefinition/);
    assert.doesNotMatch(without.printed, /AdmissionPolicy/);
    assert.match(without.printed, /hansa:site/);
    const wrong = await scene.spire(['manifests', '--account', 'hansa']);
    assert.equal(wrong.error?.code, 'HANSA_USAGE');
  });

  for (const [value, flags, limit] of [
    ['70', [], 70],
    ['70', ['--max-federated-clusters', '60'], 60],
    ['many', [], 50],
    ['0', [], 50],
  ] as const) {
    test(`MAX_FEDERATED_CLUSTERS=${value} ${flags.join('=')} gives a schema with ${limit}`, async () => {
      scene.env = { MAX_FEDERATED_CLUSTERS: value };
      const ran = await scene.spire(['manifests', ...flags]);
      assert.match(ran.printed, new RegExp(`maxItems: ${limit}\\n`));
      assert.equal(/limit of trust domains/.test(ran.notes), limit > 50);
    });
  }

  test('list and show print servers, with the first thing that is wrong', async () => {
    const server = {
      cluster: 'app1',
      trustDomain: 'a.example',
      conditions: [
        { type: 'FederationConfigurationValid', status: 'True', reason: 'Valid', message: 'Good.' },
        {
          type: 'FederationRouteReady',
          status: 'False',
          reason: 'HostTaken',
          message: 'Taken\u001b[1m.',
        },
      ],
      relationships: [{ trustDomain: 'b.example', state: 'Fresh', since: '2026-01-01T00:00:00Z' }],
    };
    scene.answer = ({ path }) =>
      path === kubernetesPaths.spire ? { servers: [server] } : undefined;
    const listed = await scene.spire(['list']);
    assert.match(listed.printed, /app1 +a\.example +True +False +1\/1 +Taken/);
    assert.ok(!listed.printed.includes('\u001b'));
    const shown = await scene.spire(['show', 'app1']);
    assert.match(shown.printed, /FederationRouteReady +False +HostTaken/);
    assert.match(shown.printed, /b\.example +Fresh/);
    const missing = await scene.spire(['show', 'app2']);
    assert.equal(missing.error?.code, 'HANSA_NOT_FOUND');
    scene.answer = () => ({ servers: [] });
    assert.match((await scene.spire(['list'])).notes, /operates no SPIRE server/);
  });
});
