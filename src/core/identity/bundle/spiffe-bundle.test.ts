import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { TrustDomain } from '../../../api/values/trust-domain.ts';
import { hasCode } from '../../errors/error.ts';
import { Bundle } from './bundle.ts';
import { encodeSpiffeBundle, maxBundleBytes, parseSpiffeBundle } from './spiffe-bundle.ts';
import { forge, forgeLeaf, forgeRoot, type Forged } from '../x509/test-forge.ts';

const bruges = TrustDomain.parse('bruges.example');
const rootA = forgeRoot('bruges.example');
const rootB = forgeRoot('bruges.example');

function jwk(root: Forged, changes: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    use: 'x509-svid',
    ...root.certificate.publicKey.export({ format: 'jwk' }),
    x5c: [root.der.toString('base64')],
    ...changes,
  };
}

const documentOf = (keys: readonly unknown[], rest: Record<string, unknown> = {}): string =>
  JSON.stringify({ keys, ...rest });

const authoritiesOf = (document: string): string[] =>
  parseSpiffeBundle(document, bruges).bundle.authorities.map(({ fingerprint }) => fingerprint);

function assertRefused(document: string | Uint8Array, why: RegExp): void {
  assert.throws(
    () => parseSpiffeBundle(document, bruges),
    (error) => {
      assert(hasCode(error, 'HANSA_BUNDLE_INVALID'), String(error));
      assert.match(error.message, why);
      return true;
    },
  );
}

suite('a bundle that we write', () => {
  test('is read back with its authorities, sequence and hint', () => {
    const bundle = new Bundle(bruges, [rootA.certificate, rootB.certificate]);
    const text = encodeSpiffeBundle(bundle, { sequence: 7, refreshHintSeconds: 300 });
    const read = parseSpiffeBundle(text, bruges);
    assert.equal(read.bundle.hash, bundle.hash);
    assert.equal(read.sequence, 7);
    assert.equal(read.refreshHintSeconds, 300);
    assert.deepEqual(read.skipped, []);
  });

  test('has one certificate a key, in base64, and no private part', () => {
    const bundle = new Bundle(bruges, [rootA.certificate]);
    const { keys } = JSON.parse(
      encodeSpiffeBundle(bundle, { sequence: 1, refreshHintSeconds: 60 }),
    ) as { keys: Record<string, unknown>[] };
    assert.deepEqual(Object.keys(keys[0] ?? {}), ['use', 'kty', 'crv', 'x', 'y', 'x5c']);
    assert.equal(keys[0]?.['use'], 'x509-svid');
    assert.deepEqual(keys[0]['x5c'], [rootA.der.toString('base64')]);
  });

  for (const [name, key] of [
    ['RSA', generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey],
    ['Ed25519', generateKeyPairSync('ed25519').privateKey],
    ['P-384', generateKeyPairSync('ec', { namedCurve: 'secp384r1' }).privateKey],
  ] as const) {
    test(`may have authorities with ${name} keys`, () => {
      const root = forgeRoot('bruges.example', { key });
      const bundle = new Bundle(bruges, [root.certificate]);
      const text = encodeSpiffeBundle(bundle, { sequence: 1, refreshHintSeconds: 60 });
      assert.equal(parseSpiffeBundle(text, bruges).bundle.hash, bundle.hash);
    });
  }
});

test('a bundle that SPIRE publishes is read: two X.509 authorities and two JWT authorities', () => {
  const read = parseSpiffeBundle(
    readFileSync(new URL('sample-spire-bundle.json', import.meta.url)),
    TrustDomain.parse('hamburg.example'),
  );
  assert.equal(read.bundle.authorities.length, 2);
  assert.deepEqual(
    [...read.bundle.jwtAuthorities.keys()],
    ['QQhMHcqi4AcgZy9t2FZ1KpV8t0eDzu0j', 'YvR4kMOAVnsomOJWSm6EUo2vtZEHbYah'],
  );
  assert.equal(read.refreshHintSeconds, 60);
  assert.equal(typeof read.sequence, 'number');
  assert.deepEqual(read.skipped, []);
});

test('a mark of byte order is refused in bytes as in text: what is kept of it must be readable again', () => {
  const document = `\ufeff${documentOf([jwk(rootA)])}`;
  assertRefused(document, /not a JSON object/);
  assertRefused(Buffer.from(document), /not a JSON object/);
});

