import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../../api/values/trust-domain.ts';
import { hasCode } from '../../errors/error.ts';
import { Bundle, type BundleSource } from '../bundle/bundle.ts';
import { brokenJwtRule, jwtRules } from './rules.ts';
import { validateJwtSvid } from './svid-validator.ts';
import { type JwtSvidRequest, signJwtSvid } from './sign-svid.ts';
import { LocalSigner } from '../x509/signer.ts';
import { sampleAudience, tokenBundleSource, tokenSamples } from './test-tokens.ts';

const nowMs = Date.UTC(2026, 10, 15, 12);
const lubeck = TrustDomain.parse('lubeck.example');
const web = SpiffeId.parse('spiffe://lubeck.example/web');
const validate = (token: string, audience = sampleAudience) =>
  validateJwtSvid(token, audience, tokenBundleSource, nowMs);

suite('a token', () => {
  for (const { name, token, rule } of tokenSamples(nowMs)) {
    if (rule === undefined) {
      test(`${name} is believed`, () => {
        assert.equal(validate(token).expiresAtMs >= nowMs + 300_000, true);
      });
    } else {
      test(`${name} is refused by the rule ${rule}`, () => {
        assert.throws(
          () => validate(token),
          (error) => {
            assert.equal(brokenJwtRule(error), rule, String(error));
            return true;
          },
        );
      });
    }
  }

  test('is refused for an audience that has no name', () => {
    const { token } = tokenSamples(nowMs)[0] as { token: string };
    assert.throws(
      () => validate(token, ''),
      (error) => brokenJwtRule(error) === 'audience',
    );
  });
});

test('every rule has a sample that breaks it', () => {
  const broken = new Set(tokenSamples(nowMs).map(({ rule }) => rule));
  assert.deepEqual(
    Object.keys(jwtRules).filter((rule) => !broken.has(rule as keyof typeof jwtRules)),
    [],
  );
});

test('no refusal shows the token', () => {
  for (const { token, rule } of tokenSamples(nowMs)) {
    if (rule === undefined || token.length < 100) continue;
    try {
      validate(token);
    } catch (error) {
      const message = String(error);
      for (const part of token.split('.')) {
        if (part.length > 20) assert(!message.includes(part), message);
      }
    }
  }
});

test('a token without kid is not tried with more than a few keys', () => {
  const keys = Array.from({ length: 9 }, (_, at) => ({
    keyId: `k${at}`,
    publicKey: generateKeyPairSync('ec', { namedCurve: 'prime256v1' }).publicKey,
  }));
  const bundle = new Bundle(lubeck, [], keys);
  const sample = tokenSamples(nowMs).find(({ name }) => name === 'without kid');
  assert.throws(
    () => validateJwtSvid(sample?.token ?? '', sampleAudience, { bundleFor: () => bundle }, nowMs),
    (error) => brokenJwtRule(error) === 'key-id',
  );
});

