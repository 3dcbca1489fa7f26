import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../../api/values/trust-domain.ts';
import { SeededRandom } from '../../clock/seeded-random.ts';
import { emptyName, encodeTbs } from './build-certificate.ts';
import { readTbs } from './certificate.ts';
import { keyUsageBits } from './extensions.ts';
import { generateEd25519, generateP256, PublicKey } from './keys.ts';
import { type Leaf, LeafTemplates } from './leaf-templates.ts';
import { brokenRule, type Rule } from './rules.ts';
import { LocalSigner } from './signer.ts';
import { testSite } from '../authority/test-vault.ts';

const lubeck = TrustDomain.parse('lubeck.example');
const { authority } = await testSite();
const signer = new LocalSigner(await generateP256(new SeededRandom('authority')));
const templates = (): LeafTemplates => new LeafTemplates(lubeck, authority.certificate, signer);

const rsa = (modulusLength: number): PublicKey =>
  PublicKey.of(generateKeyPairSync('rsa', { modulusLength }).publicKey);
const keys = [
  PublicKey.of(await generateP256(new SeededRandom('one'))),
  PublicKey.of(await generateP256(new SeededRandom('other'))),
  PublicKey.of(await generateEd25519(new SeededRandom('one'))),
  rsa(2048),
  rsa(2048),
  rsa(3072),
];
const ids = ['/web', '/db', '/web/a'].map((path) =>
  SpiffeId.parse(`spiffe://lubeck.example${path}`),
);
const second = 1000;
const noon = Date.UTC(2030, 5, 1, 12);
const in2050 = Date.UTC(2050, 0);

const usual: Leaf = {
  id: ids[0] as SpiffeId,
  serial: Buffer.alloc(16, 0x41),
  notBeforeMs: noon,
  notAfterMs: noon + 3600 * second,
  publicKey: keys[0] as PublicKey,
  dnsNames: [],
  ipAddresses: [],
};

const encoded = (leaf: Leaf): Buffer =>
  encodeTbs(
    {
      ...leaf,
      issuer: authority.certificate.subject,
      subject: emptyName,
      uris: [leaf.id.toString()],
      keyUsage: keyUsageBits.digitalSignature,
      authorityKeyId: signer.publicKey.keyId,
    },
    signer.algorithm,
  );

const leaves: fc.Arbitrary<Leaf> = fc
  .record({
    id: fc.constantFrom(...ids),
    serial: fc
      .uint8Array({ minLength: 8, maxLength: 18 })
      .map((bytes) => Buffer.from([(bytes[0] as number) % 0x7f || 1, ...bytes])),
    notBeforeMs: fc.constantFrom(noon, noon + second, in2050 - second, in2050),
    publicKey: fc.constantFrom(...keys),
    ttl: fc.constantFrom(1, 3600),
    dnsNames: fc.constantFrom([], ['lubeck.example'], ['lubeck.example', 'www.lubeck.example']),
    ipAddresses: fc.constantFrom([], ['127.0.0.1'], ['::1']),
  })
  .map(({ ttl, ...leaf }) => ({ ...leaf, notAfterMs: leaf.notBeforeMs + ttl * second }));

test('whatever was made before, the bytes are those of a certificate that was encoded alone', () => {
  fc.assert(
    fc.property(fc.array(leaves, { minLength: 1, maxLength: 12 }), (several) => {
      const made = templates();
      for (const leaf of several) assert.deepEqual(made.encode(leaf), encoded(leaf));
    }),
  );
});

test('bytes that were given out stay as they are when others are made', () => {
  const made = templates();
  const first = made.encode(usual);
  const next = made.encode({ ...usual, serial: Buffer.alloc(16, 0x42) });
  made.encode({ ...usual, serial: Buffer.alloc(16, 0x43), publicKey: keys[1] as PublicKey });
  assert.deepEqual(readTbs(first).serial, Buffer.alloc(16, 0x41));
  assert.deepEqual(readTbs(next).serial, Buffer.alloc(16, 0x42));
});

for (const [what, rule, change] of [
  ['an end before its beginning', 'validity', { notAfterMs: noon - second }],
  ['serial number 0', 'serial-number', { serial: Buffer.alloc(16) }],
  ['a short serial number', 'serial-number', { serial: Buffer.of(1, 2, 3) }],
  ['a serial number of 21 bytes', 'serial-number', { serial: Buffer.alloc(21, 0x41) }],
  ['a DNS name with a space', 'subject-alternative-name', { dnsNames: ['a b'] }],
  ['an address that is none', 'subject-alternative-name', { ipAddresses: ['lubeck'] }],
  ['no path', 'leaf-path', { id: SpiffeId.of(lubeck) }],
  ['another trust domain', 'trust-domain', { id: SpiffeId.parse('spiffe://bruges.example/web') }],
] as const satisfies readonly (readonly [string, Rule, Partial<Leaf>])[]) {
  test(`a leaf with ${what} is refused, also after one that was good (${rule})`, () => {
    const made = templates();
    for (const before of [undefined, usual, usual]) {
      if (before !== undefined) made.encode(before);
      assert.throws(
        () => made.encode({ ...usual, ...change }),
        (caught) => brokenRule(caught) === rule,
      );
    }
    assert.deepEqual(made.encode(usual), encoded(usual));
  });
}

test('more identities than templates are kept are all encoded', () => {
  const made = templates();
  for (let round = 0; round < 2; round++) {
    for (let i = 0; i < 1500; i++) {
      const leaf = { ...usual, id: SpiffeId.parse(`spiffe://lubeck.example/${i}`) };
      assert.deepEqual(made.encode(leaf), encoded(leaf));
    }
  }
});
