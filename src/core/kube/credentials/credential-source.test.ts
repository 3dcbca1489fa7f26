import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import type { Cluster } from '../../../api/kinds/cluster.ts';
import { decodeBase64url } from '../../identity/jwt/jws.ts';
import { exportPkcs8, generateP256, PublicKey } from '../../identity/x509/keys.ts';
import { certificatePem, privateKeyPem } from '../../identity/x509/pem.ts';
import type { KubeCredential } from '../kube-client.ts';
import { bindingOf } from './credential-binding.ts';
import { problemReason } from './credential-problem.ts';
import type { ClusterCredentials } from './cluster-credentials.ts';
import { clusterOf, credentialScene, hour, otherKey, tokenOf } from './test-credentials.ts';

const reason = (expected: string) => (error: unknown) => {
  assert.equal(problemReason(error), expected);
  assert.ok((error as Error).message.includes('app1') || expected === 'NoIssuer');
  return true;
};
const rejectsWith = (
  { credentials, cluster }: { credentials: ClusterCredentials; cluster: Cluster },
  expected: string,
): Promise<void> =>
  assert.rejects(async () => credentials.sourceOf(cluster).current(), reason(expected));

const tokenIn = (credential: KubeCredential): string => {
  assert.equal(credential.type, 'token');
  return (credential as { token: string }).token;
};

const put = (
  { stored }: ClusterCredentials,
  cluster: Cluster,
  token: string,
  from: { command: true } | { file: string } = { command: true },
): Promise<void> =>
  stored.put(
    'app1',
    {
      binding: bindingOf(cluster) as NonNullable<ReturnType<typeof bindingOf>>,
      from,
      secret: { type: 'token', token },
    },
    'any',
    { expect: [] },
  );

suite('a token in a file', () => {
  const cluster = clusterOf({ credential: { tokenFile: 'app1/token' } });

  test('is used as it is, without a promise while nothing changes', async (t) => {
    const { credentials, write } = await credentialScene(t);
    write('app1/token', 'opaque-token\n');
    const source = credentials.sourceOf(cluster);
    assert.equal(tokenIn(await source.current()), 'opaque-token');
    assert.equal(source.current(), source.current());
    assert.ok(!(source.current() instanceof Promise));
  });

  test('is read again after the API server rejected it', async (t) => {
    const { credentials, clock, write } = await credentialScene(t);
    write('app1/token', 'one');
    const source = credentials.sourceOf(cluster);
    const first = await source.current();
    write('app1/token', 'two!');
    source.refused(first);
    await clock.advance(1_000);
    assert.equal(tokenIn(await source.current()), 'two!');
  });

  test('is reported when it is rejected, at most every 10 seconds', async (t) => {
    const { credentials, clock, write } = await credentialScene(t);
    const told: string[] = [];
    credentials.onRefused((name) => told.push(name));
    write('app1/token', 'one');
    const source = credentials.sourceOf(cluster);
    const first = await source.current();
    source.refused(first);
    source.refused(first);
    assert.deepEqual(told, ['app1']);
    await clock.advance(10_000);
    source.refused(first);
    assert.deepEqual(told, ['app1', 'app1']);
  });

  test('cannot be used where the file is missing, empty, or no token', async (t) => {
    const { credentials, clock, write } = await credentialScene(t);
    await rejectsWith({ credentials, cluster }, 'FileUnreadable');
    for (const text of ['', 'two words', 'a\nHost: evil']) {
      write('app1/token', text);
      await clock.advance(5_000);
      await rejectsWith({ credentials, cluster }, 'NoToken');
    }
  });

  test('ignores a stored credential', async (t) => {
    const { credentials, clock, write } = await credentialScene(t);
    write('app1/token', tokenOf(clock.now(), hour));
    await put(credentials, cluster, tokenOf(clock.now() + hour, hour), { file: 'app1/token' });
    const token = tokenIn(await credentials.sourceOf(cluster).current());
    assert.equal(token, tokenOf(clock.now(), hour));
  });
});

