import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { Certificate, maxCertificateBytes } from './certificate.ts';
import { parseCertificatesPem } from './pem.ts';
import { brokenRule, type Rule } from './rules.ts';
import { extension, forge, type ForgeOptions, forgeLeaf, forgeRoot } from './test-forge.ts';

const breaks =
  (rule: Rule) =>
  (caught: unknown): boolean =>
    brokenRule(caught) === rule;

const root = forgeRoot('lubeck.example');
const leaf = forgeLeaf(root, 'spiffe://lubeck.example/web', { dnsNames: ['web.lubeck.example'] });

test('our reading agrees with that of node, which is OpenSSL', () => {
  const other = new X509Certificate(leaf.der);
  const { certificate } = leaf;
  assert.equal(certificate.serialHex.toUpperCase(), other.serialNumber);
  assert.equal(certificate.notBeforeMs, Date.parse(other.validFrom));
  assert.equal(certificate.notAfterMs, Date.parse(other.validTo));
  assert.equal(certificate.fingerprint.toUpperCase(), other.fingerprint256.replaceAll(':', ''));
  assert.ok(certificate.publicKey.equals(other.publicKey));
  assert.ok(other.verify(root.certificate.publicKey));
});

test('the value does not change when its input does', () => {
  const input = Buffer.from(leaf.der);
  const certificate = Certificate.parse(input);
  input.fill(0);
  assert.deepEqual(certificate.der, leaf.der);
});

const parsing = (options: ForgeOptions) => (): unknown => forge(options).certificate;

for (const [what, rule, options] of [
  [
    'a repeated extension',
    'duplicate-extension',
    { extra: [extension('551d0f', true, Buffer.from('03020780', 'hex'))] },
  ],
  [
    'an empty alternative name',
    'subject-alternative-name',
    { extra: [extension('551d11', false, Buffer.from('3000', 'hex'))] },
  ],
  [
    'an IP address of 5 bytes',
    'subject-alternative-name',
    { extra: [extension('551d11', false, Buffer.from('300787050102030405', 'hex'))] },
  ],
  [
    'a URI that is not ASCII',
    'subject-alternative-name',
    { extra: [extension('551d11', false, Buffer.from('30038601ff', 'hex'))] },
  ],
  [
    'an alternative name of no type',
    'malformed-der',
    { extra: [extension('551d11', false, Buffer.from('30038901ff', 'hex'))] },
  ],
  [
    'an extension with trailing bytes',
    'malformed-der',
    { extra: [extension('551d0e', false, Buffer.from('04010000', 'hex'))] },
  ],
  ['an empty extended key usage', 'extended-key-usage', { purposes: [] }],
  ['a path length without cA', 'leaf-not-ca', { ca: false, pathLength: 1 }],
  [
    'more extensions than anyone needs',
    'size-limit',
    {
      extra: Array.from({ length: 40 }, (_, i) =>
        extension(`2a03${(i + 1).toString(16).padStart(2, '0')}`, false, Buffer.of(5, 0)),
      ),
    },
  ],
] as const satisfies readonly (readonly [string, Rule, ForgeOptions])[]) {
  test(`${what} is refused (${rule})`, () => {
    assert.throws(parsing(options), breaks(rule));
  });
}

test('an unknown extension is noted only where it is critical', () => {
  const unknown = (critical: boolean): readonly string[] =>
    forge({ extra: [extension('2a0304', critical, Buffer.of(5, 0))] }).certificate.extensions
      .unknownCritical;
  assert.deepEqual(unknown(false), []);
  assert.deepEqual(unknown(true), ['1.2.3.4']);
});

test('certificates above the size limit are refused unread', () => {
  assert.throws(
    () => Certificate.parse(Buffer.alloc(maxCertificateBytes + 1)),
    breaks('size-limit'),
  );
});

test('trailing bytes are refused', () => {
  assert.throws(
    () => Certificate.parse(Buffer.concat([leaf.der, Buffer.of(0)])),
    breaks('malformed-der'),
  );
});

test('a version 1 certificate is refused', () => {
  // The explicit version is the first thing in the signed part.
  const at = leaf.der.indexOf(Buffer.from('a003020102', 'hex'));
  const changed = Buffer.from(leaf.der);
  changed[at + 4] = 0;
  assert.throws(() => Certificate.parse(changed), breaks('version-3'));
});

test('a certificate cut off anywhere is refused', () => {
  for (let length = 0; length < leaf.der.length; length++) {
    assert.throws(() => Certificate.parse(leaf.der.subarray(0, length)), breaks('malformed-der'));
  }
});

test('a changed certificate is read or refused, and never anything else', () => {
  const change = fc.record({
    at: fc.nat({ max: leaf.der.length - 1 }),
    to: fc.integer({ min: 0, max: 255 }),
  });
  fc.assert(
    fc.property(fc.array(change, { minLength: 1, maxLength: 4 }), (changes) => {
      const changed = Buffer.from(leaf.der);
      for (const { at, to } of changes) changed[at] = to;
      try {
        const certificate = Certificate.parse(changed);
        void certificate.subjectPublicKey;
        void certificate.signatureAlgorithm;
        void certificate.publicKey;
      } catch (caught) {
        assert.notEqual(brokenRule(caught), undefined, String(caught));
      }
    }),
    { numRuns: 3000 },
  );
});

test('PEM files are read in order, and no further than allowed', () => {
  const both = [leaf, root].map(({ der }) => new X509Certificate(der).toString()).join('text\n');
  assert.deepEqual(
    parseCertificatesPem(both, 2).map(({ fingerprint }) => fingerprint),
    [leaf, root].map(({ certificate }) => certificate.fingerprint),
  );
  assert.throws(() => parseCertificatesPem(both, 1), breaks('size-limit'));
});

test('a PEM file of nothing but a beginning is read in one pass', { timeout: 5_000 }, () => {
  const text = `-----BEGIN CERTIFICATE-----${' '.repeat(1_000_000)}`;
  assert.deepEqual(parseCertificatesPem(text, 64), []);
});
