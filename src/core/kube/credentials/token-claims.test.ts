import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import * as fc from 'fast-check';
import { claimsOf, maxTokenBytes, tokenIn } from './token-claims.ts';

const encode = (value: unknown): string =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');
const tokenWith = (claims: unknown): string => `${encode({ alg: 'RS256' })}.${encode(claims)}.c2ln`;

suite('the claims of a ServiceAccount token', () => {
  test('say who it is, for whom, and until when', () => {
    const claims = claimsOf(
      tokenWith({
        iss: 'https://issuer.example',
        sub: 'system:serviceaccount:kube-fed:hansa',
        aud: ['https://kubernetes.default.svc'],
        iat: 1000,
        exp: 4600,
        'kubernetes.io': {
          namespace: 'kube-fed',
          pod: { name: 'p', uid: 'u' },
          node: { name: 'n', uid: 'v' },
        },
      }),
    );
    assert.deepEqual(claims, {
      issuer: 'https://issuer.example',
      subject: 'system:serviceaccount:kube-fed:hansa',
      audiences: ['https://kubernetes.default.svc'],
      issuedAtMs: 1_000_000,
      expiresAtMs: 4_600_000,
      serviceAccount: { namespace: 'kube-fed', name: 'hansa' },
      boundTo: { kind: 'Pod', name: 'p', uid: 'u' },
    });
  });

  test('of a legacy token have no audience and no expiry', () => {
    const claims = claimsOf(tokenWith({ sub: 'system:serviceaccount:a:b' }));
    assert.deepEqual(claims?.audiences, []);
    assert.equal(claims?.expiresAtMs, undefined);
    assert.equal(claims?.boundTo, undefined);
  });

  for (const sub of [
    'alice',
    'system:serviceaccount:a',
    'system:serviceaccount:a:b:c',
    'system:serviceaccount:../x:b',
    'system:serviceaccount:a:b/../../secrets/x',
    'system:serviceaccount:a:b?x=1',
    'system:node:a:b',
    7,
    undefined,
  ]) {
    test(`name no ServiceAccount for the subject ${JSON.stringify(sub)}`, () => {
      assert.equal(claimsOf(tokenWith({ sub }))?.serviceAccount, undefined);
    });
  }

  test('are undefined for anything that is not a JWT', () => {
    const deep = `${'['.repeat(600)}${']'.repeat(600)}`;
    const many = JSON.stringify(Array.from({ length: 600 }, () => 1));
    for (const token of [
      '',
      'opaque',
      'a.b',
      'a.b.c.d',
      'a..c',
      `x.${encode('[]')}.y`,
      `x.${encode('null')}.y`,
      `x.${encode('{')}.y`,
      `x.${encode(deep)}.y`,
      `x.${encode(many)}.y`,
      tokenWith({ sub: 'x'.repeat(maxTokenBytes) }),
    ]) {
      assert.equal(claimsOf(token), undefined);
    }
  });

  test('never throw', () => {
    fc.assert(
      fc.property(fc.string(), fc.json(), (text, json) => {
        claimsOf(text);
        claimsOf(`x.${encode(json)}.y`);
      }),
    );
  });
});

suite('a token in a text', () => {
  test('is its only word', () => {
    assert.equal(tokenIn(' abc.def\n'), 'abc.def');
  });

  test('is missing where a header could not carry it', () => {
    for (const text of [
      '',
      '\n',
      'two words',
      'a\nb',
      'a\r\nX: y',
      'ü',
      'x'.repeat(maxTokenBytes + 1),
    ]) {
      assert.equal(tokenIn(text), undefined);
    }
  });
});
