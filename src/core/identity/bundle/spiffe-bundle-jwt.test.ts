// JWT authorities in bundle documents (JWT-SVID §6).

import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { TrustDomain } from '../../../api/values/trust-domain.ts';
import { hasCode } from '../../errors/error.ts';
import { Bundle } from './bundle.ts';
import { encodeJwtBundle, encodeSpiffeBundle, parseSpiffeBundle } from './spiffe-bundle.ts';
import { forgeRoot } from '../x509/test-forge.ts';

const bruges = TrustDomain.parse('bruges.example');
const root = forgeRoot('bruges.example');
const ec = (namedCurve: string): KeyObject => generateKeyPairSync('ec', { namedCurve }).publicKey;
const rsa = (modulusLength: number): KeyObject =>
  generateKeyPairSync('rsa', { modulusLength }).publicKey;
const p256 = ec('prime256v1');
const other = ec('prime256v1');
const rsa2048 = rsa(2048);

function jwk(key: KeyObject, changes: Record<string, unknown> = {}): Record<string, unknown> {
  return { use: 'jwt-svid', kid: 'one', ...key.export({ format: 'jwk' }), ...changes };
}

const documentOf = (...keys: readonly unknown[]): string => JSON.stringify({ keys });
const encode = (bundle: Bundle): string =>
  encodeSpiffeBundle(bundle, { sequence: 1, refreshHintSeconds: 300 });

suite('JWT authorities that we write', () => {
  for (const [name, publicKey] of [
    ['P-256', p256],
    ['P-384', ec('secp384r1')],
    ['P-521', ec('secp521r1')],
    ['RSA', rsa2048],
  ] as const) {
    test(`are read back with ${name} keys`, () => {
      const bundle = new Bundle(
        bruges,
        [root.certificate],
        [
          { keyId: 'a', publicKey },
          { keyId: 'b', publicKey: other },
        ],
      );
      const read = parseSpiffeBundle(encode(bundle), bruges);
      assert.equal(read.bundle.hash, bundle.hash);
      assert.deepEqual([...read.bundle.jwtAuthorities.keys()], ['a', 'b']);
      assert.deepEqual(read.skipped, []);
    });
  }

  test('have use, kid and the members of a public key, and nothing else', () => {
    const bundle = new Bundle(bruges, [], [{ keyId: 'a', publicKey: p256 }]);
    const { keys } = JSON.parse(encode(bundle)) as { keys: Record<string, unknown>[] };
    assert.deepEqual(Object.keys(keys[0] ?? {}).toSorted(), ['crv', 'kid', 'kty', 'use', 'x', 'y']);
    assert.equal(keys[0]?.['use'], 'jwt-svid');
  });

  test('stand in a JWT bundle alone and without a use, as any reader of JWK Sets takes them', () => {
    const bundle = new Bundle(bruges, [root.certificate], [{ keyId: 'a', publicKey: p256 }]);
    const { keys } = JSON.parse(encodeJwtBundle(bundle)) as { keys: Record<string, unknown>[] };
    assert.equal(keys.length, 1);
    assert.deepEqual(Object.keys(keys[0] ?? {}).toSorted(), ['crv', 'kid', 'kty', 'x', 'y']);
  });
});

suite('a bundle of JWT authorities alone', () => {
  const document = documentOf(jwk(p256));

  test('is one', () => {
    const { bundle } = parseSpiffeBundle(document, bruges);
    assert.equal(bundle.authorities.length, 0);
    assert.equal(bundle.jwtAuthorities.size, 1);
  });

  test('is refused where connections are to be verified by it, and the refusal tells of the others', () => {
    assert.throws(
      () => parseSpiffeBundle(document, bruges, 'x509'),
      (error) =>
        hasCode(error, 'HANSA_BUNDLE_INVALID') &&
        error.details?.causes?.[0]?.reason === 'empty' &&
        error.message.includes('no X.509 authority that this site can use, only 1 for JWT'),
    );
  });
});