suite('a strange key is left out, and the rest is kept', () => {
  const leaf = forgeLeaf(rootA, 'spiffe://bruges.example/web');
  const weak = forgeRoot('bruges.example', {
    key: generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey,
  });
  const weakSpki = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({
    format: 'der',
    type: 'spki',
  });
  const der = rootA.der.toString('base64');
  const strange: Record<string, readonly [key: unknown, why: RegExp]> = {
    'without use': [jwk(rootA, { use: undefined }), /its use is neither/],
    'with an unknown use': [jwk(rootA, { use: 'sig' }), /its use is neither/],
    'with a use that is no text': [jwk(rootA, { use: 1 }), /its use is neither/],
    'without kty': [jwk(rootA, { kty: undefined }), /no kty/],
    'with an unknown kty': [jwk(rootA, { kty: 'LATTICE' }), /its kty is none of/],
    'without x5c': [jwk(rootA, { x5c: undefined }), /x5c does not contain a certificate/],
    'with an empty x5c': [jwk(rootA, { x5c: [] }), /x5c does not contain a certificate/],
    'with an x5c that is not base64': [jwk(rootA, { x5c: ['%%%'] }), /x5c is not base64/],
    'with a blank in the base64 of its x5c': [jwk(rootA, { x5c: [`${der}\n`] }), /is not base64/],
    'with an x5c in base64url': [jwk(rootA, { x5c: ['-_-_'] }), /x5c is not base64/],
    'with a certificate that is cut off': [
      jwk(rootA, { x5c: [rootA.der.subarray(0, -9).toString('base64')] }),
      /malformed-der/,
    ],
    'with a leaf for a certificate': [jwk(leaf), /cA is false/],
    'with the certificate of another key': [
      jwk(rootA, { x5c: [weak.der.toString('base64')] }),
      /its key does not match its certificate/,
    ],
    'with a weak key': [
      { ...jwk(rootA), x5c: [forge({ ca: true, spki: weakSpki }).der.toString('base64')] },
      /1024 bits/,
    ],
    'with an unreadable key': [jwk(rootA, { x: 'AA' }), /its key does not match/],
    'that is no object': ['key', /not an object/],
    'that is null': [null, /not an object/],
  };
  for (const [name, [key, why]] of Object.entries(strange)) {
    test(`a key ${name}`, () => {
      const read = parseSpiffeBundle(documentOf([key, jwk(rootB)]), bruges);
      assert.deepEqual(
        read.bundle.authorities.map(({ fingerprint }) => fingerprint),
        [rootB.certificate.fingerprint],
      );
      assert.equal(read.skipped.length, 1);
      assert.equal(read.skipped[0]?.index, 0);
      assert.match(read.skipped[0].why, why);
    });

    test(`but alone, a key ${name} is no bundle`, () => {
      assertRefused(documentOf([key]), /no X\.509 or JWT authority/);
    });
  }

  test('a key for WIT-SVIDs is none of our business and not strange', () => {
    const read = parseSpiffeBundle(
      documentOf([jwk(rootA), { use: 'wit-svid', kty: 'EC', kid: 'x', crv: 'P-256' }]),
      bruges,
    );
    assert.deepEqual(read.skipped, []);
    assert.equal(read.bundle.authorities.length, 1);
    assert.equal(read.bundle.jwtAuthorities.size, 0);
  });

  test('a key that has a member twice', () => {
    const text = documentOf([jwk(rootA), jwk(rootB)]).replace('"use"', '"use":"jwt-svid","use"');
    const read = parseSpiffeBundle(text, bruges);
    assert.deepEqual(read.skipped, [{ index: 0, why: 'it has a member twice' }]);
    assert.equal(read.bundle.authorities[0]?.fingerprint, rootB.certificate.fingerprint);
  });
});

suite('a document that is no bundle is refused', () => {
  test('an empty one, a list, a number, half of one', () => {
    for (const text of ['', '[]', '1', 'null', documentOf([jwk(rootA)]).slice(0, -3)]) {
      assertRefused(text, /not a JSON object/);
    }
  });

  test('one that is not UTF-8', () => {
    assertRefused(Buffer.from([0x7b, 0xff, 0x7d]), /not a JSON object/);
  });

  test('one without keys, or with keys that are no list', () => {
    assertRefused('{}', /no list of keys/);
    assertRefused('{"keys":{}}', /no list of keys/);
  });

  test('one with no key', () => {
    assertRefused('{"keys":[]}', /no X\.509 or JWT authority/);
  });

  test('one that is larger than the limit', () => {
    assertRefused(' '.repeat(maxBundleBytes + 1), /bytes, and the limit is 262144/);
  });

  test('one with more keys than the limit', () => {
    assertRefused(
      documentOf(Array.from({ length: 257 }, () => ({}))),
      /257 keys, and the limit is 256/,
    );
  });

  test('one with more authorities than are believed, before it is known whether they are any', () => {
    const key = { kty: 'EC', crv: 'P-521', x: 'AQ', y: 'AQ' };
    const jwt = Array.from({ length: 65 }, (_, index) => ({
      use: 'jwt-svid',
      kid: `${index}`,
      ...key,
    }));
    assertRefused(
      documentOf([jwk(rootA), ...jwt]),
      /1 X\.509 and 65 JWT authorities, and the limit is 64/,
    );
    const x509 = jwt.map(({ kid }) => ({ use: 'x509-svid', ...key, x5c: [kid] }));
    assertRefused(
      documentOf([jwk(rootA), ...x509]),
      /66 X\.509 and 0 JWT authorities, and the limit is 64/,
    );
    const read = parseSpiffeBundle(documentOf([jwk(rootA), ...jwt.slice(1)]), bruges);
    assert.equal(read.skipped.length, 64);
  });

  test('but one that repeats itself is read once', () => {
    const strange = { use: 'jwt-svid', kid: 'x', kty: 'EC', crv: 'P-256', x: 'AQ', y: 'AQ' };
    const read = parseSpiffeBundle(
      documentOf(Array.from({ length: 120 }, () => [jwk(rootA), strange]).flat()),
      bruges,
    );
    assert.equal(read.bundle.authorities.length, 1);
    assert.deepEqual(read.skipped, [{ index: 1, why: 'its key is not readable' }]);
  });

  test('one that has keys or its sequence twice', () => {
    const text = documentOf([jwk(rootA)]);
    assertRefused(text.replace('{', '{"keys":[],'), /member keys twice/);
    assertRefused(
      text.replace('{', '{"spiffe_sequence":1,"spiffe_sequence":2,'),
      /member spiffe_sequence twice/,
    );
  });

  test('one with so many members twice that some would go unseen', () => {
    const twice = Array.from({ length: 120 }, () => '{"a":1,"a":2}').join(',');
    assertRefused(`{"keys":[${twice}]}`, /too many duplicate members/);
  });

  test('one that is nested without end', () => {
    assertRefused(`{"keys":${'['.repeat(600)}${']'.repeat(600)}}`, /nested too deep/);
  });

  test('one whose sequence is not a whole number', () => {
    for (const sequence of [-1, 1.5, '7', 2 ** 60, []]) {
      assertRefused(documentOf([jwk(rootA)], { spiffe_sequence: sequence }), /spiffe_sequence/);
    }
  });
});

