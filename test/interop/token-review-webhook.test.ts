// A second kube-apiserver authenticates users by the site, with its own webhook token authenticator, in
// the version and encoding that it sends by default. Users of the first cluster have a prefix there.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { freePort } from '../e2e/free-ports.ts';
import { until } from '../e2e/until.ts';
import { type KubeApiserver, startKubeApiserver } from './kube-apiserver.ts';
import {
  account,
  CredentialsDir,
  hostOf,
  namespace,
  registerCluster,
  type ReviewCluster,
  type ReviewStatus,
  startReviewCluster,
} from './review-cluster.ts';
import { type Site, startSite } from './site.ts';
import { missingTools } from './tool.ts';
import type { WireAnswer } from './wire.ts';

const skip = await missingTools('etcd', 'kube-apiserver');

/** What a webhook authenticator sends without --authentication-token-webhook-version. */
const webhookPath = '/apis/authentication.k8s.io/v1beta1/tokenreviews';

suite('an API server whose webhook token authenticator is the site', { skip }, () => {
  let folder: string;
  let first: ReviewCluster;
  let site: Site;
  let second: KubeApiserver;

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'hansa-webhook-'));
    const credentials = new CredentialsDir(folder);
    first = await startReviewCluster();
    site = await startSite({ flags: [`--auth-credentials-dir=${credentials.path}`] });
    await registerCluster(site.client, 'app1', {
      ...credentials.specFor('app1', first.kube),
      // Every review is forwarded.
      validation: { maxRevocationLagSeconds: 0 },
      callers: { webhookAuthenticators: [{ caller: 'token:app2-apiserver', prefix: 'app1:' }] },
    });
    const { text } = await site.client.send({
      method: 'POST',
      path: '/hansa/v1/tokens',
      body: JSON.stringify({ name: 'app2-apiserver', role: 'token-reviewer' }),
    });
    const { token } = JSON.parse(text) as { readonly token: string };
    const config = join(folder, 'webhook.json');
    writeFileSync(config, JSON.stringify(webhookConfig(site, token)), { mode: 0o600 });
    second = await startKubeApiserver([], {
      flags: [`--authentication-token-webhook-config-file=${config}`],
    });
  });
  after(async () => {
    await second?.stop();
    await site?.stop();
    await first?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const askSecond = (token: string, method: string, path: string, body?: object) =>
    second.client.send({
      method,
      path,
      headers: { authorization: `Bearer ${token}` },
      ...(body && { body: JSON.stringify(body) }),
    });
  const whoAmI = (token: string): Promise<WireAnswer> =>
    askSecond(token, 'POST', '/apis/authentication.k8s.io/v1/selfsubjectreviews', {});
  const create = async (path: string, object: object): Promise<void> => {
    const body = JSON.stringify(object);
    const { status, text } = await second.client.send({ method: 'POST', path, body });
    assert.equal(status, 201, text);
  };
  /** The right to read ConfigMaps of the namespace. */
  const grant = async (name: string, subject: object): Promise<void> => {
    const rbac = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}`;
    await create(`${rbac}/roles`, {
      metadata: { name },
      rules: [{ apiGroups: [''], resources: ['configmaps'], verbs: ['list'] }],
    });
    await create(`${rbac}/rolebindings`, {
      metadata: { name },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
      subjects: [subject],
    });
  };
  const configMaps = `/api/v1/namespaces/${namespace}/configmaps`;
  /** The authorizer of an API server learns of a binding some time after its creation. */
  const untilAllowed = (user: string): Promise<void> =>
    until(async () => {
      const resourceAttributes = { namespace, verb: 'list', resource: 'configmaps' };
      const { text } = await second.client.send({
        method: 'POST',
        path: '/apis/authorization.k8s.io/v1/subjectaccessreviews',
        body: JSON.stringify({ spec: { user, resourceAttributes } }),
      });
      return (JSON.parse(text) as { status: { allowed: boolean } }).status.allowed;
    }, `${user} may list ConfigMaps`);

  test('knows a ServiceAccount of the other cluster by its name with the prefix', async () => {
    const answer = await whoAmI(await first.token());
    assert.equal(answer.status, 201, answer.text);
    const { status } = JSON.parse(answer.text) as {
      readonly status: { readonly userInfo: NonNullable<ReviewStatus['user']> };
    };
    const { extra, ...user } = status.userInfo;
    assert.deepEqual(user, {
      username: `app1:system:serviceaccount:${namespace}:${account}`,
      uid: `app1:${first.uid}`,
      groups: [
        'app1:system:serviceaccounts',
        `app1:system:serviceaccounts:${namespace}`,
        'app1:system:authenticated',
        'system:authenticated',
      ],
    });
    assert.match(extra?.['app1:authentication.kubernetes.io/credential-id']?.[0] ?? '', /^JTI=/);
    const own = Object.keys(extra ?? {}).filter((key) => !key.startsWith('app1:'));
    assert.deepEqual(own, []);
  });

  test('grants it what its name with the prefix has, and nothing of its own namesake', async () => {
    await create('/api/v1/namespaces', { metadata: { name: namespace } });
    await create(`/api/v1/namespaces/${namespace}/serviceaccounts`, {
      metadata: { name: account },
    });
    await grant('namesake', { kind: 'ServiceAccount', name: account, namespace });
    await grant('all-accounts', {
      kind: 'Group',
      apiGroup: 'rbac.authorization.k8s.io',
      name: 'system:serviceaccounts',
    });
    await untilAllowed(`system:serviceaccount:${namespace}:${account}`);
    const token = await first.token();
    const denied = await askSecond(token, 'GET', configMaps);
    assert.equal(denied.status, 403, denied.text);
    await grant('visitor', {
      kind: 'User',
      apiGroup: 'rbac.authorization.k8s.io',
      name: `app1:system:serviceaccount:${namespace}:${account}`,
    });
    await untilAllowed(`app1:system:serviceaccount:${namespace}:${account}`);
    const granted = await askSecond(token, 'GET', configMaps);
    assert.equal(granted.status, 200, granted.text);
  });

  test('refuses a token that the other cluster did not sign', async () => {
    const [head, payload = '', signature = ''] = (await first.token()).split('.');
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object;
    const changed = Buffer.from(
      JSON.stringify({ ...claims, sub: 'system:serviceaccount:kube-system:admin' }),
    ).toString('base64url');
    const { status, text } = await whoAmI([head, changed, signature].join('.'));
    assert.equal(status, 401, text);
  });

  test('refuses a token for another audience', async () => {
    const { status, text } = await whoAmI(await first.token({ audiences: ['vault'] }));
    assert.equal(status, 401, text);
  });

  test('refuses a token whose ServiceAccount was deleted', async () => {
    const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`;
    await first.create(accounts, { metadata: { name: 'gone' } });
    const token = await first.token({ account: 'gone' });
    await first.kube.client.send({ method: 'DELETE', path: `${accounts}/gone` });
    const { status, text } = await whoAmI(token);
    assert.equal(status, 401, text);
  });

  test('refuses tokens of a cluster that cannot be asked, and accepts them again later', async () => {
    const token = await first.token();
    await moveApiServer(`https://127.0.0.1:${await freePort()}`);
    const unchecked = await whoAmI(token);
    assert.equal(unchecked.status, 401, unchecked.text);
    await moveApiServer(first.kube.url);
    await until(
      async () => (await whoAmI(await first.token())).status === 201,
      'it is asked again',
    );
  });

  test('refuses tokens while the site is down, and knows its own users all the same', async () => {
    const token = await first.token();
    await site.stop();
    const { status, text } = await whoAmI(token);
    assert.equal(status, 401, text);
    const own = await second.client.send({ method: 'GET', path: configMaps });
    assert.equal(own.status, 200, own.text);
  });

  const moveApiServer = async (apiServer: string): Promise<void> => {
    const { status, text } = await site.client.send({
      method: 'PATCH',
      path: '/apis/hansa.dev/v1alpha1/clusters/app1',
      headers: { 'content-type': 'application/merge-patch+json' },
      body: JSON.stringify({ spec: { apiServer } }),
    });
    assert.equal(status, 200, text);
  };
});

function webhookConfig({ url, ca }: Site, token: string): object {
  return {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'site',
        cluster: {
          server: `${url}${webhookPath}`,
          'tls-server-name': hostOf('app1'),
          'certificate-authority-data': Buffer.from(ca).toString('base64'),
        },
      },
    ],
    users: [{ name: 'app2', user: { token } }],
    contexts: [{ name: 'site', context: { cluster: 'site', user: 'app2' } }],
    'current-context': 'site',
  };
}
