import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import type { Relationship } from './parse-relationship.ts';
import { namedTrustDomains, withoutRemoved } from './removed-trust.ts';

const relationship = (trustDomain: string, from = 'SpireServer'): Relationship => ({
  trustDomain,
  bundleEndpointURL: `https://${trustDomain}/`,
  profile: 'https_web',
  from,
});
const document = {
  trustDomain: 'a.example',
  staleAfterSeconds: 3600,
  withholdStaleBundles: false,
  relationships: [relationship('b.example'), relationship('o.example', 'an object')],
  held: [{ trustDomain: 'c.example', from: 'SpireServer' }],
};
const left = (spec: unknown): readonly string[] | undefined => {
  const named = namedTrustDomains({ spec });
  const reduced = named && withoutRemoved(document, named);
  return reduced && [...reduced.relationships, ...reduced.held].map((each) => each.trustDomain);
};
const naming = (...names: readonly unknown[]) => ({
  federation: { federatesWith: names.map((trustDomain) => ({ trustDomain })) },
});

suite('what a SpireServer removes', () => {
  test('is what it does not name, apart from what objects name', () => {
    assert.deepEqual(left(naming('b.example')), ['b.example', 'o.example']);
    assert.deepEqual(left(naming()), ['o.example']);
    assert.deepEqual(left({ federation: {} }), ['o.example']);
  });

  test('is nothing where it names everything, in whatever form', () => {
    assert.equal(left(naming('b.example', 'c.example', 7, 'X y')), undefined);
  });

  test('is everything without federation', () => {
    assert.deepEqual(left({}), []);
    assert.deepEqual(
      left({ federation: { enabled: false, ...naming('b.example').federation } }),
      [],
    );
  });

  test('is nothing where the form does not say what it names', () => {
    for (const spec of [
      undefined,
      'x',
      { federation: 'x' },
      { federation: { federatesWith: {} } },
    ]) {
      assert.equal(left(spec), undefined);
    }
  });

  test('is never more than the request has, for any form', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (spec) => {
        const names = ['b.example', 'o.example', 'c.example'];
        assert.ok((left(spec) ?? []).every((name) => names.includes(name)));
      }),
    );
  });
});
