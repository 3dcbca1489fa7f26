// The SPIRE operator on a real kube-apiserver with kube-controller-manager, with kubectl and a real site: a
// SpireServer becomes a StatefulSet with its Service and exposure, drift is repaired, and everything goes with it.
// No kubelet runs, so no Pod becomes ready.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import {
  federations,
  peerDomain,
  spireServer,
} from '../../src/kubernetes/spire/test-spire-servers.ts';
import { type Daemon, hansa, startDaemon, temporaryFolder } from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { type KubeCluster, startKubeCluster } from './kube-cluster.ts';
import { Kubectl } from './kubectl.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('etcd', 'kube-apiserver', 'kube-controller-manager', 'kubectl');

const account = 'system:serviceaccount:kube-fed:hansa';
const exposure = { host: 'federation.a.example' };
const federation = {
  ...federations['https_spiffe by default'],
  exposure,
  networkPolicy: { fromCIDRs: ['10.0.0.0/8'] },
  federatesWith: [peerDomain],
};
const controllers = [
  'garbage-collector-controller',
  'statefulset-controller',
  'namespace-controller',
];

interface Found {
  readonly metadata: { readonly generation: number; readonly resourceVersion: string };
  readonly spec: { readonly replicas?: number };
  readonly data?: Readonly<Record<string, string>>;
  readonly status?: {
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason: string;
      readonly message: string;
    }[];
    readonly relationships?: readonly { readonly trustDomain: string; readonly state: string }[];
  };
}

