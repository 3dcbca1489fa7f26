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

/** Made by `openssl req -x509 -newkey`, for 100 years. */
const unusual = {
  secp256k1: {
    'tls.crt': `-----BEGIN CERTIFICATE-----
MIIBazCCARKgAwIBAgIUOfKRSAsbSGR+vZbsZSjnmFS9EREwCgYIKoZIzj0EAwIw
DDEKMAgGA1UEAwwBaDAgFw0yNjExMTkyMTIxMzZaGA8yMTI2MTAyNjIxMjEzNlow
DDEKMAgGA1UEAwwBaDBWMBAGByqGSM49AgEGBSuBBAAKA0IABIPa5CcpaHZxISLx
5p+cjz/2grNPGli/cRYog8MqNymu0a5aX7vI1pHH7D2wwfRX1ehDLUeumu/7tKeu
NW5MxyqjUzBRMB0GA1UdDgQWBBSJX3labgsa0Nd04tsdyg5iBR7KQDAfBgNVHSME
GDAWgBSJX3labgsa0Nd04tsdyg5iBR7KQDAPBgNVHRMBAf8EBTADAQH/MAoGCCqG
SM49BAMCA0cAMEQCIARAb1oYSupkqJMWrbILTdGhWV24Zr1A9YXiEU394bnBAiAZ
HupwnB+uF7PVGbWx43kA+soc1MEeWm4bbpW4hbWLmw==
-----END CERTIFICATE-----
`,
    'tls.key': `-----BEGIN PRIVATE KEY-----
MIGEAgEAMBAGByqGSM49AgEGBSuBBAAKBG0wawIBAQQgMybG8+aGCuKxCaN5OlcD
ifTfigZ3aKZEpwNrfH+FgPyhRANCAASD2uQnKWh2cSEi8eafnI8/9oKzTxpYv3EW
KIPDKjcprtGuWl+7yNaRx+w9sMH0V9XoQy1Hrprv+7SnrjVuTMcq
-----END PRIVATE KEY-----
`,
  },
  ed448: {
    'tls.crt': `-----BEGIN CERTIFICATE-----
MIIBeTCB+qADAgECAhQaYpHW86I5ka87AweXIlWzPauoLTAFBgMrZXEwDDEKMAgG
A1UEAwwBaDAgFw0yNjExMTkyMTIxMzZaGA8yMTI2MTAyNjIxMjEzNlowDDEKMAgG
A1UEAwwBaDBDMAUGAytlcQM6AK0ehL3Vb4wsn0LY0SJrrwhv2BwjsaYibaes1vzU
yi/5ShxlxY7eOXddJiq1HxXdd7qK1m3h3ZMkgKNTMFEwHQYDVR0OBBYEFE3egXA1
O7PWOH0Ebzk8iuqYYDK1MB8GA1UdIwQYMBaAFE3egXA1O7PWOH0Ebzk8iuqYYDK1
MA8GA1UdEwEB/wQFMAMBAf8wBQYDK2VxA3MA/VOpCV8zh+VImtC+cvIc3aK6aJ2D
7j9KSnygXRf7ZX67A82gk8HiLteg2v9tXU1kcXJIf9IeNfEA6K4ZawJES+AfONv7
CdsyoHGXXWCIhPfskHxriyEESKO8CLkQbfKKmdv82z78GkECK08ytG24swYA
-----END CERTIFICATE-----
`,
    'tls.key': `-----BEGIN PRIVATE KEY-----
MEcCAQAwBQYDK2VxBDsEOU0hzmai68iifilA6ylgozGMCrFgjzdk52Li5WzPUIZx
ZPpg8o9Mdp+f1WGRACKiBsRIH9q4oQzIAg==
-----END PRIVATE KEY-----
`,
  },
} as const;

const relabelled = (label: string): string =>
  certificateChain.replaceAll(' CERTIFICATE-', ` ${label}-`);

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
  // SPIRE 1.13.3 ended at its start with each of these. OpenSSL reads all of them.
  [
    'a certificate in DER',
    {
      data: {
        'tls.crt': Buffer.from(leaf.der).toString('base64'),
        'tls.key': Buffer.from(privateKey).toString('base64'),
      },
    },
    /no certificate/,
  ],
  [
    'a trusted certificate of OpenSSL',
    secretOf({ 'tls.crt': relabelled('TRUSTED CERTIFICATE'), 'tls.key': privateKey }),
    /no certificate/,
  ],
  [
    'a certificate that begins within a line',
    secretOf({ 'tls.crt': `x ${certificateChain}`, 'tls.key': privateKey }),
    /no certificate/,
  ],
  ['a curve that Go does not know', secretOf(unusual.secp256k1), /type that SPIRE cannot read/],
  ['a key of Ed448', secretOf(unusual.ed448), /type that SPIRE cannot read/],
] as const) {
  test(`a Secret with ${what} is malformed, and SPIRE must not get it`, () => {
    const found = judge(secret);
    assert.equal(found?.reason, 'SecretMalformed');
    assert.match(found.message, words);
    assert.ok(found.isFatal);
  });
}

for (const [what, secret] of [
  ['another text before it', { 'tls.crt': `x\n${certificateChain}`, 'tls.key': privateKey }],
  [
    'line ends of Windows',
    {
      'tls.crt': certificateChain.replaceAll('\n', '\r\n'),
      'tls.key': privateKey.replaceAll('\n', '\r\n'),
    },
  ],
  ['no last line end', { 'tls.crt': certificateChain.trimEnd(), 'tls.key': privateKey.trimEnd() }],
  [
    'both in both files',
    { 'tls.crt': privateKey + certificateChain, 'tls.key': certificateChain + privateKey },
  ],
] as const) {
  test(`a certificate with ${what} has no problem, as for SPIRE`, () => {
    assert.equal(judge(secretOf(secret)), undefined);
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