test('of several certificates of one key, all but the first are ignored', () => {
  const [first, second] = [rootA, rootB].map(({ der }) => der.toString('base64'));
  for (const further of [second, '%%%', 7]) {
    const read = parseSpiffeBundle(documentOf([jwk(rootA, { x5c: [first, further] })]), bruges);
    assert.deepEqual(
      read.bundle.authorities.map(({ fingerprint }) => fingerprint),
      [rootA.certificate.fingerprint],
    );
  }
});

test('a key that is there twice counts once', () => {
  assert.equal(authoritiesOf(documentOf([jwk(rootA), jwk(rootA)])).length, 1);
});

test('a hint that is nonsense is none', () => {
  const read = parseSpiffeBundle(documentOf([jwk(rootA)], { spiffe_refresh_hint: 'soon' }), bruges);
  assert.equal(read.refreshHintSeconds, undefined);
});

test('no document makes the reader fail in another way than by refusing', () => {
  fc.assert(
    fc.property(fc.oneof(fc.json(), fc.string()), (text) => {
      try {
        parseSpiffeBundle(text, bruges);
      } catch (error) {
        assert(hasCode(error, 'HANSA_BUNDLE_INVALID'));
      }
    }),
  );
});

test('whatever stands beside a good authority, that authority is kept', () => {
  const anything = fc.oneof(
    fc.jsonValue(),
    fc.record(
      {
        use: fc.constantFrom('x509-svid', 'jwt-svid', 'x'),
        kty: fc.constantFrom('EC', 'RSA', 'OKP', 'oct', ''),
        crv: fc.constantFrom('P-256', 'Ed25519', ''),
        x: fc.base64String(),
        y: fc.base64String(),
        n: fc.base64String(),
        e: fc.constantFrom('AQAB', ''),
        x5c: fc.array(fc.base64String(), { maxLength: 2 }),
      },
      { requiredKeys: [] },
    ),
  );
  fc.assert(
    fc.property(fc.array(anything, { maxLength: 8 }), fc.nat(8), (others, at) => {
      const keys = others.toSpliced(at, 0, jwk(rootA));
      assert.deepEqual(authoritiesOf(documentOf(keys)), [rootA.certificate.fingerprint]);
    }),
  );
});

suite('a bundle that was read before', () => {
  test('is not another trust domain’s', () => {
    const document = documentOf([jwk(rootA)]);
    assert.equal(parseSpiffeBundle(document, bruges).bundle.trustDomain.name, 'bruges.example');
    const lubeck = TrustDomain.parse('lubeck.example');
    assert.equal(parseSpiffeBundle(document, lubeck).bundle.trustDomain.name, 'lubeck.example');
  });

  test('is refused like a new one where it has not what is needed', () => {
    const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
    const key = { ...publicKey.export({ format: 'jwk' }), use: 'jwt-svid', kid: 'one' };
    const document = documentOf([key]);
    assert.equal(parseSpiffeBundle(document, bruges).bundle.jwtAuthorities.size, 1);
    assert.throws(
      () => parseSpiffeBundle(document, bruges, 'x509'),
      (error) => hasCode(error, 'HANSA_BUNDLE_INVALID'),
    );
  });

  test('is forgotten when others came', () => {
    const first = parseSpiffeBundle(documentOf([jwk(rootA)], { round: -1 }), bruges);
    for (let round = 0; round < 600; round++) {
      parseSpiffeBundle(documentOf([jwk(rootA)], { round }), bruges);
    }
    assert.notEqual(parseSpiffeBundle(documentOf([jwk(rootA)], { round: -1 }), bruges), first);
  });
});