suite('a strange JWT authority is left out, and the rest is kept', () => {
  const ed25519 = generateKeyPairSync('ed25519').publicKey;
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const point = p256.export({ format: 'jwk' });
  const strange: Record<string, [unknown, RegExp]> = {
    'without kid': [jwk(p256, { kid: undefined }), /no kid/],
    'with an empty kid': [jwk(p256, { kid: '' }), /no kid/],
    'with a kid that is no text': [jwk(p256, { kid: 7 }), /no kid/],
    'with a kid without end': [jwk(p256, { kid: 'k'.repeat(257) }), /257 characters/],
    'without kty': [jwk(p256, { kty: undefined }), /not EC or RSA/],
    'with an unknown kty': [jwk(p256, { kty: 'LATTICE' }), /not EC or RSA/],
    'with a shared secret': [
      { use: 'jwt-svid', kid: 'one', kty: 'oct', k: 'AAAA' },
      /not EC or RSA/,
    ],
    'with an Ed25519 key': [jwk(ed25519), /not EC or RSA/],
    'with a weak RSA key': [jwk(rsa(1024)), /1024 bits/],
    'with a curve of its own': [jwk(ec('secp256k1')), /not readable|curves/],
    'with a key that cannot be read': [jwk(p256, { y: point.x }), /not readable/],
    'with padding in its base64url': [jwk(p256, { x: `${point.x}=` }), /x is not base64url/],
    'with base64 for base64url': [jwk(p256, { x: '+/'.repeat(22) }), /x is not base64url/],
    'with blanks in its base64url': [jwk(rsa2048, { e: 'AQ AB' }), /e is not base64url/],
    'with bits behind its end': [jwk(rsa2048, { e: 'AQAC-' }), /e is not base64url/],
    'without one half of its point': [jwk(p256, { y: undefined }), /y is not base64url/],
    'with an exponent of one': [jwk(rsa2048, { e: 'AQ' }), /exponent|not readable/],
    'that tells its private part': [jwk(privateKey), /private key/],
    'with an unknown use': [jwk(p256, { use: 'JWT-SVID' }), /its use is neither/],
    'without use': [jwk(p256, { use: undefined }), /its use is neither/],
  };
  for (const [name, [key, why]] of Object.entries(strange)) {
    test(`a key ${name}`, () => {
      const read = parseSpiffeBundle(documentOf(key, jwk(other, { kid: 'two' })), bruges);
      assert.deepEqual([...read.bundle.jwtAuthorities.keys()], ['two']);
      assert.equal(read.skipped.length, 1);
      assert.equal(read.skipped[0]?.index, 0);
      assert.match(read.skipped[0]?.why ?? '', why);
    });
  }

  test('of two keys with one kid, the first counts', () => {
    const read = parseSpiffeBundle(documentOf(jwk(p256), jwk(other)), bruges);
    assert(read.bundle.jwtAuthorities.get('one')?.publicKey.equals(p256));
    assert.deepEqual(read.skipped, [{ index: 1, why: 'an earlier key has the same kid' }]);
  });

  test('a key that is there twice counts once, and nothing is strange about it', () => {
    const read = parseSpiffeBundle(documentOf(jwk(p256), jwk(p256)), bruges);
    assert.equal(read.bundle.jwtAuthorities.size, 1);
    assert.deepEqual(read.skipped, []);
  });

  test('more than 64 are no bundle', () => {
    const keys = Array.from({ length: 65 }, (_, at) => jwk(p256, { kid: `k${at}` }));
    assert.throws(() => parseSpiffeBundle(documentOf(...keys), bruges), /65 JWT authorities/);
  });
});

test('whatever stands beside a good JWT authority, that authority is kept', () => {
  const anything = fc.oneof(
    fc.jsonValue(),
    fc.record(
      {
        use: fc.constantFrom('x509-svid', 'jwt-svid', 'wit-svid', 'x'),
        kid: fc.constantFrom('', 'two', 'three', 3),
        kty: fc.constantFrom('EC', 'RSA', 'OKP', 'oct', ''),
        crv: fc.constantFrom('P-256', 'P-521', 'secp256k1', ''),
        x: fc.base64String(),
        y: fc.base64String(),
        n: fc.base64String(),
        e: fc.constantFrom('AQAB', ''),
      },
      { requiredKeys: [] },
    ),
  );
  fc.assert(
    fc.property(fc.array(anything, { maxLength: 8 }), fc.nat(8), (others, at) => {
      const keys = others.toSpliced(at, 0, jwk(p256));
      const { bundle } = parseSpiffeBundle(documentOf(...keys), bruges);
      assert(bundle.jwtAuthorities.get('one')?.publicKey.equals(p256));
    }),
  );
});