suite('a token in a file that the site renews', () => {
  const cluster = clusterOf({ credential: { tokenFile: 'app1/token', renew: {} } });

  test('is replaced by its renewal, at every replica', async (t) => {
    const { credentials, open, clock, write } = await credentialScene(t);
    write('app1/token', tokenOf(clock.now(), hour));
    const other = open();
    const [source, there] = [credentials.sourceOf(cluster), other.sourceOf(cluster)];
    assert.equal(tokenIn(await there.current()), tokenOf(clock.now(), hour));
    const renewed = tokenOf(clock.now() + 1000, hour);
    await put(credentials, cluster, renewed, { file: 'app1/token' });
    assert.equal(tokenIn(await source.current()), renewed);
    assert.equal(tokenIn(await there.current()), renewed);
    assert.ok(!(there.current() instanceof Promise));
  });

  test('wins again when the file holds a newer one', async (t) => {
    const { credentials, clock, write } = await credentialScene(t);
    write('app1/token', tokenOf(clock.now(), hour));
    const source = credentials.sourceOf(cluster);
    await put(credentials, cluster, tokenOf(clock.now() + 1000, hour), { file: 'app1/token' });
    const newer = tokenOf(clock.now() + 2000, 2 * hour);
    write('app1/token', newer);
    await clock.advance(5_000);
    assert.equal(tokenIn(await source.current()), newer);
  });

  test('wins when it is of another ServiceAccount', async (t) => {
    const { credentials, clock, write } = await credentialScene(t);
    const other = tokenOf(clock.now(), hour, { sub: 'system:serviceaccount:kube-fed:other' });
    write('app1/token', other);
    await put(credentials, cluster, tokenOf(clock.now() + 1000, hour), { file: 'app1/token' });
    assert.equal(tokenIn(await credentials.sourceOf(cluster).current()), other);
  });

  test('is used when its renewal is rejected or has expired', async (t) => {
    const { credentials, clock, write } = await credentialScene(t);
    const inFile = tokenOf(clock.now(), 10 * hour);
    write('app1/token', inFile);
    const renewed = tokenOf(clock.now() + 1000, hour);
    await put(credentials, cluster, renewed, { file: 'app1/token' });
    const source = credentials.sourceOf(cluster);
    const first = await source.current();
    assert.equal(tokenIn(first), renewed);
    source.refused(first);
    assert.equal(tokenIn(await source.current()), inFile);
    // A new process does not know of the rejection, but the renewal expires.
    credentials.retain(() => false);
    const again = credentials.sourceOf(cluster);
    assert.equal(tokenIn(await again.current()), renewed);
    await clock.advance(2 * hour);
    assert.equal(tokenIn(await again.current()), inFile);
  });

  test('ends with the file: a withdrawn token has no renewal', async (t) => {
    const { credentials, clock, write, folder } = await credentialScene(t);
    write('app1/token', tokenOf(clock.now(), hour));
    await put(credentials, cluster, tokenOf(clock.now() + 1000, hour), { file: 'app1/token' });
    await credentials.sourceOf(cluster).current();
    rmSync(`${folder}/app1/token`);
    await clock.advance(5_000);
    await rejectsWith({ credentials, cluster }, 'FileUnreadable');
  });

  test('does not use a renewal for another address or another file', async (t) => {
    const { credentials, clock, write } = await credentialScene(t);
    const inFile = tokenOf(clock.now(), hour);
    write('app1/token', inFile);
    write('app2/token', inFile);
    await put(credentials, cluster, tokenOf(clock.now() + 1000, hour), { file: 'app1/token' });
    for (const spec of [
      { apiServer: 'https://evil.example', credential: { tokenFile: 'app1/token', renew: {} } },
      { credential: { tokenFile: 'app2/token', renew: {} } },
    ]) {
      credentials.retain(() => false);
      const source = credentials.sourceOf(clusterOf(spec, 2));
      assert.equal(tokenIn(await source.current()), inFile);
    }
  });
});

