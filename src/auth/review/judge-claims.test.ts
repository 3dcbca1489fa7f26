import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { suite, test } from 'node:test';
import { judgeByKeys, judgeClaims } from './judge-claims.ts';
import { readToken, type SignedToken } from './read-token.ts';
import { type Claims, keySetOf, signToken } from './test-service-account-tokens.ts';

const issuer = 'https://kubernetes.default.svc';
const key = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const cluster = { apiAudiences: [issuer, 'api'] };
const now = 1_700_000_000;

const own = { namespace: 'shop', serviceaccount: { name: 'web', uid: 'u1' } };
const claims: Claims = {
  aud: ['reports', 'api'],
  exp: now + 600,
  iat: now,
  iss: issuer,
  jti: 'one',
  'kubernetes.io': own,
  nbf: now,
  sub: 'system:serviceaccount:shop:web',
};

function signed(changed: Claims = {}): SignedToken {
  const token = signToken({ key, claims: { ...claims, ...changed } });
  const result = readToken(token, keySetOf(key), issuer);
  assert.ok(result.type === 'signed');
  return result.token;
}

function errorOf(token: SignedToken, asked: readonly string[] = [], atMs = now * 1000) {
  const verdict = judgeByKeys(token, cluster, asked, atMs);
  assert.ok(!verdict.authenticated, 'the token is accepted');
  return verdict.error;
}

suite('the user', () => {
  test('is rebuilt from the claims', () => {
    assert.deepEqual(judgeByKeys(signed(), cluster, [], now * 1000), {
      authenticated: true,
      user: {
        username: 'system:serviceaccount:shop:web',
        uid: 'u1',
        groups: ['system:serviceaccounts', 'system:serviceaccounts:shop', 'system:authenticated'],
        extra: { 'authentication.kubernetes.io/credential-id': ['JTI=one'] },
      },
      audiences: ['api'],
      expiresAtMs: (now + 600) * 1000,
    });
  });

  test('does not depend on sub, nor on claims that Kubernetes does not know', () => {
    const token = signed({ sub: 'system:admin', groups: ['system:masters'], email: 'a@b.c' });
    const verdict = judgeByKeys(token, cluster, [], now * 1000);
    assert.ok(verdict.authenticated);
    assert.equal(verdict.user.username, 'system:serviceaccount:shop:web');
    assert.ok(!verdict.user.groups.includes('system:masters'));
  });

  test('has the pod and the node of a bound token, in the order of their keys', () => {
    const bound = {
      ...own,
      pod: { name: 'web-1', uid: 'p1' },
      node: { name: 'n1', uid: 'n-uid' },
    };
    const verdict = judgeByKeys(signed({ 'kubernetes.io': bound }), cluster, [], now * 1000);
    assert.ok(verdict.authenticated);
    assert.deepEqual(Object.entries(verdict.user.extra), [
      ['authentication.kubernetes.io/credential-id', ['JTI=one']],
      ['authentication.kubernetes.io/node-name', ['n1']],
      ['authentication.kubernetes.io/node-uid', ['n-uid']],
      ['authentication.kubernetes.io/pod-name', ['web-1']],
      ['authentication.kubernetes.io/pod-uid', ['p1']],
    ]);
  });

  test('has no extra without a jti', () => {
    const verdict = judgeByKeys(signed({ jti: undefined }), cluster, [], now * 1000);
    assert.deepEqual(verdict.authenticated && verdict.user.extra, {});
  });
});

suite('audiences', () => {
  const audiencesOf = (token: SignedToken, asked: readonly string[]) => {
    const verdict = judgeByKeys(token, cluster, asked, now * 1000);
    assert.ok(verdict.authenticated);
    return verdict.audiences;
  };

  test('are intersected, in the order of the question', () => {
    assert.deepEqual(audiencesOf(signed(), ['x', 'api', 'reports']), ['api', 'reports']);
  });

  test('are those of the API server for a token without', () => {
    assert.deepEqual(audiencesOf(signed({ aud: undefined }), []), [issuer, 'api']);
    assert.deepEqual(audiencesOf(signed({ aud: [] }), ['api']), ['api']);
  });

  test('that do not fit deny the token, quoted as Go quotes them', () => {
    assert.equal(
      errorOf(signed({ aud: 'a"b' }), ['x\n', 'y']),
      String.raw`[invalid bearer token, token audiences ["a\"b"] is invalid for the target audiences ["x\n" "y"]]`,
    );
  });

  test('are checked before the expiry', () => {
    assert.match(errorOf(signed({ exp: 1 }), ['x']) ?? '', /token audiences/);
  });
});

