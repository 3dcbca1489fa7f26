import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { SiteAuthority } from '../identity/authority/authority.ts';
import { generateP256 } from '../identity/x509/keys.ts';
import { parseCertificatesPem } from '../identity/x509/pem.ts';
import { validateChain } from '../identity/x509/svid-validator.ts';
import { MemoryVault } from '../identity/authority/test-vault.ts';
import { type Caller, controllerCaller, socketOwner, tokenCaller } from './identity.ts';
import { lubeck, openScene, person, type Scene } from './test-scene.ts';
import { createToken, revokeToken } from './token-operations.ts';
import { issueUserCredential, type UserCredentialParts } from './user-credentials.ts';

interface Stage extends Scene {
  readonly parts: UserCredentialParts;
  readonly publicKey: string;
  /** As a listener does: validates the chain, then asks who it is. */
  readonly present: (certificate: string) => Caller;
}

async function openStage(): Promise<Stage> {
  const scene = await openScene();
  const authority = await SiteAuthority.open({
    trustDomain: lubeck,
    clock: scene.clock,
    random: scene.random,
    vault: new MemoryVault(),
  });
  const privateKey = await generateP256(scene.random);
  const bundles = { bundleFor: () => authority.bundle };
  return {
    ...scene,
    parts: { ...scene, issuer: authority.reservedIssuer('user') },
    publicKey: createPublicKey(privateKey).export({ format: 'pem', type: 'spki' }).toString(),
    present: (certificate) => {
      const chain = parseCertificatesPem(certificate, 4);
      const peer = validateChain(chain, bundles, scene.clock.now());
      return scene.authenticator.authenticate({ peer, listener: 'tls', address: '192.0.2.1' });
    },
  };
}

test('the owner of the socket logs in as admin, for an hour', async () => {
  const { parts, publicKey, present, clock } = await openStage();
  const issued = await issueUserCredential(parts, socketOwner, { publicKey });
  assert.equal(issued.user, 'admin');
  assert.equal(issued.spiffeId, 'spiffe://lubeck.example/hansa/user/admin');
  assert.equal(issued.notAfter, '2026-01-01T01:00:00Z');
  const caller = present(issued.certificate);
  assert.equal(caller.user, 'admin');
  assert.deepEqual(caller.groups, ['hansa:admins', 'system:authenticated']);
  assert.equal(caller.credential, issued.serialNumber);
  await clock.advance(3_601_000);
  assert.throws(() => present(issued.certificate));
});

test("the owner of the socket logs in as any user, who has that user's rights and no more", async () => {
  const { parts, publicKey, present } = await openStage();
  const issued = await issueUserCredential(parts, socketOwner, {
    publicKey,
    user: 'alice.smith',
    ttlSeconds: 600,
  });
  assert.equal(issued.notAfter, '2026-01-01T00:10:00Z');
  assert.deepEqual(present(issued.certificate).groups, ['system:authenticated']);
});

test('a token logs in as itself, no longer than it lives, and only until it is revoked', async () => {
  const stage = await openStage();
  const { parts, publicKey, present } = stage;
  await createToken(stage, socketOwner, { name: 'ci', role: 'viewer', ttlSeconds: 900 });
  const issued = await issueUserCredential(parts, tokenCaller('ci'), { publicKey });
  assert.equal(issued.user, 'token:ci');
  assert.equal(issued.notAfter, '2026-01-01T00:15:00Z');
  const caller = present(issued.certificate);
  assert.equal(caller.user, 'token:ci');
  assert.equal(caller.via, 'certificate');
  await revokeToken(stage, socketOwner, 'ci');
  assert.throws(() => present(issued.certificate), { code: 'HANSA_UNAUTHENTICATED' });
  await createToken(stage, socketOwner, { name: 'ci', role: 'admin' });
  assert.throws(() => present(issued.certificate), { code: 'HANSA_UNAUTHENTICATED' });
});

test('a token cannot log in as anybody else', async () => {
  const stage = await openStage();
  const { parts, publicKey } = stage;
  await createToken(stage, socketOwner, { name: 'ci', role: 'admin' });
  for (const user of ['admin', 'alice', 'token:other', 'ci', 7])
    await assert.rejects(issueUserCredential(parts, tokenCaller('ci'), { publicKey, user }), {
      code: 'HANSA_INVALID',
      message: /logs in as itself/,
    });
  await issueUserCredential(parts, tokenCaller('ci'), { publicKey, user: 'token:ci' });
});

test('a certificate obtains no other certificate, not even one of a token', async () => {
  const stage = await openStage();
  const { parts, publicKey } = stage;
  await createToken(stage, socketOwner, { name: 'ci', role: 'admin' });
  for (const caller of [
    person('alice'),
    tokenCaller('ci', 'certificate', '0a'),
    controllerCaller('x'),
  ])
    await assert.rejects(issueUserCredential(parts, caller, { publicKey }), {
      code: 'HANSA_FORBIDDEN',
    });
});

test('names that are not those of people, and keys that are none, are refused', async () => {
  const { parts, publicKey, store } = await openStage();
  const rows = store.auditLog.size;
  for (const user of [
    '',
    'Alice',
    'a/b',
    '..',
    '.',
    'token.ci.0123456789abcdef',
    'token.x',
    'a b',
    'a:b',
    'x'.repeat(64),
    null,
  ])
    await assert.rejects(issueUserCredential(parts, socketOwner, { publicKey, user }), {
      code: 'HANSA_INVALID',
    });
  const { privateKey, publicKey: weak } = generateKeyPairSync('rsa', { modulusLength: 1024 });
  const secret = privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
  for (const key of [
    undefined,
    7,
    '',
    'x',
    secret,
    weak.export({ format: 'pem', type: 'spki' }).toString(),
    publicKey.replace('M', 'N'),
    `${publicKey}${' '.repeat(4096)}`,
  ])
    await assert.rejects(
      issueUserCredential(parts, socketOwner, { publicKey: key }),
      (error: Error & { code: string }) => {
        assert.equal(error.code, 'HANSA_INVALID');
        assert.ok(!error.message.includes(secret.slice(40, 80)));
        return true;
      },
    );
  await assert.rejects(issueUserCredential(parts, socketOwner, { publicKey, ttlSeconds: 3601 }), {
    code: 'HANSA_INVALID',
  });
  assert.equal(store.auditLog.size, rows);
});

test('each certificate leaves a record with its serial number', async () => {
  const { parts, publicKey, store } = await openStage();
  const issued = await issueUserCredential(parts, socketOwner, { publicKey, user: 'alice' });
  const [row] = await store.auditLog.read(0, 1);
  const event = JSON.parse(row?.toString('utf8') ?? '');
  assert.equal(event.verb, 'issue');
  assert.equal(event.kind, 'UserSVID');
  assert.equal(event.name, 'alice');
  assert.ok(event.reason.includes(issued.serialNumber));
});