suite('a stored credential', () => {
  const cluster = clusterOf();

  test('is used by every replica until it is deleted', async (t) => {
    const { credentials, open, store } = await credentialScene(t);
    await rejectsWith({ credentials, cluster }, 'NotSet');
    await put(credentials, cluster, 'secret-token');
    const there = open();
    assert.equal(tokenIn(await there.sourceOf(cluster).current()), 'secret-token');
    assert.ok(!(there.sourceOf(cluster).current() instanceof Promise));
    assert.ok(!store.get('kube.secrets', 'app1')?.value.includes('secret-token'));
    await credentials.stored.delete('app1', []);
    await rejectsWith({ credentials: there, cluster }, 'NotSet');
    assert.equal(await credentials.stored.delete('app1', []), false);
  });

  const ca = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n';
  const bound = clusterOf({ caBundle: ca });
  const changes: readonly [string, Cluster][] = [
    ['API server', clusterOf({ caBundle: ca, apiServer: 'https://evil.example' })],
    ['CA', clusterOf({ caBundle: ca.replace('AAAA', 'BBBB') })],
    ['CA, to the public ones', clusterOf()],
    ['CA, to a file', clusterOf({ caFile: 'ca.crt' })],
    ['server name', clusterOf({ caBundle: ca, tlsServerName: 'evil.example' })],
    ['proxy', clusterOf({ caBundle: ca, proxyURL: 'http://evil.example' })],
    ['object', { ...bound, metadata: { ...bound.metadata, uid: 'uid-2' } }],
  ];
  for (const [what, changed] of changes) {
    test(`is not used after a change of the ${what}`, async (t) => {
      const { credentials, open } = await credentialScene(t);
      await put(credentials, bound, 'secret-token');
      assert.equal(tokenIn(await credentials.sourceOf(bound).current()), 'secret-token');
      await rejectsWith({ credentials: open(), cluster: changed }, 'BindingChanged');
    });
  }

  test('is used after a change that means the same', async (t) => {
    const { credentials } = await credentialScene(t);
    await put(credentials, bound, 'secret-token');
    const same = clusterOf({
      caBundle: `# comment\n${ca}\n`,
      apiServer: 'https://APP1.example:6443/',
    });
    assert.equal(tokenIn(await credentials.sourceOf(same).current()), 'secret-token');
  });

  test('is not the renewal of a file', async (t) => {
    const { credentials } = await credentialScene(t);
    await put(credentials, cluster, 'secret-token', { file: 'app1/token' });
    await rejectsWith({ credentials, cluster }, 'NotSet');
  });

  test('cannot be moved to another cluster in the store', async (t) => {
    const { credentials, store } = await credentialScene(t);
    await put(credentials, cluster, 'secret-token');
    const { value } = store.get('kube.secrets', 'app1') as { value: Buffer };
    await store.commit({
      put: [{ collection: 'kube.secrets', name: 'app2', encode: () => Buffer.from(value) }],
    });
    const stolen = { ...cluster, metadata: { ...cluster.metadata, name: 'app2' } };
    await assert.rejects(
      async () => credentials.sourceOf(stolen).current(),
      /Cannot open the sealed value/,
    );
  });

  test('is not needed to read public keys', async (t) => {
    const { credentials } = await credentialScene(t);
    const open = clusterOf({ validation: { mode: 'jwks' } });
    assert.deepEqual(await credentials.sourceOf(open).current(), { type: 'none' });
  });
});

suite('a client certificate', () => {
  const cluster = clusterOf({
    credential: { clientCertificate: { certFile: 'app1/cert.pem', keyFile: 'app1/key.pem' } },
  });

  test('is used with its key and its expiry', async (t) => {
    const { credentials, authority, random, clock, write } = await credentialScene(t);
    const key = await generateP256(random);
    const { chain, notAfterMs } = await authority.issueSite({ publicKey: PublicKey.of(key) });
    const pem = certificatePem(chain[0] as Buffer);
    write('app1/cert.pem', pem);
    write('app1/key.pem', privateKeyPem(exportPkcs8(key)));
    const picked = await credentials.sourceOf(cluster).inspect();
    assert.equal(picked.credential.type, 'certificate');
    assert.equal(picked.expiresAtMs, notAfterMs);
    assert.equal(credentials.sourceOf(cluster).current(), picked.credential);
    write('app1/key.pem', otherKey);
    await clock.advance(5_000);
    await rejectsWith({ credentials, cluster }, 'BadCertificate');
  });

  test('is refused where it is not one, without the key in the message', async (t) => {
    const { credentials, write } = await credentialScene(t);
    write('app1/cert.pem', 'not a certificate');
    write('app1/key.pem', 'SECRET-KEY');
    await rejectsWith({ credentials, cluster }, 'BadCertificate');
    await assert.rejects(
      async () => credentials.sourceOf(cluster).current(),
      (error: Error) => !error.message.includes('SECRET-KEY'),
    );
  });
});

