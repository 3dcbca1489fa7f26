import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { type ReadToken, readToken } from './read-token.ts';
import {
  type Claims,
  encode,
  keyIdOf,
  keySetOf,
  signByPublicKey,
  signToken,
} from './test-service-account-tokens.ts';

const issuer = 'https://kubernetes.default.svc';
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const stranger = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const keys = keySetOf(rsa, ec);

const claims: Claims = {
  aud: ['reports'],
  exp: 2_000,
  iat: 1_000,
  iss: issuer,
  jti: 'one',
  'kubernetes.io': { namespace: 'shop', serviceaccount: { name: 'web', uid: 'u1' } },
  nbf: 1_000,
  sub: 'system:serviceaccount:shop:web',
};

const wrongSignature = '[invalid bearer token, go-jose/go-jose: error in cryptographic primitive]';

function read(token: string): ReadToken {
  return readToken(token, keys, issuer);
}

function errorOf(token: string): string | undefined {
  const result = read(token);
  assert.ok(result.type === 'denied', `the token is ${result.type}`);
  return result.verdict.error;
}

suite('a token with a signature of the cluster', () => {
  const algorithms = [
    ['RS256', rsa],
    ['RS384', rsa],
    ['RS512', rsa],
    ['PS256', rsa],
    ['PS384', rsa],
    ['PS512', rsa],
    ['ES256', ec],
    ['ES384', generateKeyPairSync('ec', { namedCurve: 'P-384' })],
    ['ES512', generateKeyPairSync('ec', { namedCurve: 'P-521' })],
  ] as const;
  for (const [algorithm, key] of algorithms) {
    test(`is read with ${algorithm}`, () => {
      const token = signToken({ key, claims, algorithm });
      const result = readToken(token, keySetOf(stranger, key), issuer);
      assert.ok(result.type === 'signed');
      assert.deepEqual(result.token.audiences, ['reports']);
      assert.equal(result.token.expiresAtMs, 2_000_000);
    });
  }

  test('is tried with every key where it has no kid', () => {
    assert.equal(read(signToken({ key: ec, claims, header: { kid: undefined } })).type, 'signed');
    assert.equal(read(signToken({ key: ec, claims, header: { kid: '' } })).type, 'signed');
  });

  test('is read where the signature is that of the claims, and the header says so', () => {
    const raw = { key: ec, claims, signsRawClaims: true } as const;
    for (const header of [{ b64: false }, { b64: false, crit: ['b64'] }]) {
      assert.equal(read(signToken({ ...raw, header })).type, 'signed');
      assert.equal(errorOf(signToken({ key: ec, claims, header })), wrongSignature);
    }
    for (const header of [{}, { b64: true }, { b64: null }, { b64: 'false' }])
      assert.equal(errorOf(signToken({ ...raw, header })), wrongSignature);
  });

  test('is read with a line end after it, and with line ends inside', () => {
    const token = signToken({ key: ec, claims });
    const middle = token.indexOf('.') + 10;
    for (const sent of [`${token}\n`, `${token.slice(0, middle)}\r\n${token.slice(middle)}`])
      assert.equal(read(sent).type, 'signed');
  });

  test('is read up to the first space', () => {
    assert.equal(read(`${signToken({ key: ec, claims })} and more`).type, 'signed');
  });

  test('is read with a tab in the header, but not with one in the claims', () => {
    const token = signToken({ key: ec, claims });
    assert.equal(read(`\t${token}`).type, 'signed');
    assert.equal(errorOf(token.replace('.', '.\t')), 'invalid bearer token');
  });

  test('is read with stray bits at the end of its header, as go-jose does', () => {
    const token = signToken({ key: ec, claims, header: { x: 'ab' } });
    const end = token.indexOf('.') - 1;
    assert.notEqual((end + 1) % 4, 0, 'the header must end in the middle of a group');
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const last = alphabet[alphabet.indexOf(token[end] as string) + 1] as string;
    assert.equal(read(token.slice(0, end) + last + token.slice(end + 1)).type, 'signed');
  });
});

