import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { unverifiedClaims } from './unverified-claims.ts';

const encode = (text: string): string => Buffer.from(text).toString('base64url');

suite('the claims of a token that is not verified', () => {
  test('are read, whatever its signature', () => {
    for (const signature of ['', 'c2ln'])
      assert.deepEqual(unverifiedClaims(`${encode('{}')}.${encode('{"iss":"a"}')}.${signature}`), {
        iss: 'a',
      });
  });

  for (const [name, token] of [
    ['two parts', `a.${encode('{}')}`],
    ['four parts', `a.${encode('{}')}.b.c`],
    ['another alphabet', `a.${encode('{}')}.+/`],
    ['claims that are no JSON', `a.${encode('{')}.b`],
    ['a list as claims', `a.${encode('[]')}.b`],
    ['too many claims', `a.${encode(`{"a":[${'1,'.repeat(1000)}1]}`)}.b`],
    ['claims nested too deeply', `a.${encode(`{"a":${'['.repeat(600)}${']'.repeat(600)}}`)}.b`],
    ['nothing', ''],
  ] as const) {
    test(`are none of ${name}`, () => assert.equal(unverifiedClaims(token), undefined));
  }
});
