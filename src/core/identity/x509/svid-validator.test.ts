import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { emptyName, name } from './build-certificate.ts';
import { keyUsageBits } from './extensions.ts';
import { brokenRule, type Rule } from './rules.ts';
import { maxChainLength, parseChain, validateChain, type ValidatedSvid } from './svid-validator.ts';
import { maxAuthoritiesTried } from './svid-paths.ts';
import {
  BundleTable,
  ecKey,
  extension,
  forge,
  type Forged,
  type ForgeOptions,
  forgeLeaf,
  forgeRoot,
  hourMs,
  purposes,
  wholeSecond,
} from './test-forge.ts';

const breaks =
  (rule: Rule) =>
  (caught: unknown): boolean => {
    assert.equal(brokenRule(caught), rule, String(caught));
    return true;
  };

const web = 'spiffe://lubeck.example/web';
const root = forgeRoot('lubeck.example');
const lubeck = new BundleTable().set('lubeck.example', root);

function validate(
  chain: readonly Forged[],
  bundles = lubeck,
  nowMs: number = Date.now(),
): ValidatedSvid {
  return validateChain(parseChain(chain.map(({ der }) => der)), bundles, nowMs);
}

/** A signing certificate below another. */
const below = (issuer: Forged, options: ForgeOptions = {}): Forged =>
  forge({ issuer, ca: true, uris: ['spiffe://lubeck.example'], ...options });

test('a leaf under an authority of its own trust domain is believed', () => {
  const leaf = forgeLeaf(root, web);
  const svid = validate([leaf]);
  assert.equal(svid.id.toString(), web);
  assert.equal(svid.fingerprint, leaf.certificate.fingerprint);
  assert.equal(svid.authorityFingerprint, root.certificate.fingerprint);
  assert.ok(Object.isFrozen(svid));
});

test('a path may have intermediates, and may or may not end with the authority', () => {
  const first = below(root);
  const second = below(first);
  const leaf = forgeLeaf(second, web);
  for (const chain of [
    [leaf, second, first],
    [leaf, second, first, root],
  ]) {
    assert.equal(validate(chain).id.toString(), web);
  }
});

test('a signing certificate need not be an SVID', () => {
  const plain = below(root, { uris: [] });
  assert.equal(validate([forgeLeaf(plain, web), plain]).id.toString(), web);
});

test('an intermediate that the operator put into the bundle ends the path', () => {
  const intermediate = below(root);
  const bundles = new BundleTable().set('lubeck.example', intermediate);
  const svid = validate([forgeLeaf(intermediate, web), intermediate], bundles);
  assert.equal(svid.authorityFingerprint, intermediate.certificate.fingerprint);
});

/** Subject and authority key identifiers (RFC 5280 §4.2.1.1, §4.2.1.2) of one byte. */
const keyIds = (own: number, issuer?: number): { readonly extra: readonly Buffer[] } => ({
  extra: [
    extension('551d0e', false, Buffer.of(4, 1, own)),
    ...(issuer === undefined
      ? []
      : [extension('551d23', false, Buffer.of(0x30, 3, 0x80, 1, issuer))]),
  ],
});

test('a bundle of many authorities of one name, and a chain of that name, cost a few signatures', () => {
  const subject = name('test', 'everybody');
  const same = { subject, issuerName: subject };
  const roots = Array.from({ length: 64 }, () => forgeRoot('lubeck.example', same));
  const chain: Forged[] = [forge({ ca: true, ...same })];
  while (chain.length < maxChainLength - 1) {
    chain.unshift(forge({ ca: true, issuer: chain[0] as Forged, subject }));
  }
  const ders = [forgeLeaf(chain[0] as Forged, web), ...chain].map(({ der }) => der);
  let checked = 0;
  const count = (): boolean => {
    checked++;
    return false;
  };
  const bundles = new BundleTable().set('lubeck.example', ...roots);
  assert.throws(
    () => validateChain(parseChain(ders), bundles, Date.now(), count),
    breaks('size-limit'),
  );
  assert.ok(checked <= maxAuthoritiesTried, `${checked} signatures`);
});

test('of many authorities of one name, the one whose key is named is found, also above intermediates', () => {
  const subject = name('test', 'SPIFFE');
  const roots = Array.from({ length: 40 }, (_, at) =>
    forgeRoot('lubeck.example', { subject, issuerName: subject, ...keyIds(at) }),
  );
  const bundles = new BundleTable().set('lubeck.example', ...roots);
  const last = roots[39] as Forged;
  assert.equal(validate([forgeLeaf(last, web, keyIds(100, 39))], bundles).id.toString(), web);
  const between = below(last, { subject, ...keyIds(99, 39) });
  const leaf = forgeLeaf(between, web, keyIds(100, 99));
  assert.equal(validate([leaf, between], bundles).id.toString(), web);
});