suite('the credential of the Pod', () => {
  const inPod = async (t: TestContext) => {
    const folder = mkdtempSync(join(tmpdir(), 'hansa-pod-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const { credentials } = await credentialScene(t, { inCluster: { folder, host: '10.0.0.1' } });
    writeFileSync(join(folder, 'token'), 'pod-token');
    writeFileSync(join(folder, 'ca.crt'), '-----BEGIN CERTIFICATE-----\n');
    return credentials;
  };
  const inside = clusterOf({
    apiServer: 'https://kubernetes.default.svc',
    credential: { inCluster: true },
  });

  test('goes to the API server of the own cluster', async (t) => {
    const credentials = await inPod(t);
    for (const apiServer of ['https://kubernetes.default.svc', 'https://10.0.0.1:443']) {
      const cluster = clusterOf({ apiServer, credential: { inCluster: true } });
      credentials.retain(() => false);
      assert.equal(tokenIn(await credentials.sourceOf(cluster).current()), 'pod-token');
    }
    assert.match((await credentials.caOf(inside)) ?? '', /BEGIN CERTIFICATE/);
  });

  test('is renewed by Kubernetes, never by the site', async (t) => {
    const credential = { inCluster: true, renew: {} };
    const cluster = clusterOf({ apiServer: 'https://kubernetes.default.svc', credential });
    assert.equal((await inPod(t)).sourceOf(cluster).renew, undefined);
  });

  test('does not exist outside of a cluster', async (t) => {
    const { credentials } = await credentialScene(t);
    await rejectsWith({ credentials, cluster: inside }, 'NotInCluster');
  });

  for (const spec of [
    { apiServer: 'https://evil.example' },
    { apiServer: 'https://kubernetes.default.svc.evil.example' },
    { proxyURL: 'http://evil.example' },
    { caBundle: 'x' },
    { tlsServerName: 'evil.example' },
  ]) {
    test(`is not sent to ${JSON.stringify(spec)}`, async (t) => {
      const credentials = await inPod(t);
      const cluster = clusterOf({ ...inside.spec, ...spec });
      await rejectsWith({ credentials, cluster }, 'NotInCluster');
    });
  }
});

suite('the JWT-SVID of the site', () => {
  const cluster = clusterOf({ credential: { jwtSVID: { audience: 'app1' } } });
  const claimsIn = (token: string): Record<string, unknown> =>
    JSON.parse(decodeBase64url(token.split('.')[1] as string)?.toString() ?? '') as never;

  test('names the site, its issuer and the audience, and is used for half of its life', async (t) => {
    const { credentials, clock } = await credentialScene(t);
    const source = credentials.sourceOf(cluster);
    const first = tokenIn(await source.current());
    const { iss, sub, aud, iat, exp } = claimsIn(first);
    assert.deepEqual(
      { iss, sub, aud, life: (exp as number) - (iat as number) },
      {
        iss: 'https://lubeck.example',
        sub: 'spiffe://lubeck.example/hansa/site',
        aud: ['app1'],
        life: 300,
      },
    );
    await clock.advance(149_000);
    assert.equal(tokenIn(source.current() as KubeCredential), first);
    await clock.advance(1_000);
    assert.notEqual(tokenIn(await source.current()), first);
  });

  test('is replaced when the key changes, when it is rejected, and when the clock is set back', async (t) => {
    const { credentials, authority, clock } = await credentialScene(t);
    const source = credentials.sourceOf(cluster);
    const first = await source.current();
    await authority.replaceAtOnce('jwt', { fresh: true }, () => []);
    const second = await source.current();
    assert.notEqual(tokenIn(second), tokenIn(first));
    source.refused(second);
    // A new token would be rejected, too.
    assert.deepEqual(source.current(), second);
    await clock.advance(10_000);
    source.refused(second);
    const third = await source.current();
    assert.notEqual(tokenIn(third), tokenIn(second));
    clock.jumpWall(-60_000);
    assert.notEqual(tokenIn(await source.current()), tokenIn(third));
  });

  test('needs an OIDC issuer', async (t) => {
    const { credentials } = await credentialScene(t, { jwtIssuer: () => undefined });
    await rejectsWith({ credentials, cluster }, 'NoIssuer');
  });
});

suite('the CA of an API server', () => {
  test('comes from the spec, from a file, or is public', async (t) => {
    const { credentials, clock, write } = await credentialScene(t);
    assert.equal(credentials.caOf(clusterOf({}, 1)), undefined);
    assert.equal(credentials.caOf(clusterOf({ caBundle: 'pem' }, 2)), 'pem');
    const fromFile = clusterOf({ caFile: 'app1/ca.crt' }, 3);
    write('app1/ca.crt', '-----BEGIN CERTIFICATE----- 1');
    assert.equal(await credentials.caOf(fromFile), '-----BEGIN CERTIFICATE----- 1');
    write('app1/ca.crt', '-----BEGIN CERTIFICATE----- two');
    await clock.advance(5_000);
    assert.equal(await credentials.caOf(fromFile), '-----BEGIN CERTIFICATE----- two');
    write('app1/ca.crt', 'nothing');
    await clock.advance(5_000);
    await assert.rejects(async () => credentials.caOf(fromFile), /contains no certificate/);
  });
});
