import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { readRelationships } from './read-relationships.ts';
import { readRecords, recordKey } from './sidecar-record.ts';
import { relationship } from './test-sidecar-scene.ts';

const whole = {
  trustDomain: 'a.example',
  staleAfterSeconds: 3600,
  withholdStaleBundles: true,
  adoptExisting: true,
  relationships: [
    relationship('b.example', { bundle: '{}' }),
    {
      trustDomain: 'c.example',
      bundleEndpointURL: 'https://c/',
      profile: 'https_web',
      from: 'SpireServer',
    },
  ],
};
const read = (value: unknown) => readRelationships(JSON.stringify(value));
const first = (fields: object) => ({
  ...whole,
  relationships: [{ ...relationship('b.example'), ...fields }],
});

suite('the request to a sidecar', () => {
  test('is read as the controller wrote it', () => {
    assert.deepEqual(read(whole).document, whole);
    const limited = { ...whole, namespaces: ['web'] };
    assert.deepEqual(read(limited).document, limited);
    assert.deepEqual(read({ ...whole, namespaces: [] }).document?.namespaces, []);
  });

  for (const [what, value, problem] of [
    ['no object', [], /not an object/],
    ['no trust domain', { ...whole, trustDomain: 'A B' }, /trustDomain/],
    ['no time', { ...whole, staleAfterSeconds: '1h' }, /staleAfterSeconds/],
    ['a time of zero', { ...whole, staleAfterSeconds: 0 }, /staleAfterSeconds/],
    ['no list', { ...whole, relationships: {} }, /not a list/],
    ['namespaces that are no list', { ...whole, namespaces: 'web' }, /namespaces/],
    ['a namespace that is no name', { ...whole, namespaces: ['a b'] }, /namespaces/],
    ['a namespace of another type', { ...whole, namespaces: [1] }, /namespaces/],
    [
      'too many namespaces',
      { ...whole, namespaces: Array.from({ length: 10_001 }, () => 'a') },
      /namespaces/,
    ],
    ['too many', { ...whole, relationships: Array.from({ length: 1001 }, () => ({})) }, /too long/],
    ['the own trust domain', first({ trustDomain: 'a.example' }), /trust domain of this server/],
    ['one twice', { ...whole, relationships: [first({}), first({})] }, /relationships\[0\]/],
    ['a URL without TLS', first({ bundleEndpointURL: 'http://b/' }), /https URL/],
    ['a URL with a password', first({ bundleEndpointURL: 'https://a:b@c/' }), /https URL/],
    ['an unknown profile', first({ profile: 'http' }), /profile/],
    ['no SPIFFE ID', first({ endpointSpiffeID: 'x' }), /SPIFFE ID/],
    ['a huge bundle', first({ bundle: 'x'.repeat(300_000) }), /bundle/],
  ] as const) {
    test(`with ${what} is refused as a whole`, () => {
      const { document, problem: found } = read(value);
      assert.equal(document, undefined);
      assert.match(found ?? '', problem);
    });
  }

  test('of any text never throws', () => {
    assert.match(readRelationships(undefined).problem ?? '', /no relationships.json/);
    assert.match(readRelationships('{').problem ?? '', /not JSON/);
    fc.assert(fc.property(fc.jsonValue(), (value) => void read(value)));
  });
});

test('records that are broken, or under another key, are left out', () => {
  const record = {
    trustDomain: 'b.example',
    bundleEndpointURL: 'https://b/',
    profile: 'https_web',
    owned: true,
    since: '2026-01-01T00:00:00Z',
  };
  const key = recordKey('b.example');
  assert.deepEqual(readRecords({ [key]: JSON.stringify(record) }).get('b.example'), record);
  assert.equal(readRecords({ other: JSON.stringify(record) }).size, 0);
  for (const text of ['', '{', '[]', JSON.stringify({ ...record, since: 'x' })]) {
    assert.equal(readRecords({ [key]: text }).size, 0);
  }
  fc.assert(fc.property(fc.jsonValue(), (value) => void readRecords({ x: JSON.stringify(value) })));
});
