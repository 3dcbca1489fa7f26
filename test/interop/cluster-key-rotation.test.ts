// A real kube-apiserver that begins to sign with a new key and later drops the old one: the site renews its own
// token in between, so that it outlives the old key. Where the old key goes at once, the status says what to do.

import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { Cluster } from '../../src/api/kinds/cluster.ts';
import { accessManifests } from '../../src/auth/manifests/access-manifests.ts';
import type { Manifest } from '../../src/core/kube/manifests/manifest.ts';
import { findCondition } from '../../src/core/reconcile/conditions.ts';
import { until } from '../e2e/until.ts';
import { type KubeApiserver, serviceAccountIssuer, startKubeApiserver } from './kube-apiserver.ts';
import {
  clustersPath,
  hostOf,
  reviewOf,
  type ReviewStatus,
  reviewsPath,
} from './review-cluster.ts';
import { type Site, startSite } from './site.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('etcd', 'kube-apiserver');
const tokenPath = '/api/v1/namespaces/kube-fed/serviceaccounts/hansa/token';
const newKey = (): KeyObject => generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;

suite('an API server that rotates its signing key', { skip }, () => {
  let kube: KubeApiserver;
  let site: Site;
  const [first, second, third] = [newKey(), newKey(), newKey()] as const;

  before(async () => {
    // Two files: the first one signs, both verify.
    kube = await startKubeApiserver([], { serviceAccountKeys: [first, first] });
    const manifests = accessManifests({
      subject: { kind: 'ServiceAccount' },
      trustDomain: 'lubeck.example',
    });
    for (const manifest of manifests) await create(manifest);
    site = await startSite();
    const { status, text } = await site.client.send({
      method: 'POST',
      path: clustersPath,
      body: JSON.stringify({
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'Cluster',
        metadata: { name: 'app1' },
        spec: { issuer: serviceAccountIssuer, apiServer: kube.url, caBundle: kube.ca },
      }),
    });
    assert.equal(status, 201, text);
    const stored = await site.client.send({
      method: 'PUT',
      path: '/hansa/v1/clusters/app1/credential',
      body: JSON.stringify({ token: await requestToken() }),
    });
    assert.equal(stored.status, 200, stored.text);
    await untilTold('Ready', 'True');
  });
  after(async () => {
    await site?.stop();
    await kube?.stop();
  });

  async function create(manifest: Manifest): Promise<void> {
    const { apiVersion, kind, metadata } = manifest;
    const group = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
    const below = metadata.namespace === undefined ? '' : `/namespaces/${metadata.namespace}`;
    const { status, text } = await kube.client.send({
      method: 'POST',
      path: `${group}${below}/${kind.toLowerCase()}s`,
      body: JSON.stringify(manifest),
    });
    assert.equal(status, 201, text);
  }

  async function requestToken(): Promise<string> {
    const body = JSON.stringify({ spec: { expirationSeconds: 604_800 } });
    const { text } = await kube.client.send({ method: 'POST', path: tokenPath, body });
    return (JSON.parse(text) as { readonly status: { readonly token: string } }).status.token;
  }

  async function untilTold(type: string, expected: string): Promise<string> {
    let last = '';
    await until(
      async () => {
        const { text } = await site.client.send({ method: 'GET', path: `${clustersPath}/app1` });
        const found = findCondition((JSON.parse(text) as Cluster).status?.conditions, type);
        last = `${found?.status} ${found?.reason}: ${found?.message}`;
        return last.startsWith(expected);
      },
      () => `${type} is ${last}`,
    );
    return last;
  }

  const restartWith = (...keys: readonly KeyObject[]): Promise<void> =>
    kube.restart(async () => {
      for (const [index, key] of keys.entries()) {
        const pem = key.export({ type: 'sec1', format: 'pem' });
        writeFileSync(join(kube.folder, `service-account-${index}.pem`), pem, { mode: 0o600 });
      }
    });

  const review = async (): Promise<boolean> => {
    const { status, text } = await site.client.send({
      method: 'POST',
      path: reviewsPath,
      headers: { host: hostOf('app1') },
      body: reviewOf(await requestToken()),
    });
    const answer = JSON.parse(text) as { readonly status: ReviewStatus };
    return status === 201 && answer.status.authenticated === true;
  };

  const renewals = async (): Promise<number> => {
    const path = '/hansa/v1/audit/events?limit=200';
    const { text } = await site.client.send({ method: 'GET', path });
    return text.split('"cluster.credential.renew"').length - 1;
  };

  test('keeps the credential of the site, which is renewed in between', async () => {
    assert.equal(await renewals(), 0);
    await restartWith(second, first);
    // A review of a token of the new key lets the site notice.
    await until(review, 'no review of a token of the new key');
    await until(async () => (await renewals()) === 1, 'the token was not renewed');
    await restartWith(second, second);
    await until(review, 'no review after the old key was dropped');
    await untilTold('CredentialFresh', 'True Fresh');
  });

  test('and drops the old one at once ends the credential, and the site says what to do', async () => {
    await restartWith(third, third);
    const token = await requestToken();
    const { status } = await site.client.send({
      method: 'POST',
      path: reviewsPath,
      headers: { host: hostOf('app1') },
      body: reviewOf(token),
    });
    assert.equal(status, 503);
    const told = await untilTold('CredentialFresh', 'False Refused');
    assert.match(told, /dropped the key that signed it.*hansa cluster add app1/);
    const body = JSON.stringify({ token });
    await site.client.send({ method: 'PUT', path: '/hansa/v1/clusters/app1/credential', body });
    await untilTold('CredentialFresh', 'True Fresh');
    await untilTold('Ready', 'True');
    assert.equal(await review(), true);
  });
});
