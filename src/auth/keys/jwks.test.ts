import assert from 'node:assert/strict';
import { generateKeyPairSync, type JsonWebKey } from 'node:crypto';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { testJwk, testJwks, testKey } from '../clusters/test-clusters.ts';
import { keySetOf, maxJwksBytes, maxKeys, readJwks } from './jwks.ts';

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const rsaJwk = testJwk(rsa.publicKey, 'r');
const good = testJwk(testKey(0), 'a');

const read = (...keys: readonly unknown[]) => readJwks(Buffer.from(JSON.stringify({ keys })));
const why = (key: unknown): string => read(good, key).skipped[0]?.why ?? 'accepted';
const setOf = (...keys: readonly unknown[]) =>
  keySetOf(read(...keys).keys, { fetchedAtMs: 0, from: 'issuer' });
const ids = (keys: readonly { readonly keyId: string | undefined }[]) =>
  keys.map(({ keyId }) => keyId);

describe('a key set', () => {
  test('has the RSA and EC keys of the document, in its order', () => {
    const curves = ['P-256', 'P-384', 'P-521'].map((namedCurve) =>
      testJwk(generateKeyPairSync('ec', { namedCurve }).publicKey, namedCurve),
    );
    const { keys, skipped } = read(rsaJwk, ...curves);
    assert.deepEqual(ids(keys), ['r', 'P-256', 'P-384', 'P-521']);
    assert.deepEqual(skipped, []);
    assert.ok(keys[0]?.publicKey.equals(rsa.publicKey));
  });

  test('accepts every algorithm that kube-apiserver accepts, and members that it does not know', () => {
    const names = ['RS', 'ES', 'PS'].flatMap((kind) =>
      ['256', '384', '512'].map((bits) => kind + bits),
    );
    for (const alg of names) {
      assert.equal(read({ ...good, alg, x5t: 'x', 'strange member': {} }).keys.length, 1);
    }
  });

  test('accepts a key without use, alg and kid', () => {
    const { kty, crv, x, y } = good;
    assert.deepEqual(ids(read({ kty, crv, x, y }).keys), [undefined]);
    assert.deepEqual(ids(read({ kty, crv, x, y, kid: '' }).keys), [undefined]);
  });

  test('gives the keys of a kid, and all keys without one', () => {
    const set = setOf(testJwk(testKey(0), 'a'), testJwk(testKey(1), 'b'));
    assert.deepEqual(ids(set.for('a')), ['a']);
    assert.deepEqual(ids(set.for('b')), ['b']);
    assert.deepEqual(ids(set.for('c')), []);
    assert.deepEqual(ids(set.for(undefined)), ['a', 'b']);
    assert.deepEqual(ids(set.for('')), ['a', 'b']);
  });

  test('tries a key without a kid for every token', () => {
    const set = setOf(testJwk(testKey(0), 'a'), testJwk(testKey(1), undefined));
    assert.deepEqual(ids(set.for('a')), ['a', undefined]);
    assert.deepEqual(ids(set.for('c')), [undefined]);
  });

  test('keeps two keys of one kid, and each key once', () => {
    const set = setOf(testJwk(testKey(0), 'a'), testJwk(testKey(1), 'a'), testJwk(testKey(0), 'a'));
    assert.equal(set.keys.length, 2);
    assert.equal(set.for('a').length, 2);
  });

  test('is not confused by a kid that is a name of JavaScript', () => {
    const set = setOf(testJwk(testKey(0), '__proto__'), testJwk(testKey(1), 'constructor'));
    assert.equal(set.for('__proto__').length, 1);
    assert.equal(set.for('constructor').length, 1);
    assert.equal(set.for('toString').length, 0);
  });

  test('is refused where a token without a kid would cost too much time', () => {
    const many = (namedCurve: string, count: number) =>
      Array.from({ length: count }, (_, at) =>
        testJwk(generateKeyPairSync('ec', { namedCurve }).publicKey, String(at)),
      );
    assert.equal(read(...many('P-521', 3)).keys.length, 3);
    assert.throws(() => read(...many('P-521', 4)), /its 4 keys are too many of their size/);
    assert.equal(read(...many('P-384', 12)).keys.length, 12);
    assert.throws(() => read(...many('P-384', 13)), /too long/);
    assert.equal(read(...many('P-256', maxKeys)).keys.length, maxKeys);
    const n = (byte: number) => Buffer.alloc(1024, byte).toString('base64url');
    const large = Array.from({ length: 9 }, (_, at) => ({
      kty: 'RSA',
      kid: String(at),
      e: 'AQAB',
      n: n(241 + at),
    }));
    assert.equal(read(...large.slice(1)).keys.length, 8);
    assert.throws(() => read(...large), /too long/);
  });

  const onP521 = (kid: string | undefined) =>
    testJwk(generateKeyPairSync('ec', { namedCurve: 'P-521' }).publicKey, kid);

  for (const [what, kids, used] of [
    ['under one kid', ['a', 'a', 'a'], 1],
    ['without a kid', [undefined, undefined, undefined], 1],
    ['without a kid beside one with it', ['a', undefined], 1],
    ['with a kid beside one without', [undefined, 'a'], 1],
    ['under kids of their own', ['a', 'b'], 2],
  ] as const) {
    test(`uses so many slow keys ${what}, that a token with a kid is tried with one: ${used}`, () => {
      const { keys, skipped } = read(...kids.map(onP521));
      assert.equal(keys.length, used);
      assert.equal(skipped.length, kids.length - used);
      for (const one of skipped) assert.match(one.why, /all keys of its kid would take too long/);
      const set = keySetOf(keys, { fetchedAtMs: 0, from: 'issuer' });
      for (const kid of ['a', 'b', 'unknown']) assert.ok(set.for(kid).length <= 1);
    });
  }

  test('has the same version for the same keys in any order, and another one otherwise', () => {
    const [a, b] = [testJwk(testKey(0), 'a'), testJwk(testKey(1), 'b')];
    assert.equal(setOf(a, b).version, setOf(b, a).version);
    assert.notEqual(setOf(a, b).version, setOf(a).version);
    assert.notEqual(setOf(a).version, setOf(testJwk(testKey(0), 'c')).version);
    assert.notEqual(setOf(a).version, setOf(testJwk(testKey(1), 'a')).version);
  });
});

