import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../../api/values/trust-domain.ts';
import { SeededRandom } from '../../clock/seeded-random.ts';
import { buildCertificate, type CertificateRequest, emptyName, name } from './build-certificate.ts';
import { Certificate } from './certificate.ts';
import { keyUsageBits } from './extensions.ts';
import { generateP256, PublicKey } from './keys.ts';
import { lintLeaf, lintSigning } from './lint.ts';
import { brokenRule, type Rule, rules } from './rules.ts';
import { LocalSigner, type Signer } from './signer.ts';
import { extension, forge, type ForgeOptions, forgeRoot, purposes } from './test-forge.ts';

const lubeck = TrustDomain.parse('lubeck.example');
const key = await generateP256(new SeededRandom('lint'));
const publicKey = PublicKey.of(key);

const leaf: CertificateRequest = {
  serial: Buffer.from('415a5a5a5a5a5a5a5a', 'hex'),
  issuer: name('Hansa', 'authority'),
  subject: emptyName,
  notBeforeMs: 1_800_000_000_000,
  notAfterMs: 1_800_003_600_000,
  publicKey,
  uris: ['spiffe://lubeck.example/web'],
  keyUsage: keyUsageBits.digitalSignature,
  authorityKeyId: publicKey.keyId,
};
const signing: CertificateRequest = {
  ...leaf,
  subject: name('Hansa', 'authority'),
  uris: ['spiffe://lubeck.example'],
  ca: { pathLength: 0 },
  keyUsage: keyUsageBits.keyCertSign,
};

/** Tells whether it was asked. */
class WatchedSigner implements Signer {
  readonly algorithm = 'ecdsa-sha256';
  readonly publicKey = publicKey;
  readonly #signer = new LocalSigner(key);
  asked = 0;

  sign(bytes: Uint8Array): Promise<Buffer> {
    this.asked++;
    return this.#signer.sign(bytes);
  }
}

test('what follows every rule is signed', async () => {
  const signer = new WatchedSigner();
  const der = await buildCertificate(leaf, signer, (fields) => lintLeaf(fields, lubeck));
  assert.deepEqual(Certificate.parse(der).extensions.subjectAlternativeName?.uris, leaf.uris);
  const ca = await buildCertificate(signing, signer, (fields) => lintSigning(fields, lubeck));
  assert.equal(Certificate.parse(ca).extensions.basicConstraints?.ca, true);
});

