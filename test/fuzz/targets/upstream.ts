// Fuzz target for the answers of API servers to TokenReviews. Whatever the answer, nobody becomes another user
// or a member of another group than the claims say.

import assert from 'node:assert/strict';
import {
  readUpstreamAnswer,
  UnacceptableAnswer,
} from '../../../src/auth/forward/upstream-answer.ts';
import type { Acceptance } from '../../../src/auth/review/verdict.ts';
import { HansaError } from '../../../src/core/errors/error.ts';
import type { Target } from '../target.ts';

const question = { token: 'TOKEN', audiences: ['a', 'b'] };
const acceptance: Acceptance = {
  authenticated: true,
  user: {
    username: 'system:serviceaccount:shop:web',
    uid: '1',
    groups: ['system:serviceaccounts', 'system:serviceaccounts:shop', 'system:authenticated'],
    extra: { 'authentication.kubernetes.io/pod-name': ['web-1'] },
  },
  audiences: ['a'],
  expiresAtMs: 1,
};

const words = [
  'authentication.k8s.io/v1',
  'TokenReview',
  'TOKEN',
  'a',
  'b',
  'c',
  'true',
  '__proto__',
  'status',
  'authenticated',
  'user',
  'username',
  'uid',
  'groups',
  'extra',
  'audiences',
  'error',
  'system:masters',
  'system:authenticated',
  'system:admin',
  '\u001b[2J',
  ...acceptance.user.groups,
];

/** Throws a HansaError for an answer that is not accepted. */
function readAndCheck(input: Buffer): void {
  let verdict;
  try {
    verdict = readUpstreamAnswer(input, question, { ...acceptance, audiences: ['a', 'c'] });
  } catch (error) {
    if (!(error instanceof UnacceptableAnswer)) throw error;
    throw new HansaError('HANSA_UNAVAILABLE', error.message);
  }
  if (!verdict.authenticated) {
    assert.ok(!/\p{Cc}|TOKEN/u.test(verdict.error ?? ''), 'the text is not clean');
    return;
  }
  const { extra, ...user } = verdict.user;
  assert.deepEqual({ ...user, extra: undefined }, { ...acceptance.user, extra: undefined });
  for (const [key, value] of Object.entries(extra)) {
    assert.deepEqual(value, acceptance.user.extra[key]);
  }
  assert.deepEqual([...new Set(verdict.audiences)], ['a']);
}

export const upstreamTargets: readonly Target[] = [
  {
    name: 'upstream-token-review',
    grammar: 'json',
    dictionary: words,
    maxBytes: 70_000,
    run: readAndCheck,
  },
  {
    name: 'upstream-token-review-protobuf',
    // The envelope begins with bytes that are no protobuf.
    grammar: 'bytes',
    dictionary: ['k8s\0', '\b\u0001', ...words],
    maxBytes: 70_000,
    run: readAndCheck,
  },
];
