import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { KubeRequest, KubeResponse } from '../kube-client.ts';
import { isUrgent, nextLookMs, renewAtMs, retryAfterMs } from './renewal-plan.ts';
import { RenewalProblem, renewToken } from './renew-token.ts';
import { claimsOf, type TokenClaims } from './token-claims.ts';
import { hour, tokenOf } from './test-credentials.ts';

const settings = { intervalMs: hour, durationSeconds: 604_800, renewBeforeMs: 48 * hour };

suite('a token is renewed', () => {
  test('48 hours before its expiry', () => {
    assert.equal(renewAtMs({ issuedAtMs: 0, expiresAtMs: 168 * hour }, settings), 120 * hour);
    assert.equal(
      renewAtMs({ issuedAtMs: undefined, expiresAtMs: 168 * hour }, settings),
      120 * hour,
    );
  });

  test('after half of its life, where the API server granted less', () => {
    assert.equal(renewAtMs({ issuedAtMs: 0, expiresAtMs: hour }, settings), hour / 2);
    assert.equal(renewAtMs({ issuedAtMs: 0, expiresAtMs: 96 * hour }, settings), 48 * hour);
  });

  test('never within 30 seconds, however short its life is', () => {
    assert.equal(renewAtMs({ issuedAtMs: 0, expiresAtMs: 1000 }, settings), 30_000);
    assert.equal(renewAtMs({ issuedAtMs: hour, expiresAtMs: 0 }, settings), hour + 30_000);
  });

  test('never, if it does not expire', () => {
    assert.equal(renewAtMs({ issuedAtMs: 0, expiresAtMs: undefined }, settings), undefined);
    assert.equal(nextLookMs(undefined, 0, settings), hour);
  });

  test('at the next look, which is never later than the renewal', () => {
    assert.equal(nextLookMs(120 * hour, 0, settings), hour);
    assert.equal(nextLookMs(hour / 2, 0, settings), hour / 2);
    assert.equal(nextLookMs(0, hour, settings), 1_000);
  });
});

suite('a failed renewal', () => {
  test('is retried with back-off and jitter, for at most 15 minutes', () => {
    assert.equal(retryAfterMs(1, undefined, 0), 5_000);
    assert.equal(retryAfterMs(1, undefined, 1), 10_000);
    assert.equal(retryAfterMs(2, undefined, 1), 20_000);
    assert.equal(retryAfterMs(1000, undefined, 1), 15 * 60_000);
  });

  test('waits as long as the API server asks, within limits', () => {
    assert.equal(retryAfterMs(1, 60_000, 0), 60_000);
    assert.equal(retryAfterMs(1, 365 * 24 * hour, 0), 15 * 60_000);
  });

  test('is urgent when half of the time for renewals has passed', () => {
    const life = { issuedAtMs: 0, expiresAtMs: 168 * hour };
    assert.equal(isUrgent(life, settings, 143 * hour), false);
    assert.equal(isUrgent(life, settings, 144 * hour), true);
    assert.equal(isUrgent({ issuedAtMs: 0, expiresAtMs: undefined }, settings, 1e15), false);
  });
});

suite('a TokenRequest', () => {
  const { signal } = new AbortController();
  const current = claimsOf(tokenOf(0, hour)) as TokenClaims;
  const fake = (status: number, body: unknown, headers: Record<string, string> = {}) => {
    const requests: KubeRequest[] = [];
    return {
      requests,
      request: async (request: KubeRequest): Promise<KubeResponse> => {
        requests.push(request);
        const text = typeof body === 'string' ? body : JSON.stringify(body);
        return { status, headers, body: Buffer.from(text) };
      },
    };
  };
  const problem = (expected: string, text: RegExp) => (error: unknown) => {
    assert.ok(error instanceof RenewalProblem);
    assert.equal(error.reason, expected);
    assert.match(error.message, text);
    return true;
  };

  test('asks for the same ServiceAccount, audiences and bound object', async () => {
    const renewed = tokenOf(hour, 168 * hour);
    const client = fake(201, { status: { token: renewed } });
    const bound = claimsOf(
      tokenOf(0, hour, { 'kubernetes.io': { secret: { name: 's', uid: 'u' } } }),
    );
    const answer = await renewToken(client, bound, 604_800, signal);
    assert.equal(answer.token, renewed);
    const [request] = client.requests;
    assert.equal(request?.path, '/api/v1/namespaces/kube-fed/serviceaccounts/hansa/token');
    assert.deepEqual(request?.body, {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: {
        audiences: ['https://kubernetes.default.svc'],
        expirationSeconds: 604_800,
        boundObjectRef: { apiVersion: 'v1', kind: 'Secret', name: 's', uid: 'u' },
      },
    });
  });

  test('of a legacy token leaves the audiences to the API server', async () => {
    const client = fake(201, { status: { token: tokenOf(hour, hour) } });
    await renewToken(client, { ...current, audiences: [] }, 10, signal);
    assert.match(JSON.stringify(client.requests[0]?.body), /"spec":\{"expirationSeconds":600\}/);
  });

  test('is not sent for a token that is not of a ServiceAccount', async () => {
    const client = fake(201, {});
    const user = claimsOf(tokenOf(0, hour, { sub: 'alice' }));
    for (const claims of [user, undefined]) {
      await assert.rejects(
        renewToken(client, claims, 600, signal),
        problem('NotRenewable', /not one of a ServiceAccount/),
      );
    }
    assert.equal(client.requests.length, 0);
  });

  const answers: readonly [number, string, RegExp][] = [
    [401, 'Refused', /HTTP 401.*set a new one/],
    [403, 'NotAllowed', /resourceNames \["hansa"\], verbs \["create"\]/],
    [404, 'ServiceAccountGone', /kube-fed\/hansa/],
    [422, 'RenewalFailed', /HTTP 422/],
    [429, 'RenewalFailed', /HTTP 429/],
    [500, 'RenewalFailed', /HTTP 500/],
  ];
  for (const [status, expected, text] of answers) {
    test(`that is answered with ${status} fails as ${expected}`, async () => {
      await assert.rejects(
        renewToken(fake(status, '{}'), current, 600, signal),
        problem(expected, text),
      );
    });
  }

  test('carries Retry-After', async () => {
    for (const [value, expected] of [
      ['7', 7000],
      ['soon', undefined],
      ['-1', undefined],
      ['999999999', 3_600_000],
    ] as const) {
      await assert.rejects(
        renewToken(fake(503, '', { 'retry-after': value }), current, 600, signal),
        (error: RenewalProblem) => error.retryAfterMs === expected,
      );
    }
  });

  test('fails where the answer holds no token of the ServiceAccount', async () => {
    const other = tokenOf(0, hour, { sub: 'system:serviceaccount:kube-fed:other' });
    for (const body of [
      'garbage',
      'null',
      '[]',
      { status: null },
      { status: { token: 7 } },
      { status: { token: 'opaque' } },
      { status: { token: 'two words' } },
      { status: { token: other } },
    ]) {
      await assert.rejects(renewToken(fake(201, body), current, 600, signal), (error: Error) => {
        assert.ok(error instanceof RenewalProblem);
        assert.equal(error.reason, 'RenewalFailed');
        assert.ok(!error.message.includes(other));
        return true;
      });
    }
  });
});