test('a key identifier that names no authority costs no signature, and one that is missing hides nothing', () => {
  const subject = name('test', 'few');
  const roots = [1, 2, 3].map((id) =>
    forgeRoot('lubeck.example', { subject, issuerName: subject, ...keyIds(id) }),
  );
  const bundles = new BundleTable().set('lubeck.example', ...roots);
  const [, second] = roots as [Forged, Forged];
  const never = (): boolean => assert.fail('a signature was verified');
  const { der } = forgeLeaf(second, web, keyIds(100, 4));
  assert.throws(
    () => validateChain(parseChain([der]), bundles, Date.now(), never),
    breaks('unknown-authority'),
  );
  assert.equal(validate([forgeLeaf(second, web)], bundles).id.toString(), web);
});

test('an authority that was signed again under its own key is reached through the newer certificate', () => {
  const ids = keyIds(1);
  const old = forgeRoot('lubeck.example', { ...ids, notAfterMs: wholeSecond(Date.now() - 5000) });
  const newer = forgeRoot('lubeck.example', keyIds(2));
  const crossed = below(newer, {
    key: old.key,
    subject: old.certificate.subject,
    ...keyIds(1, 2),
  });
  const bundles = new BundleTable().set('lubeck.example', old, newer);
  const leaf = forgeLeaf(old, web, keyIds(100, 1));
  assert.equal(validate([leaf, crossed], bundles).id.toString(), web);
});

test('an authority that was signed again without a key identifier is tried after the one that has it', () => {
  const subject = name('Hansa', 'authority');
  const past = wholeSecond(Date.now() - 5000);
  const old = forgeRoot('lubeck.example', { subject, notAfterMs: past, ...keyIds(1) });
  const renewed = forgeRoot('lubeck.example', { subject, key: old.key });
  const bundles = new BundleTable().set('lubeck.example', renewed, old);
  const leaf = forgeLeaf(old, web, keyIds(100, 1));
  const { authorityFingerprint } = validate([leaf], bundles);
  assert.equal(authorityFingerprint, renewed.certificate.fingerprint);
});

test('after a rotation to a root of the same name, both are tried', () => {
  const subject = name('Hansa', 'authority');
  const old = forgeRoot('lubeck.example', { subject });
  const fresh = forgeRoot('lubeck.example', { subject });
  const bundles = new BundleTable().set('lubeck.example', old, fresh);
  assert.equal(validate([forgeLeaf(fresh, web)], bundles).id.toString(), web);
  assert.equal(validate([forgeLeaf(old, web)], bundles).id.toString(), web);
});

test('RSA, P-384, P-521 and Ed25519 authorities are believed', () => {
  for (const { privateKey } of [
    generateKeyPairSync('rsa', { modulusLength: 2048 }),
    generateKeyPairSync('ec', { namedCurve: 'secp384r1' }),
    generateKeyPairSync('ec', { namedCurve: 'secp521r1' }),
    generateKeyPairSync('ed25519'),
  ]) {
    const other = forgeRoot('lubeck.example', { key: privateKey });
    const bundles = new BundleTable().set('lubeck.example', other);
    assert.equal(validate([forgeLeaf(other, web)], bundles).id.toString(), web);
  }
});

test('the path is valid no longer than its shortest-lived certificate', () => {
  const notAfterMs = wholeSecond(Date.now() + 60_000);
  const short = below(root, { notAfterMs });
  const svid = validate([forgeLeaf(short, web), short]);
  assert.equal(svid.notAfterMs, notAfterMs + 999);
});

