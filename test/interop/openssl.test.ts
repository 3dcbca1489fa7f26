// OpenSSL verifies the certificates that a site issues, with every key type of an authority and
// with an upstream authority.

import assert from 'node:assert/strict';
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { credentialOf, extension, forgeRoot } from '../../src/core/identity/x509/test-forge.ts';
import { execute, hansa, startDaemon, temporaryFolder } from '../e2e/daemon.ts';

suite('openssl verify believes an SVID', () => {
  const folder = temporaryFolder();

  async function judge(name: string, flags: readonly string[]): Promise<X509Certificate[]> {
    const dataDir = join(folder, name);
    const site = await startDaemon(dataDir, flags);
    try {
      const written = join(dataDir, 'minted');
      const minted = await hansa([
        'svid',
        'mint',
        'spiffe://lubeck.example/web',
        '--write',
        written,
        '--data-dir',
        dataDir,
      ]);
      assert.equal(minted.code, 0, minted.stderr);
      const svid = join(written, 'svid.pem');
      const { code, stdout, stderr } = await execute('openssl', [
        'verify',
        '-x509_strict',
        '-purpose',
        'sslserver',
        '-CAfile',
        join(written, 'bundle.pem'),
        '-untrusted',
        svid,
        svid,
      ]);
      assert.equal(code, 0, stderr);
      assert.match(stdout, /: OK/);
      return pemBlocks(readFileSync(svid, 'utf8'));
    } finally {
      await site.signal('SIGTERM');
    }
  }

  for (const [keyType, algorithm] of [
    ['ec-p256', 'ecdsa-with-SHA256'],
    ['ec-p384', 'ecdsa-with-SHA384'],
    ['rsa-2048', 'sha256WithRSAEncryption'],
  ] as const) {
    test(`of an authority with a key of ${keyType}`, async () => {
      const [leaf, ...above] = await judge(keyType, ['--ca-key-type', keyType]);
      assert.equal(leaf?.signatureAlgorithm, algorithm);
      assert.equal(above.length, 0);
    });
  }

  test('of an intermediate below an authority that was given', async () => {
    const { privateKey: key } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const upstream = join(folder, 'upstream');
    mkdirSync(upstream);
    const subjectKeyId = extension('551d0e', false, Buffer.from('040401020304', 'hex'));
    const root = forgeRoot('lubeck.example', { key, extra: [subjectKeyId] });
    const { certificateChain, privateKey } = credentialOf(root);
    writeFileSync(join(upstream, 'root.pem'), certificateChain);
    writeFileSync(join(upstream, 'root.key'), privateKey, { mode: 0o600 });
    const chain = await judge('below', [
      '--ca-upstream-cert-file',
      join(upstream, 'root.pem'),
      '--ca-upstream-key-file',
      join(upstream, 'root.key'),
    ]);
    assert.equal(chain.length, 2);
    assert.equal(chain[1]?.ca, true);
  });
});

function pemBlocks(text: string): X509Certificate[] {
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  return blocks.map((block) => new X509Certificate(block));
}