suite('a token that we make', () => {
  const pair = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const key = {
    keyId: 'k1',
    signer: new LocalSigner(pair.privateKey),
    notAfterMs: nowMs + 24 * 3_600_000,
  };
  const bundles: BundleSource = {
    bundleFor: () => new Bundle(lubeck, [], [{ keyId: 'k1', publicKey: pair.publicKey }]),
  };
  const issue = (changes: Partial<JwtSvidRequest> = {}) =>
    signJwtSvid({ key, trustDomain: lubeck, subject: web, audience: ['a'], nowMs, ...changes });
  const parts = (token: string): Record<string, unknown>[] =>
    token
      .split('.')
      .slice(0, 2)
      .map((part) => JSON.parse(Buffer.from(part, 'base64url').toString()));

  test('has alg, kid and typ, the claims of a JWT-SVID, and no others', async () => {
    const { token } = await issue();
    const now = nowMs / 1000;
    assert.deepEqual(parts(token), [
      { alg: 'ES256', kid: 'k1', typ: 'JWT' },
      { sub: web.toString(), aud: ['a'], iat: now, exp: now + 300 },
    ]);
  });

  test('names its issuer where there is one', async () => {
    const { token } = await issue({ issuer: 'https://lubeck.example' });
    assert.equal(parts(token)[1]?.['iss'], 'https://lubeck.example');
  });

  for (const [name, alg, made] of [
    ['P-384', 'ES384', generateKeyPairSync('ec', { namedCurve: 'secp384r1' })],
    ['RSA', 'RS256', generateKeyPairSync('rsa', { modulusLength: 2048 })],
  ] as const) {
    test(`is believed with a key of ${name}, by ${alg}`, async () => {
      const { token } = await issue({ key: { ...key, signer: new LocalSigner(made.privateKey) } });
      assert.equal(parts(token)[0]?.['alg'], alg);
      const bundle = new Bundle(lubeck, [], [{ keyId: 'k1', publicKey: made.publicKey }]);
      assert(validateJwtSvid(token, 'a', { bundleFor: () => bundle }, nowMs).id.equals(web));
    });
  }

  test('is believed until it expires, and not then', async () => {
    const { token, expiresAtMs } = await issue({ ttlSeconds: 60 });
    assert.equal(expiresAtMs, nowMs + 60_000);
    assert(validateJwtSvid(token, 'a', bundles, expiresAtMs - 1).id.equals(web));
    assert.throws(
      () => validateJwtSvid(token, 'a', bundles, expiresAtMs),
      (error) => brokenJwtRule(error) === 'expiry',
    );
  });

  test('does not outlive its key', async () => {
    const short = { ...key, notAfterMs: nowMs + 90_500 };
    assert.equal((await issue({ key: short })).expiresAtMs, nowMs + 90_000);
    await assert.rejects(issue({ key: { ...key, notAfterMs: nowMs + 999 } }), (error) =>
      hasCode(error, 'HANSA_UNAVAILABLE'),
    );
  });

  test('is for this trust domain, for workloads, and never below /hansa', async () => {
    for (const id of [
      'spiffe://bruges.example/web',
      'spiffe://lubeck.example',
      'spiffe://lubeck.example/hansa',
      'spiffe://lubeck.example/hansa/site',
    ]) {
      await assert.rejects(issue({ subject: SpiffeId.parse(id) }), (error) =>
        hasCode(error, 'HANSA_FORBIDDEN'),
      );
    }
  });

  test('needs an audience and a lifetime within bounds', async () => {
    for (const changes of [
      { audience: [] },
      { audience: [''] },
      { audience: ['a', ''] },
      { audience: ['\ud800'] },
      { audience: ['x'.repeat(2049)] },
      { audience: ['x'.repeat(2048), 'y'.repeat(2048), 'z'] },
      { audience: Array.from({ length: 33 }, (_, at) => String(at)) },
      { ttlSeconds: 0 },
      { ttlSeconds: 3601 },
      { ttlSeconds: Number.NaN },
    ]) {
      await assert.rejects(issue(changes), (error) => hasCode(error, 'HANSA_BAD_REQUEST'));
    }
  });

  test('is never made with a key that JWT-SVIDs do not know', async () => {
    const ed25519 = new LocalSigner(generateKeyPairSync('ed25519').privateKey);
    await assert.rejects(issue({ key: { ...key, signer: ed25519 } }), TypeError);
  });

  test('is believed by each of its audiences, whatever they are called', async () => {
    const names = fc.array(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 60 }), {
      minLength: 1,
      maxLength: 8,
    });
    await fc.assert(
      fc.asyncProperty(names, fc.integer({ min: 1, max: 3600 }), async (audience, ttlSeconds) => {
        const { token } = await issue({ audience, ttlSeconds });
        for (const one of audience) {
          const read = validateJwtSvid(token, one, bundles, nowMs);
          assert.deepEqual(read.audience, audience);
          assert.equal(read.expiresAtMs, nowMs + ttlSeconds * 1000);
        }
      }),
      { numRuns: 50 },
    );
  });

  test('is refused after any change of one character', async () => {
    const { token } = await issue();
    const other = fc.constantFrom(
      'A',
      'B',
      'a',
      'b',
      '0',
      '9',
      '-',
      '_',
      '.',
      '=',
      ' ',
      '\u0000',
      'é',
    );
    fc.assert(
      fc.property(fc.nat(token.length - 1), other, (at, character) => {
        fc.pre(token[at] !== character);
        const changed = token.slice(0, at) + character + token.slice(at + 1);
        assert.throws(
          () => validateJwtSvid(changed, 'a', bundles, nowMs),
          (error) => brokenJwtRule(error) !== undefined,
        );
      }),
      { numRuns: 500 },
    );
  });
});

test('no text makes the reader fail in another way than by refusing', () => {
  const part = fc.oneof(
    fc.json().map((text) => Buffer.from(text).toString('base64url')),
    fc.string(),
  );
  const text = fc.oneof(
    fc.string(),
    fc.tuple(part, part, part).map((parts) => parts.join('.')),
    fc
      .tuple(
        fc.dictionary(fc.constantFrom('sub', 'aud', 'exp', 'nbf', 'iat'), fc.jsonValue()),
        part,
      )
      .map(([claims, signature]) =>
        [
          Buffer.from('{"alg":"ES256"}').toString('base64url'),
          Buffer.from(JSON.stringify(claims)).toString('base64url'),
          signature,
        ].join('.'),
      ),
  );
  fc.assert(
    fc.property(text, (token) => {
      assert.throws(
        () => validate(token),
        (error) => brokenJwtRule(error) !== undefined,
      );
    }),
    { numRuns: 2000 },
  );
});