for (const [what, rule, options] of [
  ['no URI', 'exactly-one-uri', { uris: [], dnsNames: ['lubeck.example'] }],
  ['no alternative name at all', 'exactly-one-uri', { uris: [] }],
  ['two SPIFFE IDs', 'exactly-one-uri', { uris: [web, `${web}2`] }],
  ['a SPIFFE ID and another URI', 'exactly-one-uri', { uris: [web, 'https://lubeck.example'] }],
  ['a URI of another scheme', 'spiffe-id', { uris: ['https://lubeck.example/web'] }],
  ['an upper-case trust domain', 'spiffe-id', { uris: ['spiffe://Lubeck.example/web'] }],
  ['a port in its trust domain', 'spiffe-id', { uris: ['spiffe://lubeck.example:443/web'] }],
  ['a query', 'spiffe-id', { uris: [`${web}?x`] }],
  ['dots for a segment', 'spiffe-id', { uris: ['spiffe://lubeck.example/a/../web'] }],
  ['an ID of 2,049 bytes', 'spiffe-id', { uris: [`spiffe://lubeck.example/${'a'.repeat(2025)}`] }],
  ['no path', 'leaf-path', { uris: ['spiffe://lubeck.example'] }],
  ['cA set', 'leaf-not-ca', { ca: true }],
  ['no key usage', 'key-usage', { keyUsage: null }],
  ['a key usage that is not critical', 'key-usage', { keyUsageCritical: false }],
  ['no digitalSignature', 'leaf-key-usage', { keyUsage: keyUsageBits.keyAgreement }],
  [
    'keyCertSign',
    'leaf-key-usage',
    { keyUsage: keyUsageBits.digitalSignature | keyUsageBits.keyCertSign },
  ],
  ['cRLSign', 'leaf-key-usage', { keyUsage: keyUsageBits.digitalSignature | keyUsageBits.crlSign }],
  ['only the purpose of a server', 'extended-key-usage', { purposes: [purposes.server] }],
  ['only the purpose of a client', 'extended-key-usage', { purposes: [purposes.client] }],
  [
    'an empty subject and an alternative name that is not critical',
    'critical-san',
    { subject: emptyName },
  ],
  [
    'an unknown critical extension',
    'unknown-critical-extension',
    { extra: [extension('2a0304', true, Buffer.of(5, 0))] },
  ],
  [
    'name constraints',
    'name-constraints',
    { extra: [extension('551d1e', true, Buffer.from('3000', 'hex'))] },
  ],
  ['serial number 0', 'serial-number', { serial: Buffer.of(0) }],
  ['a serial number of 21 bytes', 'serial-number', { serial: Buffer.alloc(21, 1) }],
  [
    'an end before its beginning',
    'validity',
    { notBeforeMs: wholeSecond(Date.now()), notAfterMs: wholeSecond(Date.now() - 5000) },
  ],
  ['an end in the past', 'expired', { notAfterMs: wholeSecond(Date.now() - 5000) }],
  ['a beginning in the future', 'not-yet-valid', { notBeforeMs: wholeSecond(Date.now() + 60_000) }],
  ['a signature by another key', 'signature', { signingKey: ecKey() }],
  [
    'a signature with SHA-1',
    'signature-algorithm',
    { algorithmIdentifier: Buffer.from('300906072a8648ce3d0401', 'hex') },
  ],
  [
    'a signature of another kind than its issuer’s key',
    'signature',
    { signingKey: generateKeyPairSync('ed25519').privateKey },
  ],
  ['an issuer that nobody knows', 'unknown-authority', { issuerName: name('Nobody', 'knows') }],
] as const satisfies readonly (readonly [string, Rule, ForgeOptions])[]) {
  test(`a leaf with ${what} is refused (${rule})`, () => {
    const leaf = forgeLeaf(root, web, options);
    assert.throws(() => validate([leaf]), breaks(rule));
  });
}

test('a leaf with an RSA key of 1,024 bits is refused (public-key)', () => {
  const weak = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey;
  const leaf = forgeLeaf(root, web, { spki: weak.export({ format: 'der', type: 'spki' }) });
  assert.throws(() => validate([leaf]), breaks('public-key'));
});

for (const [what, rule, options] of [
  ['is no CA', 'signing-is-ca', { ca: false }],
  ['has no basic constraints', 'signing-is-ca', { ca: null }],
  [
    'has basic constraints that are not critical',
    'signing-is-ca',
    { basicConstraintsCritical: false },
  ],
  ['lacks keyCertSign', 'signing-key-usage', { keyUsage: keyUsageBits.digitalSignature }],
  ['has no key usage', 'key-usage', { keyUsage: null }],
  ['has a path in its SPIFFE ID', 'signing-path', { uris: ['spiffe://lubeck.example/ca'] }],
  ['is of another trust domain', 'trust-domain', { uris: ['spiffe://bruges.example'] }],
  ['has expired', 'expired', { notAfterMs: wholeSecond(Date.now() - 5000) }],
  ['is not valid yet', 'not-yet-valid', { notBeforeMs: wholeSecond(Date.now() + 60_000) }],
  [
    'has an unknown critical extension',
    'unknown-critical-extension',
    { extra: [extension('2a0304', true, Buffer.of(5, 0))] },
  ],
  [
    'has name constraints',
    'name-constraints',
    { extra: [extension('551d1e', true, Buffer.from('3000', 'hex'))] },
  ],
  ['was signed by another key', 'signature', { signingKey: ecKey() }],
] as const satisfies readonly (readonly [string, Rule, ForgeOptions])[]) {
  test(`a path is refused whose intermediate ${what} (${rule})`, () => {
    const intermediate = below(root, options);
    assert.throws(() => validate([forgeLeaf(intermediate, web), intermediate]), breaks(rule));
  });
}

test('a path length is kept, and a leaf does not count', () => {
  const limited = below(root, { pathLength: 0 });
  assert.equal(validate([forgeLeaf(limited, web), limited]).id.toString(), web);
  const extra = below(limited);
  assert.throws(() => validate([forgeLeaf(extra, web), extra, limited]), breaks('path-length'));
});

