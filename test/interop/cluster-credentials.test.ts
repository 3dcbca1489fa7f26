// The credentials of a site at a real kube-apiserver, with the printed RBAC and nothing more: renewals by
// TokenRequest, a revoked ServiceAccount, JWT-SVIDs by structured authentication, and the published CA.

import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { Cluster } from '../../src/api/kinds/cluster.ts';
import { accessManifests } from '../../src/auth/manifests/access-manifests.ts';
import { authConfigManifests } from '../../src/auth/manifests/auth-config.ts';
import type { Manifest } from '../../src/core/kube/manifests/manifest.ts';
import { caConfigMap, caConfigMapPath } from '../../src/auth/manifests/published-ca.ts';
import { signToken } from '../../src/auth/review/test-service-account-tokens.ts';
import { findCondition } from '../../src/core/reconcile/conditions.ts';
import { type ApiClient, adminClient, resources } from '../e2e/api-client.ts';
import { type Daemon, hansa, startDaemon, temporaryFolder } from '../e2e/daemon.ts';
import { freePort } from '../e2e/free-ports.ts';
import { until } from '../e2e/until.ts';
import { type KubeApiserver, serviceAccountIssuer, startKubeApiserver } from './kube-apiserver.ts';
import { missingTools } from './tool.ts';
import { makeWebPki } from './web-pki.ts';
import { WireClient } from './wire.ts';