suite('times have a leeway of a minute', () => {
  const second = 1000;
  const cases = [
    ['nbf', now + 60, undefined],
    ['nbf', now + 61, 'service account token is not valid yet'],
    ['exp', now - 60, undefined],
    ['exp', now - 61, 'service account token has expired'],
    ['iat', now + 60, undefined],
    ['iat', now + 61, 'service account token is issued in the future'],
  ] as const;
  for (const [claim, value, error] of cases) {
    test(`${claim} ${value - now} s from now ${error ?? 'is accepted'}`, () => {
      const token = signed({ [claim]: value });
      if (error === undefined)
        assert.ok(judgeByKeys(token, cluster, [], now * second).authenticated);
      else assert.equal(errorOf(token), `[invalid bearer token, ${error}]`);
    });
  }

  test('a millisecond beyond the leeway is too late', () => {
    const token = signed({ exp: now });
    assert.ok(judgeByKeys(token, cluster, [], (now + 60) * second).authenticated);
    assert.match(errorOf(token, [], (now + 60) * second + 1) ?? '', /has expired/);
  });

  test('a token that is early and expired is not valid yet', () => {
    assert.match(errorOf(signed({ nbf: now + 100, exp: now - 100 })) ?? '', /not valid yet/);
  });
});

suite('a token that names no possible object', () => {
  const gone = '[invalid bearer token, service account token has been invalidated]';
  const cases = [
    ['no kubernetes.io', undefined, '[invalid bearer token, resource name may not be empty]'],
    [
      'no namespace',
      { serviceaccount: own.serviceaccount },
      '[invalid bearer token, the server could not find the requested resource]',
    ],
    [
      'a namespace that could change the user name',
      { ...own, namespace: 'a:b' },
      '[invalid bearer token, serviceaccounts "web" not found]',
    ],
    [
      'a name that could change the user name',
      { ...own, serviceaccount: { name: 'web:x', uid: 'u' } },
      '[invalid bearer token, serviceaccounts "web:x" not found]',
    ],
    ['no uid', { ...own, serviceaccount: { name: 'web' } }, gone],
    ['a pod without a name', { ...own, pod: { uid: 'p' } }, gone],
    ['a secret without a uid', { ...own, secret: { name: 's' } }, gone],
    ['a node without a uid', { ...own, node: { name: 'n' } }, gone],
  ] as const;
  for (const [what, kubernetes, error] of cases) {
    test(`is denied: ${what}`, () => {
      assert.equal(errorOf(signed({ 'kubernetes.io': kubernetes })), error);
    });
  }

  test('is left to the API server where it is asked', () => {
    const token = signed({ 'kubernetes.io': { ...own, pod: {} } });
    assert.ok(judgeClaims(token, cluster, [], now * 1000).authenticated);
  });
});

suite('a token that never expires', () => {
  const legacy: Claims = {
    aud: undefined,
    exp: undefined,
    nbf: undefined,
    iss: 'kubernetes/serviceaccount',
    'kubernetes.io/serviceaccount/namespace': 'shop',
    'kubernetes.io/serviceaccount/secret.name': 'web-token',
    'kubernetes.io/serviceaccount/service-account.name': 'web',
    'kubernetes.io/serviceaccount/service-account.uid': 'u1',
  };

  test('is denied by keys alone', () => {
    assert.match(errorOf(signed({ exp: undefined })) ?? '', /does not expire/);
    assert.match(errorOf(signed(legacy)) ?? '', /does not expire/);
  });

  test('is left to the API server where it is asked, and has no extra if it is a legacy one', () => {
    const verdict = judgeClaims(signed(legacy), cluster, [], now * 1000);
    assert.ok(verdict.authenticated);
    assert.deepEqual(verdict.user.extra, {});
    assert.deepEqual(verdict.audiences, [issuer, 'api']);
    assert.equal(verdict.expiresAtMs, Number.POSITIVE_INFINITY);
  });

  for (const [claim, error] of [
    ['sub', 'sub claim is missing'],
    ['kubernetes.io/serviceaccount/namespace', 'namespace claim is missing'],
    ['kubernetes.io/serviceaccount/secret.name', 'secretName claim is missing'],
    ['kubernetes.io/serviceaccount/service-account.name', 'serviceAccountName claim is missing'],
    ['kubernetes.io/serviceaccount/service-account.uid', 'serviceAccountUID claim is missing'],
  ] as const) {
    test(`is denied as a legacy one without ${claim}`, () => {
      const token = signed({ ...legacy, [claim]: undefined });
      assert.equal(errorOf(token), `[invalid bearer token, ${error}]`);
    });
  }

  test('is denied as a legacy one of another subject', () => {
    const token = signed({ ...legacy, sub: 'system:serviceaccount:shop:admin' });
    assert.equal(errorOf(token), '[invalid bearer token, sub claim is invalid]');
  });
});