for (const [what, rule, change] of [
  ['no URI', 'exactly-one-uri', { uris: [], dnsNames: ['lubeck.example'] }],
  ['two URIs', 'exactly-one-uri', { uris: [...leaf.uris, 'spiffe://lubeck.example/db'] }],
  ['a URI that is no SPIFFE ID', 'spiffe-id', { uris: ['https://lubeck.example/web'] }],
  [
    'an ID of more than 2,048 bytes',
    'spiffe-id',
    { uris: [`spiffe://lubeck.example/${'a'.repeat(2048)}`] },
  ],
  ['an ID without a path', 'leaf-path', { uris: ['spiffe://lubeck.example'] }],
  ['an ID of another trust domain', 'trust-domain', { uris: ['spiffe://bruges.example/web'] }],
  [
    'keyCertSign',
    'leaf-key-usage',
    { keyUsage: keyUsageBits.digitalSignature | keyUsageBits.keyCertSign },
  ],
  ['no digitalSignature', 'leaf-key-usage', { keyUsage: keyUsageBits.keyAgreement }],
  ['cA', 'leaf-not-ca', { ca: {} }],
  ['serial number 0', 'serial-number', { serial: Buffer.alloc(16) }],
  ['a short serial number', 'serial-number', { serial: Buffer.of(1, 2, 3) }],
  ['a serial number of more than 20 bytes', 'serial-number', { serial: Buffer.alloc(20, 0xff) }],
  ['an end before its beginning', 'validity', { notAfterMs: leaf.notBeforeMs - 1000 }],
  ['an issuer without a name', 'issuer', { issuer: emptyName }],
  ['no authority key identifier', 'key-identifier', { authorityKeyId: undefined }],
  ['a DNS name with a space', 'subject-alternative-name', { dnsNames: ['a b'] }],
  ['a DNS name in upper case', 'subject-alternative-name', { dnsNames: ['Lubeck.example'] }],
  ['a DNS name that is empty', 'subject-alternative-name', { dnsNames: [''] }],
  ['an address that is none', 'subject-alternative-name', { ipAddresses: ['lubeck.example'] }],
  [
    'a URI that is not ASCII',
    'subject-alternative-name',
    { uris: ['spiffe://lübeck.example/web'] },
  ],
] as const satisfies readonly (readonly [
  string,
  Rule,
  { [K in keyof CertificateRequest]?: CertificateRequest[K] | undefined },
])[]) {
  test(`a leaf with ${what} is not signed (${rule})`, async () => {
    const signer = new WatchedSigner();
    const request = { ...leaf, ...change } as CertificateRequest;
    // To know what was intended takes nothing from what is found.
    const intended = { id: SpiffeId.parse(leaf.uris[0] as string), publicKey };
    for (const known of [undefined, intended]) {
      await assert.rejects(
        buildCertificate(request, signer, (fields) => lintLeaf(fields, lubeck, known)),
        (caught: Error) => brokenRule(caught) === rule && caught.message.includes(rules[rule]),
      );
    }
    assert.equal(signer.asked, 0);
  });
}

for (const [what, rule, change] of [
  ['a path in its ID', 'signing-path', { uris: ['spiffe://lubeck.example/ca'] }],
  ['no URI', 'exactly-one-uri', { uris: [] }],
  ['another trust domain', 'trust-domain', { uris: ['spiffe://bruges.example'] }],
  ['no keyCertSign', 'signing-key-usage', { keyUsage: keyUsageBits.crlSign }],
  ['room for others that sign', 'path-length', { ca: { pathLength: 1 } }],
  ['no limit of its path', 'path-length', { ca: {} }],
] as const satisfies readonly (readonly [string, Rule, Partial<CertificateRequest>])[]) {
  test(`a signing certificate with ${what} is not signed (${rule})`, async () => {
    const signer = new WatchedSigner();
    await assert.rejects(
      buildCertificate({ ...signing, ...change }, signer, (fields) => lintSigning(fields, lubeck)),
      (caught) => brokenRule(caught) === rule,
    );
    assert.equal(signer.asked, 0);
  });
}

// Our own writer cannot make these; the linter would still find them if it could.
const root = forgeRoot('lubeck.example');
const both = [purposes.server, purposes.client];
const aki = extension('551d23', false, Buffer.from('300380012a', 'hex'));
const ski = extension('551d0e', false, Buffer.from('04012a', 'hex'));
for (const [what, rule, options] of [
  [
    'an alternative name that is not critical under an empty subject',
    'critical-san',
    { subject: emptyName, purposes: both, extra: [aki, ski] },
  ],
  ['a key usage that is not critical', 'key-usage', { keyUsageCritical: false }],
  ['one purpose only', 'extended-key-usage', { purposes: [purposes.server] }],
  ['no purposes', 'extended-key-usage', {}],
  ['no basic constraints', 'leaf-not-ca', { ca: null, purposes: both }],
  ['no subject key identifier', 'key-identifier', { purposes: both, extra: [aki] }],
] as const satisfies readonly (readonly [string, Rule, ForgeOptions])[]) {
  test(`the linter finds ${what} (${rule})`, () => {
    const { certificate } = forge({ issuer: root, ca: false, uris: [...leaf.uris], ...options });
    assert.throws(
      () => lintLeaf(certificate, lubeck),
      (caught) => brokenRule(caught) === rule,
    );
  });
}