suite('the SPIRE operator, with a real kube-apiserver', { skip }, () => {
  const folder = temporaryFolder();
  let etcd: Etcd;
  let kube: KubeCluster;
  let kubectl: Kubectl;
  let site: Daemon;
  before(async () => {
    etcd = await startEtcd();
    kube = await startKubeCluster('app1', { etcd, controllers });
    kubectl = await Kubectl.with(kube.kubeconfig);
    site = await startDaemon(join(folder, 'site'), [
      '--kubernetes-spire-enabled',
      'true',
      '--kubernetes-spire-sidecar-image',
      'hansa:1',
    ]);
    await run('cluster', 'add', 'app1', '--kubeconfig', kube.kubeconfig, '--yes');
  });
  after(async () => {
    await site?.signal('SIGTERM');
    await kubectl?.close();
    await kube?.stop();
    await etcd?.stop();
  });

  const tryRun = (...args: readonly string[]) => hansa([...args, '--data-dir', site.dataDir]);
  const run = async (...args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await tryRun(...args);
    assert.equal(code, 0, `hansa ${args.join(' ')}: ${stderr}`);
    return stdout;
  };
  const install = (...args: readonly string[]) =>
    run('spire', 'install', 'app1', '--kubeconfig', kube.kubeconfig, ...args, '--yes');
  const apply = (object: object) =>
    kubectl.ok(['apply', '-f', '-'], { input: JSON.stringify(object) });
  const wait = (condition: string) =>
    kubectl.ok(['wait', 'spireserver/cluster', `--for=condition=${condition}`, '--timeout=60s']);
  const get = async (what: string, ...flags: readonly string[]): Promise<Found | undefined> => {
    const { code, stdout } = await kubectl.run(['get', what, '-o', 'json', ...flags]);
    return code === 0 ? (JSON.parse(stdout) as Found) : undefined;
  };
  const inNamespace = (what: string) => get(what, '-n', 'spire');
  const conditionOf = async (type: string) =>
    (await get('spireserver/cluster'))?.status?.conditions?.find((each) => each.type === type);
  const untilReason = (type: string, reason: string) =>
    until(async () => (await conditionOf(type))?.reason === reason, `${type} is ${reason}`);

  test('install creates the CRD and the rights, and marks the cluster', async () => {
    const said = await install();
    assert.match(said, /app1 is marked\. The cluster has no SpireServer/);
    assert.match(await run('spire', 'list'), /app1/);
    // It can be repeated.
    await install();
  });

  test('a SpireServer with federation gets all its objects, with the rights that the site has', async () => {
    await apply(spireServer(federation));
    await wait('FederationObjectsInSync');
    await wait('FederationConfigurationValid');
    for (const what of [
      'statefulset/spire-server',
      'service/spire-server',
      'service/spire-server-federation',
      'ingress/spire-server-federation',
      'networkpolicy/spire-server-federation',
      'configmap/spire-server',
      'role/spire-server',
      'serviceaccount/spire-server',
    ]) {
      assert.ok(await inNamespace(what), what);
    }
    await untilReason('FederationServiceReady', 'ServerNotReady');
    await untilReason('FederationRouteReady', 'BundleUnknown');
    const { status } = (await get('spireserver/cluster')) ?? {};
    assert.deepEqual(
      status?.relationships?.map(({ trustDomain, state }) => [trustDomain, state]),
      [['b.example', 'Pending']],
    );
    const shown = await run('spire', 'show', 'app1');
    assert.match(shown, /FederationServiceReady +False +ServerNotReady/);
    assert.match(shown, /b\.example +Pending/);
  });

  test('in a steady state, the site changes no object', async () => {
    const versions = async () =>
      kubectl.ok([
        'get',
        'statefulset,service,ingress,networkpolicy,configmap,role,rolebinding,serviceaccount',
        '-n',
        'spire',
        '-o',
        'jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{"\\n"}{end}',
      ]);
    const earlier = await versions();
    // Another relationship starts a run of the controller, and changes one ConfigMap.
    const other = { ...peerDomain, trustDomain: 'c.example' };
    await apply(spireServer({ ...federation, federatesWith: [peerDomain, other] }));
    await until(async () => {
      const map = await inNamespace('configmap/spire-server-federation-relationships');
      return map?.data?.['relationships.json']?.includes('c.example') === true;
    }, 'the sidecar can read the new relationship');
    const changed = (await versions()).split('\n').filter((line) => !earlier.includes(line));
    assert.deepEqual(
      changed.map((line) => line.split(' ')[0]),
      ['ConfigMap/spire-server-federation-relationships'],
    );
  });

  test('drift is repaired', async () => {
    const conf = (await inNamespace('configmap/spire-server'))?.data?.['server.conf'];
    const edit = ['--type=merge', '-n', 'spire', '-p'];
    await kubectl.ok(['patch', 'configmap/spire-server', ...edit, '{"data":{"server.conf":"x"}}']);
    await kubectl.ok(['patch', 'statefulset/spire-server', ...edit, '{"spec":{"replicas":3}}']);
    await kubectl.ok(['delete', 'service', 'spire-server-federation', '-n', 'spire']);
    await until(async () => {
      const map = await inNamespace('configmap/spire-server');
      const set = await inNamespace('statefulset/spire-server');
      const service = await inNamespace('service/spire-server-federation');
      return (
        map?.data?.['server.conf'] === conf && set?.spec.replicas === 1 && service !== undefined
      );
    }, 'all three are as before');
  });

  test('the same holds in a member of a cluster set, whose policies limit the site', async () => {
    await run('cluster', 'join', 'app1', '--kubeconfig', kube.kubeconfig, '--supervisor', '--yes');
    const plain = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'spire-server-x' } };
    const input = JSON.stringify({ ...plain, spec: { ports: [{ port: 80 }] } });
    const as = ['create', '-n', 'spire', `--as=${account}`, '--dry-run=server', '-f', '-'];
    await until(
      async () => /hansa-league-copies/.test((await kubectl.run(as, { input })).stderr),
      'the policies refuse other Services',
    );
    const ours = ['service/spire-server-federation', 'networkpolicy/spire-server-federation'];
    await kubectl.ok(['delete', ...ours, '-n', 'spire']);
    await until(
      async () => (await Promise.all(ours.map(inNamespace))).every((each) => each !== undefined),
      'both are back',
    );
    await wait('FederationObjectsInSync');
  });

  test('with createOnly, drift is only reported', async () => {
    await apply(spireServer(federation, { createOnly: true }));
    await kubectl.ok([
      'patch',
      'statefulset/spire-server',
      '--type=merge',
      '-n',
      'spire',
      '-p',
      '{"spec":{"replicas":2}}',
    ]);
    await untilReason('FederationObjectsInSync', 'Drift');
    assert.equal((await inNamespace('statefulset/spire-server'))?.spec.replicas, 2);
    await apply(spireServer(federation, { createOnly: false }));
    await wait('FederationObjectsInSync');
    assert.equal((await inNamespace('statefulset/spire-server'))?.spec.replicas, 1);
  });

  test('a Secret that is missing holds the change back', async () => {
    const web = { ...federations['https_web by a serving certificate'], exposure };
    await apply(spireServer(web));
    // The site may not read Secrets yet, so it cannot know.
    await untilReason('FederationConfigurationValid', 'SecretUnreadable');
    await apply(spireServer(federation));
    await wait('FederationConfigurationValid');
    await install('--secret', 'federation-tls');
    const earlier = (await inNamespace('statefulset/spire-server'))?.metadata.generation;
    await apply(spireServer(web));
    await untilReason('FederationConfigurationValid', 'SecretMissing');
    const { message } = (await conditionOf('FederationConfigurationValid')) ?? {};
    assert.match(message ?? '', /kubectl create secret tls federation-tls -n spire/);
    const now = (await inNamespace('statefulset/spire-server'))?.metadata.generation;
    assert.equal(now, earlier);
    await apply(spireServer(federation));
    await wait('FederationConfigurationValid');
  });

  test('without federation, its objects go and the server stays', async () => {
    const object = spireServer() as { readonly spec: object };
    await kubectl.ok([
      'patch',
      'spireserver/cluster',
      '--type=merge',
      '-p',
      '{"spec":{"federation":null}}',
    ]);
    await until(
      async () =>
        (await inNamespace('service/spire-server-federation')) === undefined &&
        (await inNamespace('ingress/spire-server-federation')) === undefined &&
        (await inNamespace('networkpolicy/spire-server-federation')) === undefined,
      'the objects of the federation are gone',
    );
    assert.ok(await inNamespace('statefulset/spire-server'));
    await apply({ ...object, spec: { ...object.spec, federation } });
    await wait('FederationObjectsInSync');
    assert.ok(await inNamespace('ingress/spire-server-federation'));
  });

  test('the site has the rights that it needs in the cluster, and no others', async () => {
    const canI = async (words: string): Promise<string> => {
      const args = ['auth', 'can-i', ...words.split(' '), `--as=${account}`];
      return (await kubectl.run(args)).stdout.trim().split(' ')[0] ?? '';
    };
    for (const words of [
      'create spireservers.operator.openshift.io',
      'update spireservers.operator.openshift.io',
      'update customresourcedefinitions.apiextensions.k8s.io',
      'list secrets -n spire',
      'get secrets/other -n spire',
      'create secrets -n spire',
      'create statefulsets.apps -n default',
      'update clusterroles.rbac.authorization.k8s.io/cluster-admin',
      'escalate clusterroles.rbac.authorization.k8s.io',
      'create pods --subresource=exec -n spire',
      'create validatingadmissionpolicies.admissionregistration.k8s.io',
      'update namespaces',
    ]) {
      assert.equal(await canI(words), 'no', words);
    }
    assert.equal(await canI('get secrets/federation-tls -n spire'), 'yes');
  });

  test('the cluster has the admission policy for namespaces that may federate', async () => {
    assert.ok(await get('validatingadmissionpolicy/hansa-spire-federation-namespaces'));
  });

  test('all objects go with the SpireServer', async () => {
    await kubectl.ok(['delete', 'spireserver', 'cluster']);
    await until(
      async () =>
        (await inNamespace('statefulset/spire-server')) === undefined &&
        (await inNamespace('configmap/spire-server')) === undefined &&
        (await get('clusterrole/spire-server-spire')) === undefined,
      'the garbage collector has deleted them',
    );
  });

  test('uninstall takes the rights away and keeps the CRD', async () => {
    await run('spire', 'uninstall', 'app1', '--kubeconfig', kube.kubeconfig, '--yes');
    assert.equal(await get('clusterrole/hansa-spire-lubeck.example'), undefined);
    assert.equal(await inNamespace('role/hansa-spire-lubeck.example'), undefined);
    const policy = 'validatingadmissionpolicy/hansa-spire-federation-namespaces';
    assert.equal(await get(policy), undefined);
    assert.ok(await get('crd/spireservers.operator.openshift.io'));
    assert.doesNotMatch(await run('spire', 'list', '-o', 'name'), /app1/);
  });

  test("another operator's CRD is never overwritten", async () => {
    const crd = 'crd/spireservers.operator.openshift.io';
    await kubectl.ok(['label', crd, 'app.kubernetes.io/managed-by-']);
    const earlier = (await get(crd))?.metadata.resourceVersion;
    const { code, stderr } = await tryRun(
      'spire',
      'install',
      'app1',
      '--kubeconfig',
      kube.kubeconfig,
      '--max-federated-clusters',
      '60',
      '--yes',
    );
    assert.equal(code, 0, stderr);
    assert.match(stderr, /is another operator's and stays as it is/);
    assert.match(stderr, /limit of trust domains is 60/);
    assert.equal((await get(crd))?.metadata.resourceVersion, earlier);
  });
});
