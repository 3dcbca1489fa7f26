// The keys and the probe of a cluster with a real kube-apiserver, with credentials that have all rights,
// some, or none.

import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { after, before, suite, test } from 'node:test';
import { type Probe, probeCluster } from '../../src/auth/clusters/probe-cluster.ts';
import { type Discovered, discoverKeys } from '../../src/auth/keys/discover-keys.ts';
import { keySetOf } from '../../src/auth/keys/jwks.ts';
import { systemClock } from '../../src/core/clock/system.ts';
import { verifyJws } from '../../src/core/identity/jwt/jws.ts';
import type { Transport } from '../../src/core/identity/tls/transport.ts';
import { certificatePem } from '../../src/core/identity/x509/pem.ts';
import { forge } from '../../src/core/identity/x509/test-forge.ts';
import { HttpKubeClient } from '../../src/core/kube/http-kube-client.ts';
import type { KubeCredential } from '../../src/core/kube/kube-client.ts';
import { type KubeApiserver, serviceAccountIssuer, startKubeApiserver } from './kube-apiserver.ts';

const serviceAccountKeys = [
  generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey,
  ...['P-256', 'P-384', 'P-521'].map(
    (namedCurve) => generateKeyPairSync('ec', { namedCurve }).privateKey,
  ),
];

const transport: Transport = {
  connect: () => Promise.reject(new Error('the issuer is internal and must not be asked')),
};
const { signal } = new AbortController();

let kube: KubeApiserver;
/** A token of the ServiceAccount `web`, which has no rights of its own. */
let webToken = '';
const clients: HttpKubeClient[] = [];

before(async () => {
  kube = await startKubeApiserver([], { serviceAccountKeys });
  await create('/api/v1/namespaces', { metadata: { name: 'shop' } });
  await create('/api/v1/namespaces/shop/serviceaccounts', { metadata: { name: 'web' } });
  const answer = await create('/api/v1/namespaces/shop/serviceaccounts/web/token', {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: { expirationSeconds: 600 },
  });
  webToken = (answer as { status: { token: string } }).status.token;
});
after(async () => {
  for (const client of clients) client.close();
  await kube?.stop();
});

async function create(path: string, body: unknown): Promise<unknown> {
  return clientWith({ type: 'token', token: kube.token }).create(path, body);
}

function clientWith(credential: KubeCredential, caBundle = kube.ca): HttpKubeClient {
  const client = new HttpKubeClient({
    endpoint: { server: new URL(kube.url), caBundle },
    credentials: { current: () => credential },
    clock: systemClock,
  });
  clients.push(client);
  return client;
}

const asAdmin = () => clientWith({ type: 'token', token: kube.token });
const asWeb = () => clientWith({ type: 'token', token: webToken });
const asNobody = () => clientWith({ type: 'none' });
const asStranger = () => clientWith({ type: 'token', token: 'unknown' });
const ofAnotherCA = () =>
  clientWith({ type: 'token', token: kube.token }, certificatePem(forge({ ca: true }).der));

function discover(client: HttpKubeClient, issuer = serviceAccountIssuer): Promise<Discovered> {
  return discoverKeys(
    { issuer, keySources: [{ from: 'apiServer', client }] },
    { transport, clock: systemClock, signal },
  );
}

const reasonOf = (found: Discovered): string =>
  'failure' in found ? found.failure.reason : 'found';

suite('the keys of a real API server', () => {
  test('are all of its keys, and the one of its token verifies it', async () => {
    const answer = await discover(asAdmin());
    assert.ok('found' in answer, reasonOf(answer));
    const { keys, skipped } = answer.found;
    assert.deepEqual(skipped, []);
    assert.equal(keys.length, serviceAccountKeys.length);
    const set = keySetOf(keys, { fetchedAtMs: 0, from: 'apiServer' });
    const [header = '', payload = '', signature = ''] = webToken.split('.');
    const { kid } = JSON.parse(Buffer.from(header, 'base64url').toString()) as { kid: string };
    const found = set.for(kid);
    assert.equal(found.length, 1);
    assert.ok(
      verifyJws(
        'RS256',
        (found[0] as (typeof found)[0]).publicKey,
        Buffer.from(`${header}.${payload}`),
        Buffer.from(signature, 'base64url'),
      ),
    );
  });

  test('are public for its ServiceAccounts', async () => {
    assert.equal(reasonOf(await discover(asWeb())), 'found');
  });

  test('are not for strangers, and each failure has its reason', async () => {
    assert.equal(reasonOf(await discover(asNobody())), 'Forbidden');
    assert.equal(reasonOf(await discover(asStranger())), 'Unauthorized');
    assert.equal(reasonOf(await discover(ofAnotherCA())), 'CertificateInvalid');
  });

  test('are refused for another issuer', async () => {
    assert.equal(reasonOf(await discover(asAdmin(), 'https://other.example')), 'IssuerMismatch');
  });
});

suite('the probe of a real API server', () => {
  const probe = (client: HttpKubeClient, mode: 'jwks' | 'hybrid'): Promise<Probe> =>
    probeCluster({ name: 'app1', mode }, client, signal);

  test('succeeds with the right to create TokenReviews', async () => {
    assert.deepEqual(await probe(asAdmin(), 'hybrid'), { answered: true });
  });

  test('reports that this right is missing, where the mode needs it', async () => {
    const { answered, problem } = await probe(asWeb(), 'hybrid');
    assert.equal(answered, true);
    assert.equal(problem?.reason, 'Forbidden');
    assert.deepEqual(await probe(asWeb(), 'jwks'), { answered: true });
  });

  test('reports a credential that the API server rejects', async () => {
    for (const mode of ['jwks', 'hybrid'] as const) {
      assert.equal((await probe(asStranger(), mode)).problem?.reason, 'Unauthorized');
    }
  });

  test('reports a server of another CA', async () => {
    const { answered, problem } = await probe(ofAnotherCA(), 'hybrid');
    assert.equal(answered, false);
    assert.equal(problem?.reason, 'CertificateInvalid');
  });
});

suite('an API server that stopped', () => {
  test('is unreachable', async () => {
    const [client, other] = [asAdmin(), asAdmin()];
    await kube.stop();
    assert.equal(reasonOf(await discover(client)), 'Unreachable');
    assert.equal(
      (await probeCluster({ name: 'app1', mode: 'hybrid' }, other, signal)).problem?.reason,
      'Unreachable',
    );
  });
});
