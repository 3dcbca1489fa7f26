import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { socketOwner } from '../../core/access/identity.ts';
import { hasCode } from '../../core/errors/error.ts';
import { exportPkcs8, generateP256, PublicKey } from '../../core/identity/x509/keys.ts';
import { certificatePem, privateKeyPem } from '../../core/identity/x509/pem.ts';
import { credentialsCollection } from '../../core/kube/credentials/stored-credentials.ts';
import {
  apiServer,
  hour,
  otherKey,
  tokenOf,
} from '../../core/kube/credentials/test-credentials.ts';
import type { PlaneResponse } from '../../core/plane/route.ts';
import { callRoute, type TestHost } from '../../core/plane/test-request.ts';
import { credentialSite } from '../credentials/test-credential-site.ts';
import { credentialRoutes } from './credential-routes.ts';

async function scene(t: TestContext) {
  const site = await credentialSite(t);
  const routes = credentialRoutes({ ...site, stored: site.credentials.stored });
  const call = (
    method: string,
    body: unknown,
    name = 'app1',
    host: TestHost = {},
  ): Promise<PlaneResponse> =>
    callRoute(
      routes.find((route) => route.method === method),
      {
        caller: socketOwner,
        params: { name },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      },
      host,
    );
  return { ...site, call };
}

const code = (expected: string) => (error: unknown) => hasCode(error, expected as never);

suite('setting a credential', () => {
  test('stores a token, answers without it, and audits without it', async (t) => {
    const { create, call, clock, store, records } = await scene(t);
    await create();
    const token = tokenOf(clock.now(), hour);
    const { status, body } = await call('PUT', { token, apiServer });
    assert.equal(status, 200);
    assert.deepEqual(JSON.parse(body.toString()), {
      cluster: 'app1',
      type: 'token',
      subject: 'system:serviceaccount:kube-fed:hansa',
      expiresAt: '2026-01-01T01:00:00Z',
    });
    const kept = store.get(credentialsCollection, 'app1');
    assert.ok(kept !== undefined && !kept.value.includes(token));
    const set = records.find(({ verb }) => verb === 'cluster.credential.set');
    assert.equal(set?.name, 'app1');
    assert.match(set?.reason ?? '', /token of system:serviceaccount:kube-fed:hansa for https:/);
    assert.ok(!JSON.stringify(records).includes(token));
  });

  test('stores a client certificate with its key', async (t) => {
    const { create, call, authority, random } = await scene(t);
    await create();
    const key = await generateP256(random);
    const { chain } = await authority.issueSite({ publicKey: PublicKey.of(key) });
    const clientCertificate = certificatePem(chain[0] as Buffer);
    const clientKey = privateKeyPem(exportPkcs8(key));
    const { body } = await call('PUT', { clientCertificate, clientKey });
    assert.equal((JSON.parse(body.toString()) as { type: string }).type, 'certificate');
    await assert.rejects(
      call('PUT', { clientCertificate, clientKey: otherKey }),
      /key does not belong to the certificate/,
    );
  });

  const token = 'SECRET-TOKEN';
  const bad: readonly [string, unknown][] = [
    ['nothing', {}],
    ['a token of several words', { token: 'SECRET-TOKEN with spaces' }],
    ['an empty token', { token: '' }],
    ['a token that is not a string', { token: 7 }],
    ['two credentials', { token, clientCertificate: 'x', clientKey: 'y' }],
    ['a certificate without a key', { clientCertificate: 'x' }],
    ['a certificate that is none', { clientCertificate: 'x', clientKey: 'SECRET-TOKEN' }],
    ['an expired token', { token: tokenOf(0, hour) }],
    ['a list', []],
    ['no JSON', '{'],
  ];
  for (const [what, body] of bad) {
    test(`is refused for ${what}, without the secret in the message`, async (t) => {
      const { create, call, store } = await scene(t);
      await create();
      await assert.rejects(call('PUT', body), (error: Error) => {
        assert.ok(code('HANSA_BAD_REQUEST')(error));
        assert.ok(!error.message.includes('SECRET-TOKEN'));
        return true;
      });
      assert.equal(store.get(credentialsCollection, 'app1'), undefined);
    });
  }

  test('is refused for a body of more than 256 KiB', async (t) => {
    const { create, call } = await scene(t);
    await create();
    await assert.rejects(call('PUT', { token: 'x'.repeat(300_000) }), code('HANSA_TOO_LARGE'));
  });

  test('is refused where there is no such cluster', async (t) => {
    const { call } = await scene(t);
    await assert.rejects(call('PUT', { token }), code('HANSA_NOT_FOUND'));
  });

  test('is refused where the Cluster names a source, or has no API server', async (t) => {
    const { create, call, client } = await scene(t);
    await create({ apiServer, credential: { tokenFile: 'app1/token' } });
    await assert.rejects(call('PUT', { token }), /spec\.credential\.tokenFile\. Remove that field/);
    await client.patchSpec('app1', ({ spec }) => ({ issuer: spec.issuer, local: false }), {
      controller: 'test',
    });
    await assert.rejects(call('PUT', { token }), /has no apiServer/);
  });

  test('is refused where the author changed the address after the caller read it', async (t) => {
    const { create, call, client, store } = await scene(t);
    await create();
    await client.patchSpec('app1', ({ spec }) => ({ ...spec, apiServer: 'https://evil.example' }), {
      controller: 'test',
    });
    await assert.rejects(call('PUT', { token, apiServer }), code('HANSA_CONFLICT'));
    assert.equal(store.get(credentialsCollection, 'app1'), undefined);
  });

  test('is for administrators', async (t) => {
    const { create, store } = await scene(t);
    await create();
    // No role or binding exists in this store.
    for (const method of ['PUT', 'DELETE']) {
      const nobody = { ...socketOwner, user: 'alice', groups: [], via: 'certificate' as const };
      const routes = credentialRoutes({} as never);
      await assert.rejects(
        callRoute(
          routes.find((route) => route.method === method),
          { caller: nobody, params: { name: 'app1' }, body: JSON.stringify({ token }) },
          { store },
        ),
        code('HANSA_FORBIDDEN'),
      );
    }
  });
});

suite('deleting a credential', () => {
  test('ends its use at every replica, and is audited', async (t) => {
    const { create, call, open, records } = await scene(t);
    const cluster = await create();
    await call('PUT', { token: 'opaque' });
    const there = open().sourceOf(cluster);
    assert.deepEqual(await there.current(), { type: 'token', token: 'opaque' });
    await call('DELETE', '');
    await assert.rejects(async () => there.current(), /has no credential/);
    assert.ok(records.some(({ verb }) => verb === 'cluster.credential.delete'));
  });

  test('is refused where none is stored', async (t) => {
    const { create, call } = await scene(t);
    await create();
    await assert.rejects(call('DELETE', ''), code('HANSA_NOT_FOUND'));
  });
});
