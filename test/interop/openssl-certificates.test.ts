// Exchanges certificates with the openssl command: each side reads and verifies what the other
// wrote.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { SpiffeId } from '../../src/api/values/spiffe-id.ts';
import { TrustDomain } from '../../src/api/values/trust-domain.ts';
import { SeededRandom } from '../../src/core/clock/seeded-random.ts';
import { systemClock, systemRandom } from '../../src/core/clock/system.ts';
import { SiteAuthority } from '../../src/core/identity/authority/authority.ts';
import type { Certificate } from '../../src/core/identity/x509/certificate.ts';
import { clientAuth, keyUsageBits, serverAuth } from '../../src/core/identity/x509/extensions.ts';
import {
  exportPkcs8,
  generateP256,
  type KeyType,
  PublicKey,
} from '../../src/core/identity/x509/keys.ts';
import {
  certificatePem,
  parseCertificatesPem,
  privateKeyPem,
} from '../../src/core/identity/x509/pem.ts';
import { forge } from '../../src/core/identity/x509/test-forge.ts';
import { MemoryVault } from '../../src/core/identity/authority/test-vault.ts';

const lubeck = TrustDomain.parse('lubeck.example');
const publicKey = PublicKey.of(await generateP256(new SeededRandom('leaf')));

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-openssl-'));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

function verify(folder: string, ...options: readonly string[]): void {
  const args = ['verify', '-CAfile', 'ca.pem', ...options, 'svid.pem'];
  assert.equal(execFileSync('openssl', args, { cwd: folder }).toString(), 'svid.pem: OK\n');
}

test('a certificate made by openssl is read as openssl meant it', (t) => {
  const folder = folderOf(t);
  const out = join(folder, 'cert.pem');
  const added = [
    'basicConstraints=critical,CA:TRUE,pathlen:3',
    'keyUsage=critical,keyCertSign,cRLSign',
    'extendedKeyUsage=serverAuth,clientAuth,codeSigning',
    'subjectAltName=critical,URI:spiffe://a.example,DNS:a.example,IP:192.0.2.1,IP:2001:db8::1,email:x@a.example',
  ].flatMap((line) => ['-addext', line]);
  execFileSync(
    'openssl',
    // biome-ignore format: one option a line says less
    ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', join(folder, 'key.pem'),
      '-out', out, '-subj', '/O=openssl', '-days', '2', ...added],
    { stdio: 'pipe' },
  );
  const certificate = parseCertificatesPem(readFileSync(out, 'utf8'), 1)[0] as Certificate;
  const { extensions } = certificate;
  assert.deepEqual(extensions.basicConstraints, { critical: true, ca: true, pathLength: 3 });
  assert.equal(extensions.keyUsage?.bits, keyUsageBits.keyCertSign | keyUsageBits.crlSign);
  assert.deepEqual(extensions.extendedKeyUsage, [serverAuth, clientAuth, '1.3.6.1.5.5.7.3.3']);
  assert.deepEqual(extensions.subjectAlternativeName, {
    critical: true,
    uris: ['spiffe://a.example'],
    dnsNames: ['a.example'],
    ipAddresses: ['192.0.2.1', '2001:db8::1'],
    others: 1,
  });
  assert.equal(certificate.subjectPublicKey.algorithm, 'rsa');
  assert.equal(certificate.signatureAlgorithm, 'rsa-sha256');
});

async function verifyIssued(t: TestContext, keyType: KeyType): Promise<void> {
  const authority = await SiteAuthority.open({
    trustDomain: lubeck,
    vault: new MemoryVault(),
    clock: systemClock,
    random: systemRandom,
    keyType,
  });
  const svid = await authority.issueSite({
    publicKey,
    dnsNames: ['localhost', 'lubeck.example'],
    ipAddresses: ['127.0.0.1', '::1'],
  });
  const folder = folderOf(t);
  writeFileSync(join(folder, 'ca.pem'), authority.bundle.pem);
  writeFileSync(join(folder, 'svid.pem'), certificatePem(svid.chain[0] as Buffer));
  for (const check of [
    ['-purpose', 'sslserver', '-verify_ip', '127.0.0.1'],
    ['-purpose', 'sslserver', '-verify_ip', '::1'],
    ['-purpose', 'sslserver', '-verify_hostname', 'localhost'],
    ['-purpose', 'sslclient'],
  ]) {
    verify(folder, '-x509_strict', ...check);
  }
}

test('openssl verifies what we issue, by address and by name', (t) => verifyIssued(t, 'ec-p256'));

for (const keyType of ['ec-p384', 'rsa-2048'] as const) {
  test(`openssl verifies what an authority with a key of ${keyType} issues`, (t) =>
    verifyIssued(t, keyType));
}

test('openssl verifies leaf and intermediates against the root of an upstream authority', async (t) => {
  const root = forge({ ca: true });
  const policy = forge({ issuer: root, ca: true, pathLength: 2 });
  const issuing = forge({ issuer: policy, ca: true, pathLength: 1 });
  const folder = folderOf(t);
  const write = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };
  const authority = await SiteAuthority.open({
    trustDomain: lubeck,
    vault: new MemoryVault(),
    clock: systemClock,
    random: systemRandom,
    upstream: {
      certFile: write('up.pem', certificatePem(issuing.der) + certificatePem(policy.der)),
      keyFile: write('up.key', privateKeyPem(exportPkcs8(issuing.key))),
      bundleFile: write('roots.pem', certificatePem(root.der)),
    },
  });
  const web = SpiffeId.parse('spiffe://lubeck.example/web');
  const svid = await authority.issue({ spiffeId: web, publicKey });
  assert.equal(svid.chain.length, 4);
  const [leaf, ...above] = svid.chain as [Buffer, ...Buffer[]];
  write('svid.pem', certificatePem(leaf));
  write('above.pem', above.map(certificatePem).join(''));
  write('ca.pem', authority.bundle.pem);
  verify(folder, '-untrusted', 'above.pem');
});