describe('a key is skipped, and the others are used', () => {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const small = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey;
  const bad: Record<string, [unknown, RegExp]> = {
    'for encryption': [{ ...rsaJwk, use: 'enc' }, /use is not sig/],
    'with a use that is no text': [{ ...rsaJwk, use: null }, /use is not sig/],
    'for another algorithm': [{ ...rsaJwk, alg: 'RSA-OAEP' }, /its alg is not/],
    'for HMAC': [{ kty: 'oct', k: 'AAAA', alg: 'HS256' }, /its alg is not/],
    'that is symmetric': [{ kty: 'oct', k: 'AAAA' }, /kty is not EC or RSA/],
    'for none': [{ ...rsaJwk, alg: 'none' }, /its alg is not/],
    'for other operations': [{ ...rsaJwk, key_ops: ['encrypt'] }, /key_ops/],
    'with operations that are no list': [{ ...rsaJwk, key_ops: 'verify' }, /key_ops/],
    'of an unknown type': [{ kty: 'AKP', pub: 'AAAA' }, /kty is not EC or RSA/],
    'of type OKP': [testJwk(generateKeyPairSync('ed25519').publicKey, 'e'), /kty is not EC or RSA/],
    'with its private part': [privateKey.export({ format: 'jwk' }), /private key/],
    'with padding in a coordinate': [
      { ...publicKey.export({ format: 'jwk' }), x: `${good.x ?? ''}=` },
      /its x is not base64url/,
    ],
    'that is off the curve': [{ ...good, y: good.x }, /not readable/],
    'on another curve': [
      testJwk(generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).publicKey, 'k'),
      /its key/,
    ],
    'with too few bits': [testJwk(small, 's'), /1024 bits/],
    'with an exponent of 1': [{ ...rsaJwk, e: 'AQ' }, /its exponent e is not an odd number/],
    'with an even exponent': [{ ...rsaJwk, e: 'AQAC' }, /its exponent e is not an odd number/],
    'with a long exponent': [{ ...rsaJwk, e: rsaJwk.n }, /its exponent e is not an odd number/],
    'without a modulus': [{ kty: 'RSA', e: 'AQAB' }, /its n is not base64url/],
    'with a kid of thousands of characters': [{ ...rsaJwk, kid: 'k'.repeat(5000) }, /its kid has/],
    'that is null': [null, /not an object/],
    'that is a list': [[good], /not an object/],
    'that is a text': ['key', /not an object/],
  };
  for (const [what, [key, message]] of Object.entries(bad)) {
    test(what, () => assert.match(why(key), message));
  }
});

