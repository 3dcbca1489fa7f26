// Runs `hansa cluster` as an operator does: a real site, and a real kube-apiserver as the cluster.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import {
  type Daemon,
  hansa,
  type RunOptions,
  startDaemon,
  temporaryFolder,
} from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import { type KubeApiserver, startKubeApiserver } from './kube-apiserver.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('etcd', 'kube-apiserver');

suite('hansa cluster, with a real kube-apiserver', { skip }, () => {
  const folder = temporaryFolder();
  let kube: KubeApiserver;
  let site: Daemon;
  before(async () => {
    kube = await startKubeApiserver();
    site = await startDaemon(join(folder, 'site'));
    await send('POST', '/api/v1/namespaces', {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: 'shop' },
    });
    await send('POST', '/api/v1/namespaces/shop/serviceaccounts', {
      apiVersion: 'v1',
      kind: 'ServiceAccount',
      metadata: { name: 'web' },
    });
  });
  after(async () => {
    await site.signal('SIGTERM');
    await kube.stop();
  });

  const run = (args: readonly string[], options: RunOptions = {}) =>
    hansa([...args, '--data-dir', site.dataDir], options);
  const cluster = (args: readonly string[], options: RunOptions = {}) =>
    run(['cluster', ...args], options);

  async function send(method: string, path: string, body?: unknown): Promise<unknown> {
    const { status, text } = await kube.client.send({
      method,
      path,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    assert.ok(status >= 200 && status < 300, `${method} ${path}: ${status} ${text}`);
    return JSON.parse(text);
  }

  /** A token of the ServiceAccount shop/web. */
  async function webToken(audiences?: readonly string[]): Promise<string> {
    const answer = (await send('POST', '/api/v1/namespaces/shop/serviceaccounts/web/token', {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { audiences },
    })) as { readonly status: { readonly token: string } };
    return answer.status.token;
  }

  /** A kubeconfig with one context, `it`, for this user. */
  function kubeconfigOf(name: string, user: object): string {
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [
        {
          name: 'c',
          cluster: {
            server: kube.url,
            'certificate-authority-data': Buffer.from(kube.ca).toString('base64'),
          },
        },
      ],
      users: [{ name: 'u', user }],
      contexts: [{ name: 'it', context: { cluster: 'c', user: 'u' } }],
    };
    const path = join(folder, name);
    writeFileSync(path, JSON.stringify(config));
    return path;
  }

  test('add without rights says which one is missing, and changes nothing', async () => {
    // The API server knows the user, who has no rights.
    const kubeconfig = kubeconfigOf('weak', { token: await webToken() });
    const args = ['add', 'app1', '--kubeconfig', kubeconfig, '--context', 'it', '--yes'];
    const { code, stderr } = await cluster(args);
    assert.equal(code, 7, stderr);
    assert.match(stderr, /system:serviceaccount:shop:web.* cannot patch resource "namespaces"/);
    assert.match(stderr, /Nothing was changed/);
    assert.equal((await cluster(['list', '-o', 'name'])).stdout, '');
  });

  test('add registers the cluster, with a credential that works', async () => {
    const { code, stdout, stderr } = await cluster([
      'add',
      'app1',
      '--kubeconfig',
      kube.kubeconfig,
      '--yes',
    ]);
    assert.equal(code, 0, stderr);
    assert.match(stderr, /ServiceAccount kube-fed\/hansa\n.*ClusterRole hansa-token-reviewer/);
    assert.match(stdout, /^app1 added.*credential until /);
    assert.doesNotMatch(stdout + stderr, /eyJ/);
  });

  test('add can be repeated', async () => {
    const args = ['add', 'app1', '--kubeconfig', kube.kubeconfig, '--yes', '-o', 'json'];
    const { code, stdout, stderr } = await cluster(args);
    assert.equal(code, 0, stderr);
    assert.equal((JSON.parse(stdout) as { created: boolean }).created, false);
  });

  test('add runs the exec plugin of a kubeconfig', async () => {
    const printed = JSON.stringify({
      apiVersion: 'client.authentication.k8s.io/v1',
      kind: 'ExecCredential',
      status: { token: kube.token },
    });
    const exec = {
      apiVersion: 'client.authentication.k8s.io/v1',
      command: 'sh',
      args: ['-c', `echo '${printed}'`],
      interactiveMode: 'Never',
    };
    const kubeconfig = kubeconfigOf('exec', { exec });
    const args = ['--kubeconfig', kubeconfig, '--context', 'it'];
    const { code, stderr } = await cluster(['add', 'app1', ...args, '--yes']);
    assert.equal(code, 0, stderr);
    const set = await cluster(['credential', 'set', 'app1', ...args]);
    assert.equal(set.code, 2, set.stdout);
    assert.match(set.stderr, /gets its credential from a program/);
  });

  test('list and show have the state of the cluster', async () => {
    await run(['wait', 'cluster', 'app1', '--for', 'condition=Ready', '--timeout', '60s']);
    const list = await cluster(['list']);
    assert.match(list.stdout, /^app1 +hybrid +True +1 /m);
    const { stdout } = await cluster(['show', 'app1']);
    assert.match(stdout, /^host +api\.app1\.kube-fed\.svc\.cluster\.local$/m);
    assert.match(stdout, /^issuer +https:\/\/kubernetes\.default\.svc$/m);
    assert.match(stdout, /^credential +stored at the site, expires .*\(in 6d/m);
    assert.match(stdout, /^Ready +True/m);
    assert.match(stdout, /^Reachable +True/m);
  });

  test('check and doctor find nothing wrong', async () => {
    const check = await cluster(['check']);
    assert.equal(check.code, 0, check.stdout + check.stderr);
    assert.match(check.stdout, /^✓ +app1 +its own token is system:serviceaccount:kube-fed:hansa$/m);
    const doctor = await run(['doctor', '--cluster', 'app1']);
    assert.equal(doctor.code, 0, doctor.stdout + doctor.stderr);
    for (const line of [
      /^✓ TLS +a certificate for 127\.0\.0\.1, signed by the CA of the Cluster$/m,
      /^✓ clock +agrees/m,
      /^✓ credential +accepted as system:serviceaccount:kube-fed:hansa$/m,
      /^✓ rights +may create tokenreviews/m,
      /^✓ rights +may create serviceaccounts\/token of kube-fed\/hansa$/m,
      /^✓ issuer +https:\/\/kubernetes\.default\.svc/m,
      /^✓ keys +1 key/m,
      /^✓ review/m,
    ])
      assert.match(doctor.stdout, line);
  });

  test('review tells whose a token is', async () => {
    const { code, stdout, stderr } = await cluster(['review', 'app1'], { stdin: await webToken() });
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^verdict +authenticated$/m);
    assert.match(stdout, /^user +system:serviceaccount:shop:web$/m);
    assert.match(stdout, /^group +system:serviceaccounts:shop$/m);
  });

  test('review with an audience accepts only tokens for it', async () => {
    const stdin = await webToken(['db']);
    const right = await cluster(['review', 'app1', '--audience', 'db', '-o', 'json'], { stdin });
    assert.equal(right.code, 0, right.stderr);
    const { verdict, audiences } = JSON.parse(right.stdout) as Readonly<Record<string, unknown>>;
    assert.deepEqual([verdict, audiences], ['authenticated', ['db']]);
    const wrong = await cluster(['review', 'app1'], { stdin });
    assert.equal(wrong.code, 11, wrong.stdout);
    assert.match(wrong.stdout, /^verdict +denied$/m);
  });

  test('review of an altered token, and of an unknown cluster', async () => {
    const token = await webToken();
    const stdin = `${token.slice(0, -8)}AAAAAAAA`;
    const altered = await cluster(['review', 'app1'], { stdin });
    assert.equal(altered.code, 11);
    const unknown = await cluster(['review', 'app9'], { stdin: token });
    assert.equal(unknown.code, 4, unknown.stderr);
    assert.match(unknown.stderr, /HANSA_UNKNOWN_CLUSTER/);
  });

  test('services prints manifests that the API server accepts', async () => {
    const { stdout, code, stderr } = await cluster(['services', '--address', '192.0.2.5']);
    assert.equal(code, 0, stderr);
    const documents = parseAllDocuments(stdout).map((each) => each.toJS() as KubeManifest);
    assert.deepEqual(
      documents.filter(({ kind }) => kind === 'Service').map(({ metadata }) => metadata.name),
      ['api', 'app1'],
    );
    for (const manifest of documents) {
      const { status, text } = await kube.client.send({
        method: 'PATCH',
        path: `${pathOf(manifest)}?fieldManager=test&force=true`,
        body: JSON.stringify(manifest),
        headers: { 'content-type': 'application/apply-patch+yaml' },
      });
      assert.ok(status === 200 || status === 201, `${manifest.kind}: ${status} ${text}`);
    }
  });

  test('a revoked credential shows in check and doctor, with what to do', async () => {
    await send('DELETE', '/api/v1/namespaces/kube-fed/serviceaccounts/hansa');
    // kube-apiserver accepts a token that it has seen for up to ten seconds more.
    let stdout = '';
    await until(async () => {
      const doctor = await run(['doctor', '--cluster', 'app1']);
      stdout = doctor.stdout;
      return doctor.code === 10;
    });
    assert.match(stdout, /^✗ credential +the API server rejects it/m);
    assert.match(stdout, /hansa cluster add app1 again/);
    const check = await cluster(['check', 'app1']);
    assert.equal(check.code, 10);
    const again = await cluster(['add', 'app1', '--kubeconfig', kube.kubeconfig, '--yes']);
    assert.equal(again.code, 0, again.stderr);
    assert.equal((await cluster(['check', 'app1'])).code, 0);
  });

  test('credential delete and set', async () => {
    assert.equal((await cluster(['credential', 'delete', 'app1', '--yes'])).code, 0);
    assert.equal((await cluster(['credential', 'delete', 'app1', '--yes'])).code, 4);
    const without = await cluster(['review', 'app1'], { stdin: await webToken() });
    assert.equal(without.code, 8, without.stdout);
    assert.match(without.stdout, /^verdict +unchecked$/m);
    const args = ['credential', 'set', 'app1', '--kubeconfig', kube.kubeconfig];
    const set = await cluster(args);
    assert.equal(set.code, 0, set.stderr);
    assert.doesNotMatch(set.stdout, new RegExp(kube.token));
    assert.equal((await cluster(['review', 'app1'], { stdin: await webToken() })).code, 0);
  });

  test('remove ends reviews at once, and repeated says that there is none', async () => {
    const { code, stdout, stderr } = await cluster(['remove', 'app1', '--yes']);
    assert.equal(code, 0, stderr);
    assert.equal(stdout, 'app1 removed\n');
    assert.equal((await cluster(['review', 'app1'], { stdin: await webToken() })).code, 4);
    assert.equal((await cluster(['remove', 'app1', '--yes'])).code, 4);
    assert.equal((await run(['doctor', '--cluster', 'app1'])).code, 4);
  });
});

interface KubeManifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

function pathOf({ apiVersion, kind, metadata: { name, namespace } }: KubeManifest): string {
  const base = apiVersion === 'v1' ? '/api/v1' : `/apis/${apiVersion}`;
  const plural = `${kind.toLowerCase()}s`;
  return namespace === undefined
    ? `${base}/${plural}/${name}`
    : `${base}/namespaces/${namespace}/${plural}/${name}`;
}
