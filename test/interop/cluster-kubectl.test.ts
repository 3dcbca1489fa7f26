// Registers Clusters with the stock kubectl, as GitOps does: the manifests of examples/clusters, a real
// kube-apiserver as the cluster, and manifests that the site must refuse.

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { parse } from 'yaml';
import { type Daemon, hansa, startDaemon, temporaryFolder } from '../e2e/daemon.ts';
import { type KubeApiserver, serviceAccountIssuer, startKubeApiserver } from './kube-apiserver.ts';
import { createProofAccount } from './review-cluster.ts';
import { Kubectl } from './kubectl.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('etcd', 'kube-apiserver', 'kubectl');

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: Readonly<Record<string, unknown>>;
}

suite('kubectl and the Clusters of a site', { skip }, () => {
  const folder = temporaryFolder();
  const credentialsDir = join(folder, 'credentials');
  const podDir = join(folder, 'serviceaccount');
  let kube: KubeApiserver;
  let site: Daemon;
  let kubectl: Kubectl;

  before(async () => {
    kube = await startKubeApiserver();
    await createProofAccount(kube);
    mkdirSync(join(credentialsDir, 'app1'), { recursive: true });
    writeFileSync(join(credentialsDir, 'app1', 'ca.crt'), kube.ca);
    writeFileSync(join(credentialsDir, 'app1', 'token'), kube.token);
    const flags = ['--auth-credentials-dir', credentialsDir, '--auth-in-cluster-dir', podDir];
    // As Kubernetes sets it in every Pod.
    const env = { KUBERNETES_SERVICE_HOST: new URL(kube.url).hostname };
    site = await startDaemon(join(folder, 'site'), flags, env);
    const { code, stdout, stderr } = await hansa(['kubeconfig', '--data-dir', site.dataDir]);
    assert.equal(code, 0, stderr);
    const path = join(folder, 'kubeconfig');
    writeFileSync(path, stdout, { mode: 0o600 });
    kubectl = await Kubectl.with(path);
  });
  after(async () => {
    await kubectl?.close();
    await site?.signal('SIGTERM');
    await kube?.stop();
  });

  /** The example, for the API server of this test. */
  function example(change: Readonly<Record<string, unknown>> = {}, name = 'app1'): Manifest {
    const manifest = parse(readFileSync('examples/clusters/app1.yaml', 'utf8')) as Manifest;
    const spec = {
      ...manifest.spec,
      issuer: serviceAccountIssuer,
      apiServer: kube.url,
      apiAudiences: [serviceAccountIssuer],
      // The administrator of this API server has a static token, which cannot be renewed.
      credential: { tokenFile: 'app1/token' },
      ...change,
    };
    return { ...manifest, metadata: { name }, spec };
  }

  const apply = (manifest: Manifest, ...flags: readonly string[]) =>
    kubectl.run(['apply', '-f', '-', ...flags], { input: JSON.stringify(manifest) });

  test('applies the example, waits until it is ready, and shows it in a table', async () => {
    const applied = await apply(example());
    assert.equal(applied.code, 0, applied.stderr);
    assert.match(applied.stdout, /^cluster\.hansa\.dev\/app1 created$/m);
    await kubectl.ok(['wait', '--for=condition=Ready', 'cluster/app1', '--timeout=60s']);
    const table = await kubectl.ok(['get', 'clusters']);
    assert.match(table, /^NAME +MODE +READY +KEYS +FETCHED /m);
    assert.match(table, /^app1 +hybrid +True +[1-9]/m);
    const again = await apply(example());
    assert.match(again.stdout, /^cluster\.hansa\.dev\/app1 unchanged$/m);
    const secret = await kubectl.ok(['get', 'cluster', 'app1', '-o', 'yaml']);
    assert.ok(!secret.includes(kube.token), 'no object holds the credential');
  });

  test('applies the same manifest server-side, with a field of its own', async () => {
    const spec = { validation: { mode: 'tokenreview' } };
    const flags = ['--server-side', '--field-manager=gitops', '--force-conflicts'];
    const applied = await apply(example(spec), ...flags);
    assert.equal(applied.code, 0, applied.stderr);
    const mode = await kubectl.ok([
      'get',
      'cluster',
      'app1',
      '-o',
      'jsonpath={.spec.validation.mode}',
    ]);
    assert.equal(mode, 'tokenreview');
  });

  test('explains the fields', async () => {
    const validation = await kubectl.ok(['explain', 'cluster.spec.validation']);
    assert.match(validation, /maxRevocationLagSeconds/);
    assert.match(await kubectl.ok(['explain', 'cluster.spec.validation.mode']), /jwks/);
    assert.match(
      await kubectl.ok(['explain', 'cluster.spec.credential.tokenFile']),
      /FIELD: tokenFile/,
    );
  });

  const refusals: [
    what: string,
    name: string,
    spec: () => Readonly<Record<string, unknown>>,
    message: RegExp,
  ][] = [
    ['the reserved name api', 'api', () => ({}), /metadata\.name.*api/i],
    ['a name with a dot', 'a.b', () => ({}), /metadata\.name/],
    [
      'an unknown mode',
      'bad',
      () => ({ validation: { mode: 'psychic' } }),
      /spec\.validation\.mode.*jwks/s,
    ],
    [
      'a credential outside of auth.credentialsDir',
      'bad',
      () => ({ credential: { tokenFile: '/etc/shadow' } }),
      /spec\.credential\.tokenFile/,
    ],
    [
      'a credential above auth.credentialsDir',
      'bad',
      () => ({ credential: { tokenFile: '../site/ca.pem' } }),
      /spec\.credential\.tokenFile/,
    ],
    [
      'a CA that is no PEM',
      'bad',
      () => ({ caFile: undefined, caBundle: 'not a certificate' }),
      /spec\.caBundle/,
    ],
    [
      'an API server without TLS',
      'bad',
      () => ({ apiServer: 'http://127.0.0.1:1' }),
      /spec\.apiServer/,
    ],
    ['a token in the spec', 'bad', () => ({ credential: { token: 'secret' } }), /token/],
  ];
  for (const [what, name, spec, message] of refusals) {
    test(`is refused ${what}, with the field and the reason`, async () => {
      const { code, stderr } = await apply(example(spec(), name));
      assert.notEqual(code, 0);
      assert.match(stderr, message);
      assert.equal((await kubectl.run(['get', 'cluster', name])).code, 1);
    });
  }

  test('is refused a second local cluster, with the name of the first', async () => {
    const first = await apply(example({ local: true }), '--server-side', '--force-conflicts');
    assert.equal(first.code, 0, first.stderr);
    const second = await apply(example({ local: true }, 'app2'));
    assert.notEqual(second.code, 0);
    assert.match(second.stderr, /spec\.local.*app1/s);
  });

  /** As the kubelet does: a new folder, and a link that changes at once. */
  function mount(version: string, token: string): void {
    const data = join(podDir, `..${version}`);
    mkdirSync(data, { recursive: true });
    for (const [name, text] of Object.entries({
      'ca.crt': kube.ca,
      namespace: 'kube-fed',
      token,
    })) {
      writeFileSync(join(data, name), text);
      if (version === 'first') symlinkSync(`..data/${name}`, join(podDir, name));
    }
    symlinkSync(`..${version}`, join(podDir, '..new'));
    renameSync(join(podDir, '..new'), join(podDir, '..data'));
  }

  async function send(path: string, body: object): Promise<{ status?: { token?: string } }> {
    const { status, text } = await kube.client.send({
      method: 'POST',
      path,
      body: JSON.stringify(body),
    });
    assert.ok(status < 300, text);
    return JSON.parse(text) as { status?: { token?: string } };
  }

  test('registers the cluster in which the site runs, with the credential of its Pod', async () => {
    const account = '/api/v1/namespaces/default/serviceaccounts';
    await send(account, { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'site' } });
    await send('/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: 'site' },
      roleRef: {
        apiGroup: 'rbac.authorization.k8s.io',
        kind: 'ClusterRole',
        name: 'system:auth-delegator',
      },
      subjects: [{ kind: 'ServiceAccount', name: 'site', namespace: 'default' }],
    });
    const issued = async (): Promise<string> => {
      const answer = await send(`${account}/site/token`, {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        spec: {},
      });
      return answer.status?.token ?? '';
    };
    mount('first', await issued());
    const spec = { caFile: undefined, credential: { inCluster: true } };
    const applied = await apply(example(spec, 'home'));
    assert.equal(applied.code, 0, applied.stderr);
    await kubectl.ok(['wait', '--for=condition=Ready', 'cluster/home', '--timeout=60s']);
    await kubectl.ok(['wait', '--for=condition=CredentialFresh', 'cluster/home', '--timeout=60s']);
    const review = async (): Promise<string> => {
      const flags = ['--data-dir', site.dataDir];
      const { code, stdout, stderr } = await hansa(['cluster', 'review', 'home', ...flags], {
        stdin: await issued(),
      });
      assert.equal(code, 0, stderr);
      return stdout;
    };
    assert.match(await review(), /^user +system:serviceaccount:default:site$/m);
    mount('second', await issued());
    assert.match(await review(), /^verdict +authenticated$/m);
  });

  test('is refused the credential of the Pod for another address', async () => {
    const spec = {
      apiServer: 'https://198.51.100.1:6443',
      caFile: undefined,
      credential: { inCluster: true },
    };
    await apply(example(spec, 'elsewhere'));
    const why = await kubectl.ok([
      'wait',
      '--for=jsonpath={.status.conditions[?(@.type=="CredentialFresh")].reason}=NotInCluster',
      'cluster/elsewhere',
      '--timeout=60s',
    ]);
    assert.match(why, /condition met/);
  });

  test('deletes it, and the site reviews its tokens no more', async () => {
    const deleted = await kubectl.ok(['delete', 'cluster', 'app1']);
    assert.match(deleted, /cluster\.hansa\.dev "app1" deleted/);
    const { code, stderr } = await hansa(
      ['cluster', 'review', 'app1', '--data-dir', site.dataDir],
      {
        stdin: kube.token,
      },
    );
    assert.notEqual(code, 0);
    assert.match(stderr, /app1/);
  });
});
