import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import type { JsonRecord } from '../../core/json/is-record.ts';
import { claimsProblem } from './claims-problem.ts';
import { decodeClaims, type TokenClaims } from './decode-claims.ts';

function decode(json: string): TokenClaims | string {
  return decodeClaims(Buffer.from(json), JSON.parse(json) as JsonRecord);
}

function expiryOf(json: string): number | undefined | string {
  const claims = decode(`{"exp":${json}}`);
  return typeof claims === 'string' ? claims : claims.expiry;
}

suite('a time in the claims', () => {
  const past = -(2 ** 63);
  const samples: readonly (readonly [string, number | undefined])[] = [
    ['1.9', 1],
    ['-1.9', -1],
    ['1e10', 1e10],
    ['9007199254740993', 9007199254740992],
    // The last second that Go's calendar can hold, and the next number.
    ['9223371974719178752', 9223371974719178752],
    ['9223371974719179776', past],
    ['9223372036854775807', past],
    ['1e300', past],
    ['-1e300', past],
    ['null', undefined],
  ];
  for (const [json, seconds] of samples) {
    test(`of ${json} is that of Go`, () => assert.equal(expiryOf(json), seconds));
  }

  test('that no float64 can hold is refused', () => {
    assert.match(String(expiryOf('1e999')), /expected number value to unmarshal NumericDate/);
  });
});

suite('of several problems in the claims, the answer names the one that go-jose names', () => {
  const cannot = (kind: string, type: string) =>
    `json: cannot unmarshal ${kind} into Go value of type ${type}`;
  const date = 'go-jose/go-jose/jwt: expected number value to unmarshal NumericDate';
  const audience = 'go-jose/go-jose/jwt: expected string or array value to unmarshal to Audience';
  const duplicate = (key: string) => `json: duplicate key '${key}' in object`;
  const samples: readonly (readonly [string, string])[] = [
    ['{"sub":true,"jti":[]}', cannot('bool', 'string')],
    ['{"jti":[],"sub":true}', cannot('array', 'string')],
    ['{"sub":true,"jti":1}', cannot('number', 'string')],
    ['{"sub":true,"exp":"x"}', date],
    ['{"exp":"x","aud":1}', date],
    ['{"aud":1,"exp":"x"}', audience],
    ['{"exp":"x","a":1,"a":2}', date],
    ['{"a":1,"a":2,"exp":"x"}', duplicate('a')],
    ['{"aud":[{"a":1,"a":2}]}', duplicate('a')],
    ['{"aud":[1e999]}', cannot('number 1e999', 'float64')],
    ['{"kubernetes.io":1,"sub":true}', cannot('bool', 'string')],
    ['{"kubernetes.io":{"pod":[],"namespace":1}}', cannot('number', 'string')],
    ['{"kubernetes.io":{"pod":[],"node":true}}', cannot('array', 'serviceaccount.ref')],
    ['{"kubernetes.io":{"pod":{"uid":1},"warnafter":"x"}}', cannot('number', 'string')],
    ['{"kubernetes.io":{"node":{"uid":"a","uid":"b"}}}', duplicate('uid')],
    [
      '{"iss":"kubernetes/serviceaccount","kubernetes.io/serviceaccount/namespace":[]}',
      cannot('array', 'string'),
    ],
  ];
  for (const [json, problem] of samples) test(json, () => assert.equal(decode(json), problem));
});

suite('claims without a problem', () => {
  for (const json of [
    '{"x":{"a":1,"a":2}}',
    '{"a.b":1,"a":{"b":1,"b":2}}',
    '{"iss":"kubernetes/serviceaccount","kubernetes.io":{"pod":1,"pod":2}}',
    '{"sub":null,"exp":null,"kubernetes.io":null}',
    '{ "kubernetes.io" : { "pod" : null } }',
  ]) {
    test(`${json} are decoded`, () => assert.equal(typeof decode(json), 'object'));
  }
});

test('claims are decoded, or a problem says why not', () => {
  const value = fc.oneof(
    fc.constantFrom(null, true, 1, 'a', [], ['a'], [1], {}, { name: 'a' }, { uid: 1 }),
    fc.dictionary(
      fc.constantFrom('pod', 'namespace', 'warnafter', 'serviceaccount'),
      fc.jsonValue(),
    ),
  );
  const key = fc.constantFrom('iss', 'aud', 'exp', 'jti', 'sub', 'kubernetes.io', 'x');
  fc.assert(
    fc.property(fc.array(fc.tuple(key, value)), (members) => {
      const json = `{${members.map((pair) => pair.map((part) => JSON.stringify(part)).join(':')).join(',')}}`;
      const decoded = decode(json);
      const { iss } = JSON.parse(json) as { iss?: unknown };
      const isText = iss === undefined || iss === null || typeof iss === 'string';
      const problem = claimsProblem(Buffer.from(json), false);
      // The issuer is read before, and never has another type here.
      if (isText) assert.equal(typeof decoded === 'string' ? decoded : undefined, problem);
    }),
  );
});
