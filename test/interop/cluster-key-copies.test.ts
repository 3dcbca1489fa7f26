// A registered cluster that republishes the public keys of a real kube-apiserver, and passes TokenRequests on. It
// must get no token of that cluster, and must not keep its ServiceAccounts from calling the site.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { Cluster } from '../../src/api/kinds/cluster.ts';
import { findCondition } from '../../src/core/reconcile/conditions.ts';
import { type IssuerRequest, startTokenIssuer, type TokenIssuer } from '../e2e/token-issuer.ts';
import { until } from '../e2e/until.ts';
import { serviceAccountIssuer } from './kube-apiserver.ts';
import {
  account,
  clustersPath,
  CredentialsDir,
  hostOf,
  namespace,
  registerCluster,
  type ReviewCluster,
  reviewOf,
  type ReviewStatus,
  reviewsPath,
  startReviewCluster,
} from './review-cluster.ts';
import { type Site, startSite } from './site.ts';
import { missingTools } from './tool.ts';
import type { WireAnswer } from './wire.ts';

const skip = await missingTools('etcd', 'kube-apiserver');
const siteAudience = 'hansa://lubeck.example';

suite('a cluster that publishes the keys of another', { skip }, () => {
  let folder: string;
  let owner: ReviewCluster;
  let evil: TokenIssuer;
  let site: Site;
  let credentials: CredentialsDir;
  let jwks: object;
  /** What the API server of evil was asked to review. */
  const stolen: string[] = [];
  const requested: string[] = [];

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'hansa-copies-'));
    credentials = new CredentialsDir(folder);
    owner = await startReviewCluster();
    const published = await owner.kube.client.send({
      method: 'GET',
      path: '/openid/v1/jwks',
      headers: { accept: '*/*' },
    });
    assert.equal(published.status, 200, published.text);
    jwks = JSON.parse(published.text) as object;
    evil = await startTokenIssuer('own', (request) => evilAnswer(request));
    site = await startSite({ flags: [`--auth-credentials-dir=${credentials.path}`] });
    await create('rolebindings', 'callers', {
      role: 'token-reviewer',
      subjects: [{ kind: 'User', name: `serviceaccount:owner:${namespace}:${account}` }],
    });
    writeFileSync(join(credentials.path, 'evil.token'), 'opaque', { mode: 0o600 });
    await create('clusters', 'evil', {
      issuer: serviceAccountIssuer,
      apiServer: evil.url,
      caBundle: evil.ca,
      credential: { tokenFile: 'evil.token' },
    });
  });
  after(async () => {
    await site?.stop();
    await evil?.stop();
    await owner?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Accepts everything, and passes TokenRequests on with the rights of a tenant of the owner. */
  function evilAnswer({ method, url, body }: IssuerRequest) {
    if (url === '/openid/v1/jwks') return { status: 200, body: jwks };
    if (url === '/.well-known/openid-configuration') {
      const configuration = {
        issuer: serviceAccountIssuer,
        jwks_uri: `${evil.url}/openid/v1/jwks`,
      };
      return { status: 200, body: configuration };
    }
    const { spec } = (body ?? {}) as {
      readonly spec?: { readonly token?: string; readonly audiences?: readonly string[] };
    };
    if (url === reviewsPath) {
      stolen.push(spec?.token ?? '');
      return { status: 201, body: body ?? {} };
    }
    if (url.endsWith('/token') && method === 'POST') {
      requested.push(spec?.audiences?.join() ?? '');
      return passed === undefined
        ? undefined
        : { status: 201, body: { status: { token: passed } } };
    }
    return { status: 201, body: { status: { allowed: true } } };
  }
  let passed: string | undefined;

  const create = async (kind: string, name: string, spec: object): Promise<void> => {
    const kinds: Record<string, string> = { clusters: 'Cluster', rolebindings: 'RoleBinding' };
    const { status, text } = await site.client.send({
      method: 'POST',
      path: `/apis/hansa.dev/v1alpha1/${kind}`,
      body: JSON.stringify({
        apiVersion: 'hansa.dev/v1alpha1',
        kind: kinds[kind],
        metadata: { name },
        spec,
      }),
    });
    assert.equal(status, 201, text);
  };
  const readyOf = async (name: string): Promise<string> => {
    const { text } = await site.client.send({ method: 'GET', path: `${clustersPath}/${name}` });
    const found = findCondition((JSON.parse(text) as Cluster).status?.conditions, 'Ready');
    return `${found?.status} ${found?.reason}: ${found?.message}`;
  };
  const untilReady = async (name: string, expected: string): Promise<void> => {
    let last = '';
    const is = async (): Promise<boolean> => (last = await readyOf(name)).startsWith(expected);
    await until(is, () => `${name} is ${last}`);
  };
  const review = (name: string, token: string, caller?: string): Promise<WireAnswer> =>
    site.client.send({
      method: 'POST',
      path: reviewsPath,
      headers: { host: hostOf(name), ...(caller && { authorization: `Bearer ${caller}` }) },
      body: reviewOf(token),
    });

  test('was first, and yet gets no token while it proves nothing', async () => {
    await untilReady('evil', 'False Unproven');
    const token = await owner.token();
    const { status, text } = await review('evil', token);
    assert.equal(status, 503, text);
    assert.match(text, /has not proved/);
    assert.deepEqual(stolen, []);
  });

  test('proves nothing by a token that a tenant of the other gets for the audience', async () => {
    const asked = requested.length;
    await until(async () => {
      // The audience of the last question. Each has another nonce, so evil answers the next with it too.
      passed = await owner.token({ audiences: [requested.at(-1) ?? ''] });
      await review('evil', await owner.token());
      return requested.length > asked + 1;
    }, 'the site does not ask again');
    assert.equal(new Set(requested).size, requested.length);
    assert.match(await readyOf('evil'), /^False Unproven/);
    assert.deepEqual(stolen, []);
  });

  test('loses them at once when their owner is registered', async () => {
    await registerCluster(site.client, 'owner', credentials.specFor('owner', owner.kube));
    const caller = await owner.token({ audiences: [siteAudience] });
    const token = await owner.token();
    const { status, text } = await review('owner', token, caller);
    assert.equal(status, 201, text);
    const answer = JSON.parse(text) as { readonly status: ReviewStatus };
    assert.equal(answer.status.authenticated, true, text);
    assert.deepEqual(stolen, []);
    await untilReady('evil', 'False SharedKeys');
  });

  test('changes nothing for its ServiceAccounts as callers, again and again', async () => {
    for (let turn = 0; turn < 5; turn++) {
      const caller = await owner.token({ audiences: [siteAudience] });
      const { status, text } = await review('owner', await owner.token(), caller);
      assert.equal(status, 201, text);
    }
    assert.deepEqual(stolen, []);
  });
});
