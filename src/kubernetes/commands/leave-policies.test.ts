// Tests what `hansa cluster leave` does with federated policies and their records.

import assert from 'node:assert/strict';
import { after, afterEach, beforeEach, suite, test } from 'node:test';
import { stopServers } from '../../core/kube/test-api-server.ts';
import { policyAnnotation } from '../names.ts';
import { defaultPolicyKinds } from '../policies/policy-kinds.ts';
import { recordsPath } from '../policies/policy-records.ts';
import { type Call, failure, startKube, type TestKube } from './test-kube.ts';
import { TestScene } from './test-scene.ts';

const policies = '/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies';
const clusterPolicies = '/apis/crd.antrea.io/v1beta1/clusternetworkpolicies';
const shopNamespace = '/api/v1/namespaces/shop';

const federated = { [policyAnnotation]: 'true' };
const marks = { 'clusters.hansa.dev/epoch': '3', 'clusters.hansa.dev/version': 'v' };
const replica = { ...federated, ...marks, 'clusters.hansa.dev/replica-of': 'app1' };

suite('hansa cluster leave with federated policies', () => {
  let scene: TestScene;
  let app2: TestKube;
  /** What the API server of app2 does otherwise. */
  let answer: (call: Call) => ReturnType<typeof failure> | undefined;
  beforeEach(async () => {
    answer = () => undefined;
    scene = new TestScene();
    scene.policyKinds = defaultPolicyKinds;
    const home = await startKube();
    app2 = await startKube((call) => answer(call));
    scene.addKube('app1', home);
    scene.addKube('app2', app2);
    for (const kube of [home, app2]) kube.put(shopNamespace, {});
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
  const put = (path: string, annotations: Record<string, string>): void => {
    const name = path.slice(path.lastIndexOf('/') + 1);
    const isInShop = path.startsWith(policies);
    const metadata = { name, ...(isInShop && { namespace: 'shop' }), annotations };
    app2.put(path, { metadata, spec: { podSelector: {} } });
  };
  /** Everything in app2 but what was there before it joined. */
  const left = (): readonly string[] =>
    [...app2.objects.keys()].filter((path) => path !== shopNamespace).toSorted();
  const annotationsOf = (path: string) => app2.objects.get(path)?.metadata.annotations;

  test('deletes replicas of all kinds and the records', async () => {
    put(`${policies}/deny`, replica);
    put(`${clusterPolicies}/tenants`, replica);
    app2.put(`${recordsPath}/policy-1`, { spec: { state: 'Live' } });
    app2.put(`${recordsPath}/synced`, { spec: { syncedMs: 1 } });
    const ran = await leave();
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.match(ran.notes, /\n {2}2 replicas of federated policies\n/);
    assert.deepEqual(left(), []);
  });

  test('counts one replica as one', async () => {
    put(`${policies}/deny`, replica);
    const { notes } = await leave();
    assert.match(notes, /\n {2}1 replica of a federated policy\n/);
  });

  test('keeps policies of users, without the marks of sites', async () => {
    put(`${policies}/mine`, { ...federated, ...marks, mine: 'x' });
    put(`${policies}/plain`, {});
    put(`${policies}/federated`, federated);
    // Its user removed the annotation, and so took it over.
    put(`${policies}/taken`, { ...marks, 'clusters.hansa.dev/replica-of': 'app1' });
    put(`${clusterPolicies}/wide`, { ...federated, ...marks });
    const ran = await leave();
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.doesNotMatch(ran.notes, /replica/);
    assert.match(
      ran.notes,
      /Policies of users stay, and lose the marks of sites: shop\/mine, shop\/taken, wide/,
    );
    assert.deepEqual(annotationsOf(`${policies}/mine`), { ...federated, mine: 'x' });
    assert.deepEqual(annotationsOf(`${policies}/plain`), {});
    assert.deepEqual(annotationsOf(`${policies}/federated`), federated);
    assert.deepEqual(annotationsOf(`${policies}/taken`), {});
    assert.deepEqual(annotationsOf(`${clusterPolicies}/wide`), federated);
    assert.equal(left().length, 5);
  });

  test('keeps a replica that a user changed meanwhile, and says so', async () => {
    put(`${policies}/deny`, replica);
    answer = ({ method, path }) =>
      method === 'DELETE' && path === `${policies}/deny`
        ? failure(409, 'Conflict', 'it changed')
        : undefined;
    const { error } = await leave();
    assert.equal(error?.code, 'HANSA_CONFLICT');
    assert.match(
      error?.message ?? '',
      /^A copy or replica changed while it was deleted, and stays\. Run the command again/,
    );
    assert.deepEqual(left(), [`${policies}/deny`]);
    answer = () => undefined;
    assert.equal((await leave()).error, undefined);
    assert.deepEqual(left(), []);
  });

  test('deletes a replica that the site wrote while it was stopping', async () => {
    answer = ({ method, path }) => {
      if (method === 'DELETE' && path.includes('/clusterroles/')) put(`${policies}/late`, replica);
      return undefined;
    };
    assert.equal((await leave()).error, undefined);
    assert.deepEqual(left(), []);
  });

  test('tries again while admission still keeps the marks', async () => {
    put(`${policies}/mine`, { ...federated, ...marks });
    let refusals = 3;
    answer = ({ method, path }) =>
      method === 'PATCH' && path === `${policies}/mine` && refusals-- > 0
        ? failure(422, 'Invalid', 'only Hansa sites change epochs')
        : undefined;
    assert.equal((await leave()).error, undefined);
    assert.deepEqual(annotationsOf(`${policies}/mine`), federated);
  });

  test('works where a kind is not served, also where RBAC refuses it first', async () => {
    put(`${policies}/deny`, replica);
    answer = ({ method, path }) => {
      if (method !== 'GET') return undefined;
      if (path.startsWith('/apis/crd.antrea.io/')) return failure(404, 'NotFound', 'no such kind');
      if (path.endsWith('/adminnetworkpolicies')) return failure(403, 'Forbidden', 'no rights');
      return undefined;
    };
    const ran = await leave();
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.deepEqual(left(), []);
  });

  test('without the right to list a kind that is served says so, and changes nothing', async () => {
    put(`${policies}/deny`, replica);
    const before = left();
    answer = ({ method, path }) => {
      if (method !== 'GET') return undefined;
      if (path === '/apis/networking.k8s.io/v1/networkpolicies') {
        return failure(403, 'Forbidden', 'networkpolicies is forbidden');
      }
      const resources = [{ name: 'networkpolicies' }];
      return path === '/apis/networking.k8s.io/v1'
        ? { status: 200, body: { resources } }
        : undefined;
    };
    const { error } = await leave();
    assert.equal(error?.code, 'HANSA_FORBIDDEN');
    assert.match(error?.message ?? '', /networkpolicies is forbidden.*cluster administrator/);
    assert.deepEqual(left(), before);
  });

  test('keeps replicas and records while another site leads the cluster', async () => {
    scene.trustDomain = 'bruges.example';
    scene.clusters.delete('app2');
    await run('join', 'app2', '--home-kubeconfig', 'app1.kubeconfig');
    scene.trustDomain = 'lubeck.example';
    put(`${policies}/deny`, replica);
    put(`${policies}/mine`, { ...federated, ...marks });
    app2.put(`${recordsPath}/policy-1`, { spec: { state: 'Live' } });
    const ran = await leave();
    assert.equal(ran.error, undefined, ran.error?.message);
    assert.doesNotMatch(ran.notes, /replica|Policies of users/);
    assert.deepEqual(annotationsOf(`${policies}/deny`), replica);
    assert.deepEqual(annotationsOf(`${policies}/mine`), { ...federated, ...marks });
    assert.ok(app2.objects.has(`${recordsPath}/policy-1`));
  });
});
