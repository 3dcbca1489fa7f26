// Fuzz targets for TokenReviews: bodies in both encodings, tokens, and the claims behind a signature.

import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { decodeClaims } from '../../../src/auth/review/decode-claims.ts';
import { encodeReview } from '../../../src/auth/review/encode-review.ts';
import { judgeByKeys, judgeClaims } from '../../../src/auth/review/judge-claims.ts';
import { maxReviewBytes, readReview } from '../../../src/auth/review/read-review.ts';
import { readToken } from '../../../src/auth/review/read-token.ts';
import { keySetOf } from '../../../src/auth/review/test-service-account-tokens.ts';
import { HansaError } from '../../../src/core/errors/error.ts';
import { isRecord } from '../../../src/core/json/is-record.ts';
import { protobufMediaType } from '../../../src/core/kube/protobuf.ts';
import type { Target } from '../target.ts';

const issuer = 'https://kubernetes.default.svc';
const cluster = { apiAudiences: [issuer] };
const keys = keySetOf(generateKeyPairSync('ec', { namedCurve: 'P-256' }));

/** Whatever can be read can be answered, and the answer can be read. */
function readAndAnswer(input: Buffer, contentType: string): void {
  const request = readReview(input, { contentType, version: 'v1' });
  const { body } = encodeReview(request, { authenticated: false, error: 'no' }, 'json');
  const again = readReview(Buffer.from(body as string), {
    contentType: 'application/json',
    version: 'v1',
  });
  assert.deepEqual(again.question.audiences.length, request.question.audiences.length);
  encodeReview(request, { authenticated: false }, 'protobuf');
}

const claimWords = [
  'iss',
  'sub',
  'aud',
  'exp',
  'nbf',
  'iat',
  'jti',
  'kubernetes.io',
  'namespace',
  'serviceaccount',
  'pod',
  'node',
  'secret',
  'name',
  'uid',
  'warnafter',
  issuer,
  'kubernetes/serviceaccount',
  'kubernetes.io/serviceaccount/secret.name',
  'system:serviceaccount:a:b',
  '__proto__',
];

export const reviewTargets: readonly Target[] = [
  {
    name: 'token-review-json',
    grammar: 'json',
    dictionary: ['apiVersion', 'authentication.k8s.io/v1', 'kind', 'TokenReview', 'spec', 'token'],
    maxBytes: maxReviewBytes,
    run: (input) => readAndAnswer(input, 'application/json'),
  },
  {
    name: 'token-review-protobuf',
    grammar: 'bytes',
    dictionary: ['k8s\0', 'TokenReview', 'authentication.k8s.io/v1'],
    maxBytes: 5_000,
    run: (input) => readAndAnswer(input, protobufMediaType),
  },
  {
    name: 'service-account-token',
    grammar: 'jws',
    dictionary: ['alg', 'kid', 'jwk', 'x5c', 'crit', 'none', 'HS256', 'ES256', ...claimWords],
    maxBytes: 70_000,
    run: (input) => {
      const { type } = readToken(input.toString('utf8'), keys, issuer);
      assert.notEqual(type, 'signed', 'a token of a key that never signed');
    },
  },
  {
    name: 'service-account-claims',
    grammar: 'json',
    dictionary: claimWords,
    maxBytes: 50_000,
    run: (input) => {
      let value: unknown;
      try {
        value = JSON.parse(input.toString('utf8'));
      } catch {
        throw new HansaError('HANSA_BAD_REQUEST', 'not JSON');
      }
      if (!isRecord(value)) return;
      const claims = decodeClaims(input, value);
      if (typeof claims === 'string') return;
      const { audiences, expiry = Number.POSITIVE_INFINITY } = claims;
      const token = { claims, audiences, text: '', expiresAtMs: expiry * 1000 };
      judgeClaims(token, cluster, [], 0);
      const verdict = judgeByKeys(token, cluster, audiences, 0);
      if (!verdict.authenticated) return;
      const { username, groups } = verdict.user;
      assert.match(username, /^system:serviceaccount:[-a-z0-9]+:[-.a-z0-9]+$/);
      for (const group of groups)
        assert.match(group, /^system:(?:serviceaccounts(?::[-a-z0-9]+)?|authenticated)$/);
    },
  },
];