describe('a document is refused', () => {
  const refused: Record<string, [string, RegExp]> = {
    'that is empty': ['', /not JSON/],
    'that is HTML': ['<html><body>Sign in</body></html>', /not JSON/],
    'that is cut off': [testJwks({ a: 0 }).slice(0, -10), /not JSON/],
    'that is a list': ['[]', /no list of keys/],
    'that is null': ['null', /no list of keys/],
    'without keys': ['{}', /no list of keys/],
    'whose keys are no list': ['{"keys":{"0":{}}}', /no list of keys/],
    'with an empty list of keys': ['{"keys":[]}', /contains no keys/],
    'with no usable key': ['{"keys":[{"kty":"oct"}]}', /none of its 1 keys is usable/],
    'with two lists of keys': [`{"keys":[],${testJwks({ a: 0 }).slice(1)}`, /a field twice/],
    'with more keys than the limit': [
      JSON.stringify({ keys: Array.from({ length: maxKeys + 1 }, () => good) }),
      /the limit is 64/,
    ],
    'with a hundred thousand values': [`{"keys":[${'0,'.repeat(30_000)}0]}`, /more than/],
    'that is nested deeply': [`{"keys":${'['.repeat(5000)}`, /nested deeper/],
    'that is larger than the limit': [' '.repeat(maxJwksBytes + 1), /the limit is/],
  };
  for (const [what, [document, message]] of Object.entries(refused)) {
    test(what, () => {
      assert.throws(
        () => readJwks(Buffer.from(document)),
        (caught) => caught instanceof TypeError && message.test(caught.message),
      );
    });
  }

  test('without repeating its content', () => {
    assert.throws(() => readJwks(Buffer.from('secret')), /^TypeError: it is not JSON$/);
  });
});

describe('whatever a document contains', () => {
  test('its good keys are read, and its other keys are skipped', () => {
    const member = fc.oneof(
      fc.record({ good: fc.constant(true), number: fc.nat(3), kid: fc.string({ maxLength: 8 }) }),
      fc.record({ good: fc.constant(false), json: fc.jsonValue({ maxDepth: 2 }) }),
    );
    fc.assert(
      fc.property(fc.array(member, { maxLength: 12 }), (members) => {
        const keys = members.map((each) =>
          'number' in each ? testJwk(testKey(each.number), each.kid) : each.json,
        );
        const wanted = new Set(
          members.flatMap((each) => ('number' in each ? [`${each.kid} ${each.number}`] : [])),
        );
        const bytes = Buffer.from(JSON.stringify({ keys }));
        if (wanted.size === 0) {
          assert.throws(() => readJwks(bytes), TypeError);
          return;
        }
        const found = readJwks(bytes);
        assert.equal(found.keys.length, wanted.size);
        assert.equal(found.skipped.length, members.filter((each) => 'json' in each).length);
        const set = keySetOf(found.keys, { fetchedAtMs: 0, from: 'issuer' });
        for (const key of found.keys) assert.ok(set.for(key.keyId).includes(key));
      }),
      { numRuns: 200 },
    );
  });

  test('bytes at random never do more than be refused', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        assert.throws(() => readJwks(bytes), TypeError);
      }),
      { numRuns: 200 },
    );
  });

  test('a member that is missing or changed never gives another key', () => {
    const names = Object.keys(rsaJwk);
    fc.assert(
      fc.property(fc.constantFrom(...names), fc.jsonValue({ maxDepth: 1 }), (name, value) => {
        const changed = { ...(rsaJwk as JsonWebKey & Record<string, unknown>), [name]: value };
        const { keys } = read(good, changed);
        for (const { publicKey } of keys.slice(1)) {
          const { n, e } = publicKey.export({ format: 'jwk' });
          assert.deepEqual([n, e], [changed.n, changed.e]);
        }
      }),
      { numRuns: 200 },
    );
  });
});
