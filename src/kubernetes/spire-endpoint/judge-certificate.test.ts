import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  credentialOf,
  forge,
  forgeLeaf,
  hourMs,
  purposes,
} from '../../core/identity/x509/test-forge.ts';
import { judgeCertificate } from './judge-certificate.ts';

const root = forge({ ca: true });
const host = 'federation.a.example';
const leaf = forgeLeaf(root, '', { uris: [], dnsNames: [host], purposes: [purposes.server] });
const { certificateChain, privateKey } = credentialOf(leaf);
const other = credentialOf(forgeLeaf(root, '', { uris: [], dnsNames: [host] }));

const secretOf = (data: Readonly<Record<string, string>>) => ({
  data: Object.fromEntries(
    Object.entries(data).map(([key, text]) => [key, Buffer.from(text).toString('base64')]),
  ),
});
const good = secretOf({ 'tls.crt': certificateChain, 'tls.key': privateKey });
const judge = (secret: unknown, nowMs = Date.now(), name: string | undefined = host) =>
  judgeCertificate({ secret, secretName: 'tls', namespace: 'spire', host: name, nowMs });

test('a certificate for the host has no problem', () => {
  assert.equal(judge(good), undefined);
  assert.equal(
    judgeCertificate({
      secret: good,
      secretName: 'tls',
      namespace: 'spire',
      host: undefined,
      nowMs: Date.now(),
    }),
    undefined,
  );
});

test('a Secret that is missing is named, with the command that creates it', () => {
  const found = judge(undefined);
  assert.equal(found?.reason, 'SecretMissing');
  assert.match(found.message, /kubectl create secret tls tls -n spire/);
  assert.ok(found.isFatal);
});

for (const [what, secret, words] of [
  ['no data', {}, /no tls\.crt/],
  ['no certificate', secretOf({ 'tls.key': privateKey }), /no tls\.crt/],
  ['no key', secretOf({ 'tls.crt': certificateChain }), /no tls\.key/],
  [
    'a text instead of a certificate',
    secretOf({ 'tls.crt': 'x', 'tls.key': privateKey }),
    /no certificate/,
  ],
  [
    'a text instead of a key',
    secretOf({ 'tls.crt': certificateChain, 'tls.key': 'x' }),
    /no private key/,
  ],
  [
    'the key of another certificate',
    secretOf({ 'tls.crt': certificateChain, 'tls.key': other.privateKey }),
    /not the key of its certificate/,
  ],
] as const) {
  test(`a Secret with ${what} is malformed, and SPIRE must not get it`, () => {
    const found = judge(secret);
    assert.equal(found?.reason, 'SecretMalformed');
    assert.match(found.message, words);
    assert.ok(found.isFatal);
  });
}

test('an expired certificate is a problem that stops nothing', () => {
  const found = judge(good, Date.now() + 100 * 365 * 24 * hourMs);
  assert.equal(found?.reason, 'CertificateExpired');
  assert.match(found.message, /The certificate in the Secret spire\/tls expired at .* Renew it\./);
  assert.ok(!found.isFatal);
});

test('a certificate for another name is a problem that stops nothing', () => {
  const found = judge(good, Date.now(), 'other.a.example');
  assert.equal(found?.reason, 'CertificateForOtherName');
  assert.match(
    found.message,
    /The certificate in the Secret spire\/tls is not for other\.a\.example/,
  );
  assert.ok(!found.isFatal);
});

test('behind a router that encrypts again, the certificate must be for the Service', () => {
  const dnsNames = ['spire-server-federation.spire.svc'];
  const service = credentialOf(forgeLeaf(root, '', { uris: [], dnsNames }));
  const forService = secretOf({
    'tls.crt': service.certificateChain,
    'tls.key': service.privateKey,
  });
  const behindRouter = (secret: unknown) =>
    judgeCertificate({
      secret,
      secretName: 'tls',
      namespace: 'spire',
      host,
      reencrypts: true,
      nowMs: Date.now(),
    });
  assert.equal(behindRouter(forService), undefined);
  const found = behindRouter(good);
  assert.equal(found?.reason, 'CertificateForOtherName');
  assert.match(
    found.message,
    /is not for spire-server-federation\.spire\.svc, .*exposure\.termination to passthrough/,
  );
  assert.ok(!found.isFatal);
});
