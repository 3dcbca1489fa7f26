import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { HansaError } from '../../core/errors/error.ts';
import { brokenRule, type Rule } from '../../core/identity/x509/rules.ts';
import { maxRequestBytes, readSigningRequest } from './signing-request.ts';
import { forge, type Forged, p256 } from './test-signing-request.ts';

/** Made by `openssl req -new` with a subject, a DNS name and extensions that agree with a leaf. */
const byOpenssl =
  'MIIBQTCB6AIBADAdMQ4wDAYDVQQKDAVIYW5zYTELMAkGA1UEAwwCZGIwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATkCFqNaX9h5HsvOpNY13q3+fHbGIX03ooCyCW9xgnZz6oe5g1GyF2k7LWVfTn70dFAv3EjhWnh4hyNC7N7vilaoGkwZwYJKoZIhvcNAQkOMVowWDA4BgNVHREEMTAvhhpzcGlmZmU6Ly9sdWJlY2suZXhhbXBsZS9kYoIRZGIubHViZWNrLmV4YW1wbGUwDgYDVR0PAQH/BAQDAgeAMAwGA1UdEwEB/wQCMAAwCgYIKoZIzj0EAwIDSAAwRQIhAMbB8S5UjEhXtg3DP0ecgrWmb3b/GGaVPwj3hychtsdcAiAC/QPDCFLYadhz3/HoK4672iJupD/UzfnI1RVanXvbTQ==';

const rsa = (modulusLength: number) => generateKeyPairSync('rsa', { modulusLength }).privateKey;
const rsaSha256 = '300d06092a864886f70d01010b0500';

describe('a signing request', () => {
  test('as OpenSSL makes it is read', async () => {
    const request = await readSigningRequest(Buffer.from(byOpenssl, 'base64'));
    assert.equal(request.spiffeId.toString(), 'spiffe://lubeck.example/db');
    assert.deepEqual(request.dnsNames, ['db.lubeck.example']);
    assert.equal(request.publicKey.algorithm, 'p256');
  });

  test('may have a key on P-384 or of RSA', async () => {
    const p384 = generateKeyPairSync('ec', { namedCurve: 'secp384r1' }).privateKey;
    const forged: Forged[] = [
      { key: p384, digest: 'sha384', algorithm: '300a06082a8648ce3d040303' },
      { key: rsa(2048), algorithm: rsaSha256 },
    ];
    const algorithms = await Promise.all(
      forged.map(async (each) => (await readSigningRequest(forge(each))).publicKey.algorithm),
    );
    assert.deepEqual(algorithms, ['p384', 'rsa']);
  });

  const bad: readonly [what: string, forged: Forged, rule: Rule][] = [
    ['signed with another key', { signedBy: p256() }, 'signature'],
    ['with no URI', { uris: [], ca: false }, 'exactly-one-uri'],
    ['with a DNS name alone', { uris: [], dnsNames: ['db'] }, 'exactly-one-uri'],
    [
      'with two URIs',
      { uris: ['spiffe://lubeck.example/a', 'spiffe://lubeck.example/b'] },
      'exactly-one-uri',
    ],
    ['with a URI of another scheme', { uris: ['https://lubeck.example/db'] }, 'spiffe-id'],
    ['with a port in its ID', { uris: ['spiffe://lubeck.example:8443/db'] }, 'spiffe-id'],
    ['with a dot segment in its ID', { uris: ['spiffe://lubeck.example/a/../b'] }, 'spiffe-id'],
    ['with an upper-case trust domain', { uris: ['spiffe://LUBECK.example/db'] }, 'spiffe-id'],
    ['for a signing certificate', { ca: true }, 'leaf-not-ca'],
    ['that asks for keyCertSign', { keyUsage: '0204' }, 'leaf-key-usage'],
    ['that asks for cRLSign', { keyUsage: '0102' }, 'leaf-key-usage'],
    [
      'with an IP address',
      { ipAddresses: [Buffer.from([127, 0, 0, 1])] },
      'subject-alternative-name',
    ],
    ['with a mail address', { mails: ['db@lubeck.example'] }, 'subject-alternative-name'],
    ['with 33 DNS names', { dnsNames: Array.from({ length: 33 }, () => 'db') }, 'size-limit'],
    ['of another version', { version: 1 }, 'request-version'],
    ['with extensions twice', { times: 2 }, 'duplicate-extension'],
    ['without extensions', { times: 0 }, 'exactly-one-uri'],
    [
      'with name constraints',
      { extensions: [Buffer.from('30090603551d1e04023000', 'hex')] },
      'name-constraints',
    ],
    [
      'with a critical extension that is not known',
      { extensions: [Buffer.from('300d06032a03040101ff04030101ff', 'hex')] },
      'unknown-critical-extension',
    ],
    ['with an RSA key of 1,024 bits', { key: rsa(1024), algorithm: rsaSha256 }, 'public-key'],
    [
      'signed with SHA-1',
      { digest: 'sha1', algorithm: '300906072a8648ce3d0401' },
      'signature-algorithm',
    ],
    [
      'that names an algorithm of another kind of key',
      { algorithm: rsaSha256 },
      'signature-algorithm',
    ],
  ];
  for (const [what, forged, rule] of bad) {
    test(`${what} is refused`, async () => {
      await assert.rejects(readSigningRequest(forge(forged)), (error) => {
        assert.equal(brokenRule(error), rule);
        assert.match((error as Error).message, /^The signing request is rejected: /);
        return true;
      });
    });
  }

  test('that is too large is not even read', async () => {
    const error = await readSigningRequest(Buffer.alloc(maxRequestBytes + 1)).catch(
      (caught: unknown) => caught,
    );
    assert.equal(brokenRule(error), 'size-limit');
  });

  test('that is changed anywhere is refused, and nothing else than refused', async () => {
    const sound = forge();
    await fc.assert(
      fc.asyncProperty(
        fc.nat(sound.length - 1),
        fc.integer({ min: 1, max: 255 }),
        async (at, flip) => {
          const changed = Buffer.from(sound);
          changed[at] = (changed[at] as number) ^ flip;
          const error = await readSigningRequest(changed).catch((caught: unknown) => caught);
          assert.ok(error instanceof HansaError, `byte ${at} changed by ${flip} was accepted`);
          assert.notEqual(brokenRule(error), undefined);
        },
      ),
      { numRuns: 300 },
    );
  });

  test('that is cut or arbitrary is refused', async () => {
    const sound = forge();
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          fc.uint8Array({ maxLength: 200 }),
          fc.nat(sound.length - 1).map((length) => sound.subarray(0, length)),
        ),
        async (bytes) => {
          const error = await readSigningRequest(bytes).catch((caught: unknown) => caught);
          assert.notEqual(brokenRule(error), undefined);
        },
      ),
    );
  });
});
