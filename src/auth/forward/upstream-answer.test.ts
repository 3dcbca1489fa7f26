import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import type { Acceptance, TokenQuestion } from '../review/verdict.ts';
import { issuer, revokedText, tokenReview, userOf } from './test-tokens.ts';
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

function read(body: unknown, asked = question, identity = claimed) {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
  return readUpstreamAnswer(bytes, asked, identity);
}

const answer = (status: unknown, asked = question) =>
  tokenReview(asked.audiences.length === 0 ? { token: asked.token } : asked, status);

suite('an accepted answer', () => {
  test('gives the user of the claims', () => {
    assert.deepEqual(read(answer(good)), acceptance);
  });

  test('may list groups in another order', () => {
    const groups = userOf().groups.toReversed();
    assert.deepEqual(read(answer({ ...good, user: { ...userOf(), groups } })), acceptance);
  });

  test('of an older API server has fewer extra fields', () => {
    const key = 'authentication.kubernetes.io/pod-name';
    const extra = { [key]: ['app-pod'] };
    const verdict = read(answer({ ...good, user: { ...userOf(), extra } }));
    assert.deepEqual(verdict, { ...acceptance, user: { ...userOf(), extra } });
    const { extra: _, ...without } = userOf();
    assert.deepEqual(read(answer({ ...good, user: without })), {
      ...acceptance,
      user: { ...userOf(), extra: {} },
    });
  });

  test('adds no extra field that the claims do not contain', () => {
    for (const key of ['example.com/admin', '__proto__', 'constructor', 'toString']) {
      const extra = JSON.parse(`{${JSON.stringify(key)}: ["true"]}`) as object;
      const user = {
        ...userOf(),
        extra: Object.fromEntries([...Object.entries(userOf().extra), ...Object.entries(extra)]),
      };
      assert.deepEqual(read(answer({ ...good, user })), acceptance);
    }
  });

  test('reports the audiences of the API server, where none was asked for', () => {
    assert.deepEqual(read(answer({ ...good, audiences: ['a', 'b'] })), {
      ...acceptance,
      audiences: ['a', 'b'],
    });
  });

  test('to a legacy token reports audiences that the token does not name', () => {
    const legacy = { ...acceptance, audiences: [] };
    const verdict = read(answer({ ...good, audiences: ['api'] }), question, legacy);
    assert.deepEqual(verdict, { ...acceptance, audiences: ['api'] });
  });

  test('reports those audiences that were asked for', () => {
    const asked = { token: 'TOKEN', audiences: ['x', 'b', 'a'] };
    const verdict = read(answer({ ...good, audiences: ['b', 'a'] }, asked), asked);
    assert.deepEqual(verdict, { ...acceptance, audiences: ['b', 'a'] });
  });
});

