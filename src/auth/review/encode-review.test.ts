import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { readEnvelope, readMessage } from '../../core/kube/protobuf.ts';
import { encodeReview } from './encode-review.ts';
import type { ReviewRequest } from './read-review.ts';
import type { Verdict } from './verdict.ts';

const request: ReviewRequest = {
  version: 'v1',
  question: { token: 'a.b.c', audiences: ['x', 'y'] },
  metadata: {},
};

const accepted: Verdict = {
  authenticated: true,
  user: {
    username: 'system:serviceaccount:shop:web',
    uid: 'u1',
    groups: ['system:serviceaccounts', 'system:authenticated'],
    extra: { 'authentication.kubernetes.io/credential-id': ['JTI=one'] },
  },
  audiences: ['x'],
  expiresAtMs: 0,
};

function jsonOf(asked: ReviewRequest, verdict: Verdict): unknown {
  const { contentType, body } = encodeReview(asked, verdict, 'json');
  assert.equal(contentType, 'application/json');
  return JSON.parse(body as string);
}

suite('an answer in JSON', () => {
  test('repeats the question and has the verdict as status', () => {
    assert.deepEqual(jsonOf(request, accepted), {
      kind: 'TokenReview',
      apiVersion: 'authentication.k8s.io/v1',
      metadata: {},
      spec: { token: 'a.b.c', audiences: ['x', 'y'] },
      status: {
        authenticated: true,
        user: accepted.authenticated && accepted.user,
        audiences: ['x'],
      },
    });
  });

  test('leaves out what is false or empty', () => {
    const asked = { ...request, question: { token: 't', audiences: [] } };
    assert.deepEqual(jsonOf(asked, { authenticated: false, error: 'no' }), {
      kind: 'TokenReview',
      apiVersion: 'authentication.k8s.io/v1',
      metadata: {},
      spec: { token: 't' },
      status: { user: {}, error: 'no' },
    });
    const anonymous = { username: 'u', uid: '', groups: [], extra: {} };
    const verdict = { ...accepted, user: anonymous };
    const { status } = jsonOf(asked, verdict) as { status: { user: unknown } };
    assert.deepEqual(status.user, { username: 'u', groups: [] });
  });

  test('is the same for the same verdict about another question', () => {
    const other = {
      ...request,
      version: 'v1beta1',
      question: { token: '"', audiences: [] },
    } as const;
    jsonOf(request, accepted);
    const answer = jsonOf(other, accepted) as Record<string, unknown>;
    assert.equal(answer['apiVersion'], 'authentication.k8s.io/v1beta1');
    assert.deepEqual(answer['spec'], { token: '"' });
    assert.deepEqual(answer['status'], (jsonOf(request, accepted) as typeof answer)['status']);
  });
});

test('an answer in protobuf has the fields of generated.proto', () => {
  const { contentType, body } = encodeReview(request, accepted, 'protobuf');
  assert.equal(contentType, 'application/vnd.kubernetes.protobuf');
  const { apiVersion, kind, raw } = readEnvelope(body as Buffer);
  assert.deepEqual([apiVersion, kind], ['authentication.k8s.io/v1', 'TokenReview']);
  const message = readMessage(raw, {
    2: ['spec', { 1: ['token', 'text'], 2: ['audiences', 'texts'] }],
    3: [
      'status',
      {
        2: [
          'user',
          {
            1: ['username', 'text'],
            2: ['uid', 'text'],
            3: ['groups', 'texts'],
            4: ['extra', { 1: ['key', 'text'], 2: ['value', { 1: ['items', 'texts'] }] }],
          },
        ],
        3: ['error', 'text'],
        4: ['audiences', 'texts'],
      },
    ],
  });
  assert.deepEqual(message, {
    spec: { token: 'a.b.c', audiences: ['x', 'y'] },
    status: {
      user: {
        username: 'system:serviceaccount:shop:web',
        uid: 'u1',
        groups: ['system:serviceaccounts', 'system:authenticated'],
        extra: {
          key: 'authentication.kubernetes.io/credential-id',
          value: { items: ['JTI=one'] },
        },
      },
      error: '',
      audiences: ['x'],
    },
  });
});