const namespace = 'kube-fed';
const account = 'hansa';
const accountPath = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}`;
const key = generateKeyPairSync('rsa', { modulusLength: 2048 });

suite('a site at a kube-apiserver', { skip: await missingTools('etcd', 'kube-apiserver') }, () => {
  let kube: KubeApiserver;
  let site: Daemon;
  let admin: ApiClient;
  let flags: readonly string[];

  before(async () => {
    const folder = temporaryFolder();
    const pki = makeWebPki(folder);
    const web = await freePort();
    const issuer = `https://localhost:${web}`;
    flags = [
      '--web',
      `127.0.0.1:${web}`,
      '--serving-cert-cert-file',
      pki.certificateFile,
      '--serving-cert-key-file',
      pki.keyFile,
      '--jwt-issuer',
      issuer,
    ];
    site = await startDaemon(join(folder, 'lubeck'), flags);
    admin = adminClient(site.dataDir);
    const { configuration, access } = authConfigManifests({
      trustDomain: 'lubeck.example',
      issuer,
      audience: 'app2',
      issuerCa: pki.root,
      name: 'lubeck',
    });
    const file = join(folder, 'authentication.json');
    // YAML is a superset of JSON.
    writeFileSync(file, JSON.stringify(configuration));
    kube = await startKubeApiserver([], {
      serviceAccountKeys: [key.privateKey],
      flags: [`--authentication-config=${file}`],
    });
    const own = accessManifests({
      subject: { kind: 'ServiceAccount' },
      trustDomain: 'lubeck.example',
      publishCaIn: namespace,
    });
    for (const manifest of [...own, ...access]) await create(kube, manifest);
    await create(
      kube,
      caConfigMap({ namespace, trustDomain: 'lubeck.example', ca: 'from before the rotation' }),
    );
  });
  after(async () => {
    admin?.close();
    await site?.signal('SIGTERM');
    await kube?.stop();
  });

  const clusterPath = (name: string): string => `${resources}/clusters/${name}`;
  const register = async (name: string, credential: object): Promise<void> => {
    const { status, text } = await admin.request('POST', `${resources}/clusters`, {
      body: {
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'Cluster',
        metadata: { name },
        spec: { issuer: serviceAccountIssuer, apiServer: kube.url, caBundle: kube.ca, credential },
      },
    });
    assert.equal(status, 201, text);
  };
  const set = async (name: string, token: string): Promise<void> => {
    const { status, text } = await admin.request('PUT', `/hansa/v1/clusters/${name}/credential`, {
      body: { token, apiServer: kube.url },
    });
    assert.equal(status, 200, text);
    assert.ok(!text.includes(token));
  };
  const read = async (name: string): Promise<Cluster> =>
    (await admin.get(clusterPath(name))).body as unknown as Cluster;
  const untilTold = async (name: string, expected: string, type = 'CredentialFresh') => {
    let last = '';
    await until(
      async () => {
        const found = findCondition((await read(name)).status?.conditions, type);
        last = `${found?.status} ${found?.reason}: ${found?.message}`;
        return last.startsWith(expected);
      },
      () => `${type} of ${name} is ${last}`,
    );
    return last;
  };
  const expiryOf = async (name: string): Promise<number> =>
    Date.parse((await read(name)).status?.credentialExpiresAt ?? '');

  /** A token of the ServiceAccount that is due for renewal. */
  const dueToken = async (): Promise<string> => {
    const { text } = await kube.client.send({ method: 'GET', path: accountPath });
    const { metadata } = JSON.parse(text) as { readonly metadata: { readonly uid: string } };
    const now = Math.floor(Date.now() / 1000);
    return signToken({
      key,
      claims: {
        iss: serviceAccountIssuer,
        sub: `system:serviceaccount:${namespace}:${account}`,
        aud: [serviceAccountIssuer],
        iat: now - 3600,
        nbf: now - 3600,
        exp: now + 600,
        jti: `test-${now}`,
        'kubernetes.io': { namespace, serviceaccount: { name: account, uid: metadata.uid } },
      },
    });
  };

  test('renews its token by TokenRequest, and keeps the new one over a restart', async () => {
    await register('app1', { renew: { durationSeconds: 7200, renewBeforeSeconds: 3600 } });
    await untilTold('app1', 'False NotSet');
    await set('app1', await dueToken());
    await until(
      async () => (await expiryOf('app1')) > Date.now() + 6_000_000,
      'the token was not renewed',
    );
    await untilTold('app1', 'True Fresh');
    const renewed = await expiryOf('app1');
    const { text } = await admin.get('/hansa/v1/audit/events?limit=200');
    assert.match(text, /cluster\.credential\.renew/);

    admin.close();
    await site.signal('SIGTERM');
    site = await startDaemon(site.dataDir, flags);
    admin = adminClient(site.dataDir);
    await untilTold('app1', 'True Fresh');
    assert.equal(await expiryOf('app1'), renewed);
  });

  test('has the printed rights and no others', async () => {
    const token = await dueToken();
    const own = new WireClient({ url: kube.url, ca: kube.ca, token });
    const ask = async (method: string, path: string, body?: object): Promise<number> => {
      const { status } = await own.send({
        method,
        path,
        headers: { accept: '*/*' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return status;
    };
    try {
      const reviews = '/apis/authentication.k8s.io/v1/tokenreviews';
      assert.equal(await ask('POST', reviews, { spec: { token } }), 201);
      assert.equal(await ask('GET', '/openid/v1/jwks'), 200);
      assert.equal(await ask('POST', `${accountPath}/token`, { spec: {} }), 201);
      assert.equal(await ask('GET', caConfigMapPath(namespace)), 200);
      await create(kube, {
        apiVersion: 'v1',
        kind: 'ServiceAccount',
        metadata: { name: 'other', namespace },
      });
      const other = accountPath.replace(/hansa$/, 'other');
      for (const [method, path, body] of [
        ['GET', `/api/v1/namespaces/${namespace}/secrets`],
        ['GET', '/api/v1/namespaces/kube-system/secrets/any'],
        ['POST', `${other}/token`, { spec: {} }],
        ['GET', accountPath],
        ['GET', `/api/v1/namespaces/${namespace}/configmaps`],
        ['GET', caConfigMapPath('kube-system')],
        ['DELETE', caConfigMapPath(namespace)],
        ['GET', '/api/v1/pods'],
        ['POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', { spec: {} }],
        ['GET', '/metrics'],
      ] as const) {
        assert.equal(await ask(method, path, body), 403, `${method} ${path}`);
      }
    } finally {
      own.close();
    }
  });

  test('keeps the ConfigMap with its CA fresh across a rotation', async () => {
    const published = async (): Promise<string> => {
      const { text } = await kube.client.send({ method: 'GET', path: caConfigMapPath(namespace) });
      return (JSON.parse(text) as { data: { 'ca.crt': string } }).data['ca.crt'];
    };
    const count = (pem: string): number => pem.split('BEGIN CERTIFICATE').length - 1;
    await until(async () => count(await published()) === 1, 'the CA was not published');
    await untilTold('app1', 'True Current', 'CAPublished');
    const ran = await hansa(['trust', 'rotate', 'prepare', '--data-dir', site.dataDir]);
    assert.equal(ran.code, 0, ran.stderr);
    await until(async () => count(await published()) === 2, 'the new CA was not published');
  });

  test('reports a revoked ServiceAccount, and works again with a new token', async () => {
    assert.equal((await kube.client.send({ method: 'DELETE', path: accountPath })).status, 200);
    const told = await untilTold('app1', 'False Refused');
    assert.match(told, /HTTP 401.*hansa cluster credential set app1/);
    await create(kube, {
      apiVersion: 'v1',
      kind: 'ServiceAccount',
      metadata: { name: account, namespace },
    });
    await set('app1', await dueToken());
    await untilTold('app1', 'True Fresh');
  });

  test('says which rule is missing where it may not renew its token', async () => {
    const path = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/rolebindings/hansa-own-token`;
    assert.equal((await kube.client.send({ method: 'DELETE', path })).status, 200);
    await set('app1', await dueToken());
    const told = await untilTold('app1', 'False NotAllowed');
    assert.match(told, /"serviceaccounts\/token".*resourceNames \["hansa"\]/);
  });

  test('does not send a stored credential to an address that changed', async () => {
    const { status, text } = await admin.request('PATCH', clusterPath('app1'), {
      body: { spec: { tlsServerName: 'localhost' } },
      headers: { 'content-type': 'application/merge-patch+json' },
    });
    assert.equal(status, 200, text);
    const told = await untilTold('app1', 'False BindingChanged');
    assert.match(told, /tlsServerName changed/);
  });

  test('authenticates with its own JWT-SVID, and its workloads do not', async () => {
    await register('app2', { jwtSVID: { audience: 'app2' } });
    await untilTold('app2', 'True Fresh');
    // With the printed RBAC, it reads the keys of the API server and may ask for reviews.
    await untilTold('app2', 'True', 'KeysFresh');
    await untilTold('app2', 'True', 'Ready');
    // The API server fetches the keys of the site when it starts, so the site is known by now.
    const ran = await hansa([
      'svid',
      'mint',
      'spiffe://lubeck.example/batch',
      '--audience',
      'app2',
      '--data-dir',
      site.dataDir,
    ]);
    assert.equal(ran.code, 0, ran.stderr);
    const workload = new WireClient({ url: kube.url, ca: kube.ca, token: ran.stdout.trim() });
    try {
      assert.equal((await workload.send({ method: 'GET', path: '/version' })).status, 401);
    } finally {
      workload.close();
    }
  });
});

async function create(kube: KubeApiserver, manifest: Manifest): Promise<void> {
  const { apiVersion, kind, metadata } = manifest;
  const group = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const below = metadata.namespace === undefined ? '' : `/namespaces/${metadata.namespace}`;
  const { status, text } = await kube.client.send({
    method: 'POST',
    path: `${group}${below}/${kind.toLowerCase()}s`,
    body: JSON.stringify(manifest),
  });
  // Two manifests may name the same Namespace.
  assert.ok(status === 201 || (kind === 'Namespace' && status === 409), text);
}
