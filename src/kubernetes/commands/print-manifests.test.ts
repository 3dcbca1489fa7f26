// Tests `hansa cluster manifests` with and without a test API server.

import assert from 'node:assert/strict';
import { after, afterEach, beforeEach, suite, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { stopServers } from '../../core/kube/test-api-server.ts';
import { manifestPath } from '../../core/kube/manifests/manifest-path.ts';
import type { Manifest } from '../../core/kube/manifests/manifest.ts';
import { type Call, failure, startKube, type TestKube } from './test-kube.ts';
import { TestScene } from './test-scene.ts';

const accounts = '/api/v1/namespaces/hansa-system/serviceaccounts';
const admission = '/apis/admissionregistration.k8s.io/v1';
const fencing = `${admission}/validatingadmissionpolicies/hansa-league-copies`;

suite('hansa cluster manifests', () => {
  let scene: TestScene;
  beforeEach(() => {
    scene = new TestScene();
  });
  afterEach(() => scene.end());
  after(() => stopServers());

  type Document = { readonly kind: string; readonly spec?: Record<string, unknown> };
  const documents = (text: string): readonly Document[] =>
    parseAllDocuments(text).map((each) => each.toJS() as Document);

  test('prints what join creates, for a member', async () => {
    const { printed } = await scene.cluster(['manifests', 'app2', '--cluster-set', 'north']);
    const all = documents(printed);
    assert.deepEqual(all.at(-1)?.spec, { clusterSet: 'north' });
    const kinds = new Set(all.map(({ kind }) => kind));
    for (const kind of [
      'CustomResourceDefinition',
      'Namespace',
      'ServiceAccount',
      'ClusterRole',
      'ValidatingAdmissionPolicy',
      'ClusterClaim',
    ]) {
      assert.ok(kinds.has(kind), kind);
    }
  });

  test('prints the Federation of a supervisor with its members', async () => {
    const { printed } = await scene.cluster([
      'manifests',
      'app1',
      '--supervisor',
      '--member',
      'app2',
      'app3',
      '--no-policies',
    ]);
    const all = documents(printed);
    assert.deepEqual(all.at(-1)?.spec?.['members'], [
      { clusterID: 'app1' },
      { clusterID: 'app2' },
      { clusterID: 'app3' },
    ]);
    assert.ok(!printed.includes('ValidatingAdmissionPolicy'));
  });

  test('with --user binds the user of the site, and creates no account', async () => {
    const { printed } = await scene.cluster(['manifests', 'app1', '--user']);
    assert.match(printed, /name: hansa:spiffe:\/\/lubeck\.example\/hansa\/site/);
    assert.ok(!documents(printed).some(({ kind }) => kind === 'ServiceAccount'));
  });

  test('refuses names that are none, and members without a supervisor', async () => {
    const bad = await scene.cluster(['manifests', 'Not.A_Label']);
    assert.match(bad.error?.message ?? '', /is not a DNS label/);
    const member = await scene.cluster(['manifests', 'app1', '--member', 'app2']);
    assert.match(member.error?.message ?? '', /Add --supervisor/);
  });

  /** What a command applied or created, by path. */
  const written = ({ calls }: TestKube): ReadonlyMap<string, unknown> =>
    new Map(
      calls.flatMap(({ method, path, body, isDryRun }): readonly [string, unknown][] => {
        if (isDryRun || body === undefined || path.endsWith('/token')) return [];
        if (method === 'PATCH') return [[path, body]];
        return method === 'POST' ? [[`${path}/${body.metadata.name}`, body]] : [];
      }),
    );
  const printedObjects = (text: string): ReadonlyMap<string, unknown> =>
    new Map(
      parseAllDocuments(text).map((each) => {
        const manifest = each.toJS() as Manifest;
        return [manifestPath(manifest), manifest];
      }),
    );
  const start = async (
    name: string,
    answer?: (call: Call) => ReturnType<typeof failure> | undefined,
  ): Promise<TestKube> => {
    const kube = await startKube(answer);
    scene.addKube(name, kube);
    return kube;
  };
  const join = async (name: string, ...args: readonly string[]): Promise<void> => {
    const { error } = await scene.cluster([
      'join',
      name,
      '--kubeconfig',
      `${name}.kubeconfig`,
      ...args,
    ]);
    assert.equal(error, undefined, error?.message);
  };
  const from = (name: string) => ['--kubeconfig', `${name}.kubeconfig`];

  test('prints exactly the objects that join writes, for a supervisor and for a member', async () => {
    const flags = ['--endpoint-prefix', '10.1.0.0/16', '--routable'];
    const alone = await scene.cluster(['manifests', 'app1', '--supervisor', ...flags]);
    const home = await start('app1');
    const read = await scene.cluster([
      'manifests',
      'app1',
      '--supervisor',
      ...flags,
      ...from('app1'),
    ]);
    assert.deepEqual(written(home), new Map());
    await join('app1', '--supervisor', ...flags);
    assert.deepEqual(printedObjects(alone.printed), written(home));
    assert.deepEqual(printedObjects(read.printed), written(home));

    const member = await scene.cluster(['manifests', 'app2']);
    const app2 = await start('app2');
    await join('app2', '--home-kubeconfig', 'app1.kubeconfig');
    assert.deepEqual(printedObjects(member.printed), written(app2));
  });

  test('prints what join writes for Kubernetes without admission policies', async () => {
    const alone = await scene.cluster(['manifests', 'app1', '--supervisor', '--no-policies']);
    const old = await start('app1', ({ path }) =>
      path === admission ? { status: 200, body: { resources: [] } } : undefined,
    );
    const read = await scene.cluster(['manifests', 'app1', '--supervisor', ...from('app1')]);
    await join('app1', '--supervisor');
    assert.deepEqual(printedObjects(alone.printed), written(old));
    assert.deepEqual(printedObjects(read.printed), written(old));
  });

  test('with a kubeconfig keeps the account and the users of another site', async () => {
    const kube = await start('app1');
    const labels = { 'hansa.dev/trust-domain': 'bruges.example' };
    kube.put(`${accounts}/hansa`, { metadata: { name: 'hansa', labels } });
    kube.put('/api/v1/namespaces/hansa-system', {});
    const annotations = { 'clusters.hansa.dev/principals': '["other-user"]' };
    kube.put(fencing, { metadata: { name: 'hansa-league-copies', annotations } });
    const read = await scene.cluster(['manifests', 'app1', '--supervisor', ...from('app1')]);
    assert.equal(read.error, undefined, read.error?.message);
    const objects = printedObjects(read.printed);
    assert.ok(objects.has(`${accounts}/hansa-lubeck.example`));
    assert.ok(!objects.has(`${accounts}/hansa`));
    assert.ok(!objects.has('/api/v1/namespaces/hansa-system'), 'a user created it');
    assert.match(JSON.stringify(objects.get(fencing)), /other-user/);
    await join('app1', '--supervisor');
    assert.deepEqual(objects, written(kube));
  });

  test('takes the users and the account of other sites from flags', async () => {
    const ran = await scene.cluster([
      'manifests',
      'app1',
      '--principal',
      'one-user',
      'other-user',
      '--account',
      'hansa-lubeck',
    ]);
    const objects = printedObjects(ran.printed);
    assert.ok(objects.has(`${accounts}/hansa-lubeck`));
    assert.match(JSON.stringify(objects.get(fencing)), /one-user.*other-user/);
  });

  test('with a kubeconfig keeps the members and Secrets of Federation', async () => {
    await start('app1');
    await join('app1', '--supervisor', '--endpoint-prefix', '10.1.0.0/16');
    const { printed } = await scene.cluster(['manifests', 'app1', '--supervisor', ...from('app1')]);
    assert.deepEqual(documents(printed).at(-1)?.spec, {
      clusterSet: 'default',
      members: [{ clusterID: 'app1', endpointPrefixes: ['10.1.0.0/16'] }],
    });
    const more = await scene.cluster([
      'manifests',
      'app1',
      '--supervisor',
      '--member',
      'app2',
      '--secret',
      'app2',
      ...from('app1'),
    ]);
    assert.deepEqual(documents(more.printed).at(-1)?.spec?.['members'], [
      { clusterID: 'app1', endpointPrefixes: ['10.1.0.0/16'] },
      { clusterID: 'app2' },
    ]);
    assert.match(more.printed, /hansa-league-secrets-lubeck\.example/);
  });

  test('with a kubeconfig refuses an ID that is not that of the cluster', async () => {
    await start('app1');
    await join('app1', '--supervisor');
    const { error } = await scene.cluster(['manifests', 'app2', ...from('app1')]);
    assert.equal(error?.code, 'HANSA_CONFLICT');
    assert.match(error?.message ?? '', /the cluster has the ID app1/);
  });

  test('with a kubeconfig refuses another system namespace than that of the cluster', async () => {
    await start('app1');
    await join('app1', '--supervisor');
    const flags = ['--namespace', 'other-system'];
    const { error } = await scene.cluster(['manifests', 'app1', ...from('app1'), ...flags]);
    assert.equal(error?.code, 'HANSA_CONFLICT');
    assert.match(error?.message ?? '', /have hansa-system \(ClusterClaim namespace\./);
  });

  test('with a kubeconfig says which right is missing', async () => {
    await start('app1', ({ path }) =>
      path.includes('/clusterclaims') ? failure(403, 'Forbidden', 'no claims') : undefined,
    );
    const { error } = await scene.cluster(['manifests', 'app1', ...from('app1')]);
    assert.equal(error?.code, 'HANSA_FORBIDDEN');
    const missing = await scene.cluster(['manifests', 'app1', '--kubeconfig', 'none']);
    assert.match(missing.error?.message ?? '', /Cannot read .*none/);
  });

  test('refuses an account and a user at once', async () => {
    const { error } = await scene.cluster(['manifests', 'app1', '--account', 'x', '--user']);
    assert.match(error?.message ?? '', /--account or --user/);
  });
});