suite('a token that is denied', () => {
  test('is of another issuer', () => {
    const other = { ...claims, iss: 'https://elsewhere.example' };
    assert.equal(errorOf(signToken({ key: ec, claims: other })), 'invalid bearer token');
    assert.equal(
      errorOf(signToken({ key: ec, claims: { ...claims, iss: 1 } })),
      'invalid bearer token',
    );
  });

  test('has the issuer in capital letters only, which selects it and then does not count', () => {
    const { iss, ...others } = claims;
    assert.equal(
      errorOf(signToken({ key: ec, claims: { ...others, ISS: iss } })),
      '[invalid bearer token, token issuer "" is invalid]',
    );
    assert.equal(
      errorOf(signToken({ key: ec, claims: { iss: 'x', ...others, Iss: iss } })),
      '[invalid bearer token, token issuer "x" is invalid]',
    );
    assert.equal(
      errorOf(signToken({ key: ec, claims: { ...claims, 'i\u017fs': 'x' } })),
      'invalid bearer token',
    );
  });

  test('has claims nested deeper than Go reads', () => {
    const nested = (depth: number) => {
      const deep = `${'['.repeat(depth)}${']'.repeat(depth)}`;
      return signToken({ key: ec, claims: JSON.stringify(claims).replace('{', `{"x":${deep},`) });
    };
    assert.equal(errorOf(nested(10_000)), 'invalid bearer token');
    assert.equal(read(nested(9_999)).type, 'signed');
  });

  test('has a wrong signature', () => {
    const token = signToken({ key: stranger, claims, header: { kid: keyIdOf(ec) } });
    assert.equal(errorOf(token), wrongSignature);
  });

  test('has other claims than those that were signed', () => {
    const [header, , signature] = signToken({ key: ec, claims }).split('.');
    const changed = encode({ ...claims, sub: 'system:serviceaccount:shop:admin' });
    assert.equal(errorOf(`${header}.${changed}.${signature}`), wrongSignature);
  });

  test('has another algorithm than its key', () => {
    const header = { alg: 'RS256', kid: keyIdOf(ec) };
    assert.equal(errorOf(signToken({ key: ec, claims, header })), wrongSignature);
  });

  test('has no signature', () => {
    const signed = `${encode({ alg: 'none', kid: keyIdOf(ec) })}.${encode(claims)}`;
    assert.equal(errorOf(`${signed}.`), wrongSignature);
    assert.equal(errorOf(`.${encode(claims)}.`), wrongSignature);
  });

  test('is signed by HMAC with the public key', () => {
    const header = { alg: 'HS256', kid: keyIdOf(rsa) };
    assert.equal(errorOf(signByPublicKey(rsa, header, claims)), wrongSignature);
  });

  test('brings its own key', () => {
    const jwk = stranger.publicKey.export({ format: 'jwk' });
    const own = { jwk, jku: 'https://evil.example', x5u: 'https://evil.example' };
    const known = { key: stranger, claims, header: { ...own, kid: keyIdOf(ec) } };
    assert.equal(errorOf(signToken(known)), wrongSignature);
  });

  test('brings a private key, or something that is no key', () => {
    const jwk = stranger.privateKey.export({ format: 'jwk' });
    for (const header of [{ jwk }, { jwk: { kty: 'EC' } }, { jwk: 'x' }, { x5c: ['AAAA'] }])
      assert.equal(errorOf(signToken({ key: ec, claims, header })), 'invalid bearer token');
  });

  test('demands an unknown extension', () => {
    assert.equal(
      errorOf(signToken({ key: ec, claims, header: { crit: ['exp'] } })),
      wrongSignature,
    );
    assert.equal(
      errorOf(signToken({ key: ec, claims, header: { crit: 'exp' } })),
      '[invalid bearer token, json: cannot unmarshal string into Go value of type []string]',
    );
  });

  test('has duplicate members in its header', () => {
    const header = `{"alg":"ES256","kid":"a","kid":"${keyIdOf(ec)}"}`;
    assert.equal(errorOf(signToken({ key: ec, claims, header })), 'invalid bearer token');
  });

  test('has a header of wrong types', () => {
    for (const header of ['[]', '"x"', '{"alg":1}', '{"alg":"ES256","kid":[]}', '{'])
      assert.equal(errorOf(signToken({ key: ec, claims, header })), 'invalid bearer token');
  });

  test('has duplicate claims', () => {
    const twice = JSON.stringify(claims).replace('{', '{"jti":"two",');
    assert.equal(
      errorOf(signToken({ key: ec, claims: twice })),
      "[invalid bearer token, json: duplicate key 'jti' in object]",
    );
    const inside = JSON.stringify(claims).replace('"namespace"', '"namespace":"a","namespace"');
    assert.equal(
      errorOf(signToken({ key: ec, claims: inside })),
      "[invalid bearer token, json: duplicate key 'namespace' in object]",
    );
  });

  test('has claims of wrong types', () => {
    const date = 'go-jose/go-jose/jwt: expected number value to unmarshal NumericDate';
    const audience = 'go-jose/go-jose/jwt: expected string or array value to unmarshal to Audience';
    const type = (found: string, wanted: string) =>
      `json: cannot unmarshal ${found} into Go value of type ${wanted}`;
    for (const [changed, error] of [
      [{ exp: 'soon' }, date],
      [{ nbf: {} }, date],
      [{ aud: 1 }, audience],
      [{ aud: null }, audience],
      [{ aud: ['a', 1] }, audience],
      [{ jti: 1 }, type('number', 'string')],
      [{ sub: true }, type('bool', 'string')],
      [{ 'kubernetes.io': 'x' }, type('string', 'serviceaccount.kubernetes')],
      [{ 'kubernetes.io': { pod: [] } }, type('array', 'serviceaccount.ref')],
    ] as const) {
      const token = signToken({ key: ec, claims: { ...claims, ...changed } });
      assert.equal(errorOf(token), `[invalid bearer token, ${error}]`);
    }
  });

  test('is not a token', () => {
    const deep = encode(`${'['.repeat(20_000)}${']'.repeat(20_000)}`);
    for (const sent of [
      'x',
      'a.b',
      'a.b.c.d',
      'a.b.c',
      '{}',
      '..',
      `a.${deep}.a`,
      'é.é.é',
      'ab+/.ab.ab',
    ])
      assert.equal(errorOf(sent), 'invalid bearer token');
  });

  test('is too long', () => {
    const long = signToken({ key: ec, claims: { ...claims, aud: 'a'.repeat(70_000) } });
    assert.equal(errorOf(long), 'invalid bearer token');
  });

  test('has a header that is too long, which is not even decoded', () => {
    const sent = (length: number) =>
      signToken({ key: ec, claims, header: { more: 'x'.repeat(length) } });
    assert.equal(errorOf(sent(8 * 1024)), 'invalid bearer token');
    assert.equal(read(sent(5 * 1024)).type, 'signed');
  });

  test('is blank, without a word', () => {
    for (const sent of [' ', '\n', ' \t', ` ${signToken({ key: ec, claims })}`])
      assert.equal(errorOf(sent), undefined);
  });
});

test('a token of an unknown key is told apart, because newer keys may verify it', () => {
  assert.equal(read(signToken({ key: stranger, claims })).type, 'unknownKey');
  for (const kid of ['../../etc/passwd', "' or 1=1", '__proto__'])
    assert.equal(read(signToken({ key: ec, claims, header: { kid } })).type, 'unknownKey');
});

test('a number that does not fit 64 bits is read as the smallest, as Go does', () => {
  const text = JSON.stringify(claims).replace('"exp":2000', '"exp":1e300');
  const result = read(signToken({ key: ec, claims: text }));
  assert.ok(result.type === 'signed' && result.token.expiresAtMs < 0);
});

test('no change of a byte makes a token valid that is not', () => {
  const token = signToken({ key: stranger, claims, header: { kid: keyIdOf(ec) } });
  fc.assert(
    fc.property(fc.nat(token.length - 1), fc.string({ maxLength: 3 }), (at, text) => {
      const result = read(token.slice(0, at) + text + token.slice(at + 1));
      assert.notEqual(result.type, 'signed');
    }),
  );
});

test('any text is read without an exception', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
      assert.equal(read(text).type, 'denied');
    }),
  );
});
