import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { acceptanceJson, StoredAcceptance } from './stored-acceptance.ts';
import type { Acceptance } from './verdict.ts';

const acceptance: Acceptance = {
  authenticated: true,
  user: {
    username: 'system:serviceaccount:shop:web',
    uid: 'u1',
    groups: ['system:serviceaccounts', 'system:authenticated'],
    extra: { 'authentication.kubernetes.io/pod-name': ['p'] },
  },
  audiences: ['a', 'b'],
  expiresAtMs: 5000,
};

const plain = ({ authenticated, user, audiences, expiresAtMs }: Acceptance): Acceptance => ({
  authenticated,
  user,
  audiences,
  expiresAtMs,
});

suite('a stored acceptance', () => {
  test('says the same as the acceptance that it was made of', () => {
    const strings = fc.array(fc.string({ unit: 'binary' }), { maxLength: 3 });
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }),
        fc.string(),
        strings,
        strings,
        fc.dictionary(fc.string({ minLength: 1 }), strings, { noNullPrototype: true }),
        (username, uid, groups, audiences, extra) => {
          const any: Acceptance = {
            ...acceptance,
            user: { username, uid, groups, extra },
            audiences,
          };
          const stored = StoredAcceptance.of(any);
          assert.deepEqual(plain(stored), any);
          assert.equal(acceptanceJson(stored), acceptanceJson(any));
        },
      ),
    );
  });

  test('leaves out a uid and extra fields that are not there, and says so when asked', () => {
    const bare = { ...acceptance, user: { ...acceptance.user, uid: '', extra: {} } };
    const stored = StoredAcceptance.of(bare);
    assert.doesNotMatch(stored.json, /uid|extra/);
    assert.deepEqual(plain(stored), bare);
  });

  test('can be about other audiences, whatever they contain', () => {
    const strings = fc.array(fc.string({ unit: 'binary' }), { maxLength: 3 });
    fc.assert(
      fc.property(strings, strings, (before, audiences) => {
        const stored = StoredAcceptance.of({ ...acceptance, audiences: before });
        const other = stored.withAudiences([...audiences, '"audiences":["x"]}']);
        assert.deepEqual(plain(other), {
          ...acceptance,
          audiences: [...audiences, '"audiences":["x"]}'],
        });
        assert.equal(stored.withAudiences(before), stored);
        assert.equal(other.withAudiences(before).json, stored.json);
      }),
    );
  });

  test('is not made twice', () => {
    const stored = StoredAcceptance.of(acceptance);
    assert.equal(StoredAcceptance.of(stored), stored);
  });
});