suite('a denial', () => {
  test('keeps the words of the API server', () => {
    assert.deepEqual(read(answer({ error: revokedText })), {
      authenticated: false,
      error: revokedText,
    });
  });

  for (const status of [{}, undefined, null, { authenticated: false }, { error: '' }]) {
    test(`needs no words: ${JSON.stringify(status)}`, () => {
      assert.deepEqual(read(answer(status)), { authenticated: false });
    });
  }

  test('ignores a user', () => {
    assert.deepEqual(read(answer({ user: { username: 'admin', groups: ['system:masters'] } })), {
      authenticated: false,
    });
  });

  test('contains no control characters, no token, and no more than 4096 characters', () => {
    const verdict = read(
      answer({ error: `a\u0000\n\r\u001b[31m\u0085\u2028b TO\nKEN${'x'.repeat(9000)}` }),
    );
    assert.ok(!verdict.authenticated);
    assert.match(verdict.error ?? '', /^a\[31mb \[token\]x+$/);
    assert.ok((verdict.error ?? '').length <= 4096);
  });

  test('shows no token in an error: with white space in the question, or cut at the end', () => {
    const token = 'eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJpIn0.c2lnbmF0dXJl';
    const spec = { token: `${token}\n`, audiences: ['a'] };
    for (const before of ['', 'x '.repeat(2030)]) {
      const verdict = readUpstreamAnswer(
        Buffer.from(
          JSON.stringify({ ...(answer({ error: `${before}bad ${token}` }) as object), spec }),
        ),
        spec,
        claimed,
      );
      assert.ok(!verdict.authenticated);
      assert.match(verdict.error ?? '', /bad \[tok/);
      assert.ok(!JSON.stringify(verdict).includes('eyJ'));
    }
  });
});

const masters = ['system:masters', 'system:authenticated'];
const refused: [string, unknown, RegExp][] = [
  ['no JSON', Buffer.from('<html>'), /not JSON/],
  ['nothing', Buffer.alloc(0), /not JSON/],
  ['cut off', Buffer.from(JSON.stringify(answer(good)).slice(0, -5)), /not JSON/],
  ['deeply nested', Buffer.from('['.repeat(5000)), /not JSON/],
  ['many values', Buffer.from(`[${'1,'.repeat(5000)}1]`), /too many values/],
  ['a list', [], /not a JSON object/],
  ['null', null, /not a JSON object/],
  ['a Status', { kind: 'Status', apiVersion: 'v1', status: 'Success' }, /not a TokenReview/],
  [
    'another version',
    { ...answer(good), apiVersion: 'authentication.k8s.io/v1beta1' },
    /not a TokenReview/,
  ],
  ['another kind', { ...answer(good), kind: 'SubjectAccessReview' }, /not a TokenReview/],
  ['no spec', { ...answer(good), spec: undefined }, /no spec/],
  ['another token', { ...answer(good), spec: { token: 'OTHER' } }, /echoes another token/],
  ['no token', { ...answer(good), spec: {} }, /echoes another token/],
  [
    'other audiences',
    { ...answer(good), spec: { token: 'TOKEN', audiences: ['x'] } },
    /echoes other audiences/,
  ],
  ['a status that is a text', answer('yes'), /status is not an object/],
  ['authenticated as text', answer({ ...good, authenticated: 'true' }), /not a boolean/],
  ['authenticated as number', answer({ ...good, authenticated: 1 }), /not a boolean/],
  ['an error that is an object', answer({ error: {} }), /status.error is not a text/],
  ['success with an error', answer({ ...good, error: 'but' }), /reports an error/],
  ['no user', answer({ authenticated: true, audiences: [issuer] }), /for no user/],
  ['another user', answer({ ...good, user: userOf('other') }), /another user/],
  ['no name', answer({ ...good, user: { ...userOf(), username: undefined } }), /another user/],
  [
    'the same user with another uid',
    answer({ ...good, user: { ...userOf(), uid: 'x' } }),
    /another uid/,
  ],
  ['system:masters', answer({ ...good, user: { ...userOf(), groups: masters } }), /other groups/],
  [
    'one more group',
    answer({ ...good, user: { ...userOf(), groups: [...userOf().groups, 'system:masters'] } }),
    /other groups/,
  ],
  [
    'a group in place of another',
    answer({
      ...good,
      user: { ...userOf(), groups: [...userOf().groups.slice(1), 'system:masters'] },
    }),
    /other groups/,
  ],
  [
    'a group twice',
    answer({
      ...good,
      user: { ...userOf(), groups: [...userOf().groups, 'system:authenticated'] },
    }),
    /other groups/,
  ],
  ['no groups', answer({ ...good, user: { ...userOf(), groups: [] } }), /other groups/],
  [
    'groups as text',
    answer({ ...good, user: { ...userOf(), groups: 'system:masters' } }),
    /groups are no texts/,
  ],
  [
    'extra as list',
    answer({ ...good, user: { ...userOf(), extra: [] } }),
    /extra is not an object/,
  ],
  [
    'another pod',
    answer({
      ...good,
      user: { ...userOf(), extra: { 'authentication.kubernetes.io/pod-name': ['x'] } },
    }),
    /contradicts/,
  ],
  [
    'extra values as text',
    answer({
      ...good,
      user: { ...userOf(), extra: { 'authentication.kubernetes.io/pod-name': 'x' } },
    }),
    /no lists/,
  ],
  [
    'audiences that the token does not name',
    answer({ ...good, audiences: ['admin'] }),
    /not asked for or not claimed/,
  ],
  ['audiences as numbers', answer({ ...good, audiences: [1] }), /no texts/],
];

suite('an answer is refused', () => {
  for (const [name, body, problem] of refused) {
    test(`with ${name}`, () => {
      assert.throws(
        () => read(body),
        (error) => error instanceof UnacceptableAnswer && problem.test(error.message),
      );
    });
  }

  const asked = { token: 'TOKEN', audiences: ['a', 'x'] };
  for (const audiences of [undefined, [], ['b'], ['a', issuer], ['x']]) {
    test(`with audiences ${JSON.stringify(audiences)} for the question about ["a","x"]`, () => {
      assert.throws(() => read(answer({ ...good, audiences }, asked), asked), UnacceptableAnswer);
    });
  }

  test('with more audiences than an API server has, for a legacy token', () => {
    const audiences = Array.from({ length: 65 }, (_, i) => `a${i}`);
    assert.throws(
      () => read(answer({ ...good, audiences }), question, { ...acceptance, audiences: [] }),
      UnacceptableAnswer,
    );
  });

  test('or gives exactly the claimed user, whatever it contains', () => {
    const value = fc.oneof(
      fc.constantFrom<unknown>(true, false, null, 'TOKEN', issuer, 'system:masters', ...masters),
      fc.constant(userOf()),
      fc.array(fc.constantFrom(...userOf().groups, 'system:masters')),
      fc.jsonValue(),
    );
    const body = fc.record({
      kind: fc.constant('TokenReview'),
      apiVersion: fc.constant('authentication.k8s.io/v1'),
      spec: fc.constant({ token: 'TOKEN' }),
      status: fc.record(
        {
          authenticated: fc.oneof(fc.constant(true), value),
          user: fc.record({
            username: fc.oneof(fc.constant(userOf().username), value),
            uid: fc.oneof(fc.constant(userOf().uid), value),
            groups: value,
            extra: value,
          }),
          audiences: value,
          error: value,
        },
        { requiredKeys: ['authenticated'] },
      ),
    });
    fc.assert(
      fc.property(body, (given) => {
        let verdict;
        try {
          verdict = read(given);
        } catch (error) {
          assert.ok(error instanceof UnacceptableAnswer);
          return;
        }
        if (!verdict.authenticated) return;
        const { username, uid, groups } = userOf();
        assert.deepEqual(
          { ...verdict.user, extra: undefined },
          { username, uid, groups, extra: undefined },
        );
        assert.ok(verdict.audiences.every((audience) => claimed.audiences.includes(audience)));
      }),
    );
  });
});