test('the path length of an authority in the bundle is kept', () => {
  const strict = forgeRoot('lubeck.example', { pathLength: 0 });
  const bundles = new BundleTable().set('lubeck.example', strict);
  const intermediate = below(strict);
  assert.throws(
    () => validate([forgeLeaf(intermediate, web), intermediate], bundles),
    breaks('path-length'),
  );
});

for (const [what, rule, options] of [
  ['is no CA', 'signing-is-ca', { ca: false }],
  ['may not sign certificates', 'signing-key-usage', { keyUsage: keyUsageBits.digitalSignature }],
  ['has expired', 'expired', { notAfterMs: wholeSecond(Date.now() - 5000) }],
  [
    'has name constraints',
    'name-constraints',
    { extra: [extension('551d1e', true, Buffer.from('3000', 'hex'))] },
  ],
  [
    'has an unknown critical extension',
    'unknown-critical-extension',
    { extra: [extension('2a0304', true, Buffer.of(5, 0))] },
  ],
  ['names another trust domain', 'trust-domain', { uris: ['spiffe://bruges.example'] }],
] as const satisfies readonly (readonly [string, Rule, ForgeOptions])[]) {
  test(`a leaf is refused whose authority in the bundle ${what} (${rule})`, () => {
    const authority = forgeRoot('lubeck.example', options);
    const bundles = new BundleTable().set('lubeck.example', authority);
    assert.throws(() => validate([forgeLeaf(authority, web)], bundles), breaks(rule));
  });
}

test('an authority in another trust domain’s bundle cannot vouch for this one', () => {
  const bruges = forgeRoot('bruges.example');
  const bundles = new BundleTable().set('lubeck.example', root).set('bruges.example', bruges);
  // Bruges signs a name of Lübeck: plainly, and through an intermediate that claims to be Lübeck's.
  assert.throws(() => validate([forgeLeaf(bruges, web)], bundles), breaks('unknown-authority'));
  const claiming = below(bruges);
  assert.throws(
    () => validate([forgeLeaf(claiming, web), claiming], bundles),
    breaks('unknown-authority'),
  );
  // And with the very name of Lübeck's root.
  const namesake = forgeRoot('lubeck.example', { subject: root.certificate.subject });
  bundles.set('bruges.example', bruges, namesake);
  assert.throws(() => validate([forgeLeaf(namesake, web)], bundles), breaks('signature'));
});

test('a trust domain without a bundle is refused', () => {
  const leaf = forgeLeaf(root, 'spiffe://reval.example/web');
  assert.throws(() => validate([leaf]), breaks('no-bundle'));
});

test('a missing intermediate is named as such', () => {
  const intermediate = below(root);
  assert.throws(() => validate([forgeLeaf(intermediate, web)]), breaks('unknown-authority'));
});

test('a chain out of order is refused', () => {
  const first = below(root);
  const second = below(first);
  const chain = [forgeLeaf(second, web), first, second];
  assert.throws(() => validate(chain), breaks('unknown-authority'));
});

test('no certificate, and too many, are refused', () => {
  assert.throws(() => validate([]), breaks('no-certificate'));
  const chain = Array.from({ length: maxChainLength + 1 }, () => root);
  assert.throws(() => validate(chain), breaks('size-limit'));
});

test('validity counts from its first to the end of its last second', () => {
  const notBeforeMs = wholeSecond(Date.now() - 10_000);
  const notAfterMs = notBeforeMs + hourMs / 2;
  const leaf = forgeLeaf(root, web, { notBeforeMs, notAfterMs });
  validate([leaf], lubeck, notBeforeMs);
  validate([leaf], lubeck, notAfterMs + 999);
  assert.throws(() => validate([leaf], lubeck, notBeforeMs - 1), breaks('not-yet-valid'));
  assert.throws(() => validate([leaf], lubeck, notAfterMs + 1000), breaks('expired'));
});

test('no change of a valid chain is believed', () => {
  const intermediate = below(root);
  const leaf = forgeLeaf(intermediate, web);
  const chain = [leaf.der, intermediate.der];
  const length = leaf.der.length + intermediate.der.length;
  fc.assert(
    fc.property(fc.nat({ max: length - 1 }), fc.integer({ min: 1, max: 255 }), (at, mask) => {
      const changed = chain.map((der) => Buffer.from(der));
      const which = at < leaf.der.length ? 0 : 1;
      const offset = which === 0 ? at : at - leaf.der.length;
      const der = changed[which] as Buffer;
      der[offset] = (der[offset] as number) ^ mask;
      assert.throws(
        () => validateChain(parseChain(changed), lubeck, Date.now()),
        (caught) => brokenRule(caught) !== undefined,
      );
    }),
    { numRuns: 2000 },
  );
});
