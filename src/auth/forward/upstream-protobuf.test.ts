// Answers of API servers in protobuf. They are checked like those in JSON (upstream-answer.test.ts).

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { envelope, field } from '../../core/kube/test-protobuf.ts';
import type { Acceptance, TokenQuestion, Verdict } from '../review/verdict.ts';
import { issuer, protobufOf, revokedText, tokenReview, userOf } from './test-tokens.ts';
import { readUpstreamAnswer, UnacceptableAnswer } from './upstream-answer.ts';

const question: TokenQuestion = { token: 'TOKEN', audiences: [] };
const acceptance: Acceptance = {
  authenticated: true,
  user: userOf(),
  audiences: [issuer],
  expiresAtMs: 1,
};
const claimed: Acceptance = { ...acceptance, audiences: [issuer, 'a', 'b'] };
const good = { authenticated: true, user: userOf(), audiences: [issuer] };
const apiVersion = 'authentication.k8s.io/v1';

function read(body: Buffer, asked = question): Verdict {
  return readUpstreamAnswer(body, asked, claimed);
}

type Status = NonNullable<Parameters<typeof protobufOf>[0]['status']>;
const answer = (status: Status, spec = { token: 'TOKEN' }): Buffer =>
  protobufOf({ ...tokenReview(spec, undefined), status });

/** Written by the serializer of k8s.io/apimachinery v0.36.3, with managedFields. */
const byKubernetes = Buffer.from(
  [
    '6b3873000a270a1861757468656e7469636174696f6e2e6b38732e696f2f7631120b546f6b656e5265766965',
    '7712a3020a650a0012001a0022002a003200380042008a01520a0568616e736112065570646174651a186175',
    '7468656e7469636174696f6e2e6b38732e696f2f763132084669656c647356313a1b0a197b22663a73706563',
    '223a7b22663a746f6b656e223a7b7d7d7d4200120d0a05544f4b454e1201611201621aaa01080112a0010a1e',
    '73797374656d3a736572766963656163636f756e743a73686f703a7765621201311a1673797374656d3a7365',
    '72766963656163636f756e74731a1b73797374656d3a736572766963656163636f756e74733a73686f701a14',
    '73797374656d3a61757468656e7469636174656422300a2561757468656e7469636174696f6e2e6b75626572',
    '6e657465732e696f2f706f642d6e616d6512070a057765622d311a002201611a002200',
  ].join(''),
  'hex',
);

suite('an answer in protobuf', () => {
  test('is read as Kubernetes writes it', () => {
    const user = {
      username: 'system:serviceaccount:shop:web',
      uid: '1',
      groups: ['system:serviceaccounts', 'system:serviceaccounts:shop', 'system:authenticated'],
      extra: { 'authentication.kubernetes.io/pod-name': ['web-1'] },
    };
    const expected: Acceptance = { authenticated: true, user, audiences: ['a'], expiresAtMs: 1 };
    const asked = { token: 'TOKEN', audiences: ['a', 'b'] };
    assert.deepEqual(readUpstreamAnswer(byKubernetes, asked, expected), expected);
  });

  test('gives the user of the claims', () => {
    assert.deepEqual(read(answer(good)), acceptance);
  });

  test('reports the audiences that were asked for', () => {
    const asked = { token: 'TOKEN', audiences: ['x', 'b', 'a'] };
    assert.deepEqual(read(answer({ ...good, audiences: ['b', 'a'] }, asked), asked), {
      ...acceptance,
      audiences: ['b', 'a'],
    });
  });

  test('of an older API server has fewer extra fields', () => {
    const extra = { 'authentication.kubernetes.io/pod-name': ['app-pod'] };
    assert.deepEqual(read(answer({ ...good, user: { ...userOf(), extra } })), {
      ...acceptance,
      user: { ...userOf(), extra },
    });
  });

  test('adds no extra field that the claims do not contain', () => {
    for (const key of ['example.com/admin', '__proto__', 'constructor']) {
      const extra = Object.fromEntries([...Object.entries(userOf().extra), [key, ['true']]]);
      assert.deepEqual(read(answer({ ...good, user: { ...userOf(), extra } })), acceptance);
    }
  });

  test('denies in the words of the API server', () => {
    const denial = { authenticated: false, error: revokedText };
    assert.deepEqual(read(answer({ error: revokedText })), denial);
    // Go writes an empty user too.
    assert.deepEqual(read(answer({ error: revokedText, user: {} })), denial);
    assert.deepEqual(read(answer({})), { authenticated: false });
    assert.deepEqual(read(protobufOf(tokenReview(question, undefined) as never)), {
      authenticated: false,
    });
  });
});

const user = (change: Partial<ReturnType<typeof userOf>>) =>
  answer({ ...good, user: { ...userOf(), ...change } });
const group = 'system:masters';
const whole = answer(good);
const many = Buffer.concat(Array<Buffer>(3_000).fill(field(4, '')));
const spec = field(2, field(1, 'TOKEN'));

const refused: [string, Buffer, RegExp][] = [
  ['only the first bytes', Buffer.from('k8s\0'), /not JSON/],
  ['cut off', whole.subarray(0, -5), /not protobuf/],
  ['an illegal wire type', Buffer.concat([whole.subarray(0, 4), Buffer.of(11)]), /not protobuf/],
  ['JSON after the first bytes', Buffer.from('k8s\0{"kind":"TokenReview"}'), /not protobuf/],
  [
    'many empty values',
    envelope(apiVersion, 'TokenReview', Buffer.concat([spec, field(3, many)])),
    /too many values/,
  ],
  [
    'many unknown values',
    envelope(apiVersion, 'TokenReview', Buffer.concat([spec, many])),
    /too many values/,
  ],
  ['no type', envelope('', '', Buffer.concat([spec])), /not a TokenReview/],
  ['another kind', envelope('v1', 'Status', spec), /not a TokenReview/],
  [
    'another version',
    protobufOf({ ...tokenReview(question, undefined), apiVersion: `${apiVersion}beta1` } as never),
    /not a TokenReview/,
  ],
  ['no spec', envelope(apiVersion, 'TokenReview', field(3, '')), /no spec/],
  ['another token', answer(good, { token: 'OTHER' }), /echoes another token/],
  ['another user', answer({ ...good, user: userOf('other') }), /another user/],
  ['no user', answer({ authenticated: true, audiences: [issuer] }), /for no user/],
  ['an empty user', answer({ ...good, user: {} }), /another user/],
  ['another uid', user({ uid: 'x' }), /another uid/],
  ['system:masters', user({ groups: [group] }), /other groups/],
  ['one more group', user({ groups: [...userOf().groups, group] }), /other groups/],
  [
    'another pod',
    user({ extra: { 'authentication.kubernetes.io/pod-name': ['x'] } }),
    /contradicts/,
  ],
  ['another audience', answer({ ...good, audiences: ['admin'] }), /not asked for or not claimed/],
  ['success with an error', answer({ ...good, error: 'but' }), /reports an error/],
];

suite('an answer in protobuf is refused', () => {
  for (const [name, body, problem] of refused) {
    test(`with ${name}`, () => {
      assert.throws(
        () => read(body),
        (error) => error instanceof UnacceptableAnswer && problem.test(error.message),
      );
    });
  }

  test('or denies where the flag has another type than in Kubernetes', () => {
    const flag = field(1, 'yes');
    const status = Buffer.concat([flag, field(4, issuer)]);
    const body = envelope(apiVersion, 'TokenReview', Buffer.concat([spec, field(3, status)]));
    assert.deepEqual(read(body), { authenticated: false });
  });
});
