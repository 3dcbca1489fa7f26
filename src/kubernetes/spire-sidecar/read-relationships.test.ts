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
  held: [{ trustDomain: 'd.example', from: 'SpireServer' }],
};
const read = (value: unknown) => readRelationships(JSON.stringify(value));

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
    ['no list', { ...whole, relationships: {} }, /not a list/],
    ['no list of what is held', { ...whole, held: {} }, /not a list/],
  ] as const) {
    test(`with ${what} is refused as a whole`, () => {
      const { document, problem: found } = read(value);
      assert.equal(document, undefined);
      assert.match(found ?? '', problem);
    });
  }

  for (const [what, fields, refusal] of [
    ['a URL without TLS', { bundleEndpointURL: 'http://b/' }, /bundleEndpointUrl/],
    ['a URL with a password', { bundleEndpointURL: 'https://a:b@c/' }, /bundleEndpointUrl/],
    ['a port beyond 65535', { bundleEndpointURL: 'https://b:65536/' }, /bundleEndpointUrl/],
    ['a port that is no number', { bundleEndpointURL: 'https://b:8443x/' }, /bundleEndpointUrl/],
    ['half of an IPv6 address', { bundleEndpointURL: 'https://[::1/' }, /bundleEndpointUrl/],
    ['a broken escape', { bundleEndpointURL: 'https://b/%zz' }, /bundleEndpointUrl/],
    ['no IPv4 address', { bundleEndpointURL: 'https://256.1.1.1/' }, /bundleEndpointUrl/],
    ['an unknown profile', { profile: 'http' }, /bundleEndpointProfile/],
    ['no SPIFFE ID', { endpointSpiffeID: 'x' }, /endpointSpiffeId/],
    ['dots in its SPIFFE ID', { endpointSpiffeID: 'spiffe://b.example/../a' }, /endpointSpiffeId/],
    ['a huge bundle', { bundle: 'x'.repeat(300_000) }, /trustDomainBundle/],
  ] as const) {
    test(`with ${what} holds that trust domain, and uses the others`, () => {
      const { document, refusals = [] } = read({
        ...whole,
        relationships: [
          { ...relationship('b.example'), ...fields },
          ...whole.relationships.slice(1),
        ],
      });
      assert.deepEqual(
        document?.relationships.map(({ trustDomain }) => trustDomain),
        ['c.example'],
      );
      assert.deepEqual(
        document?.held.map(({ trustDomain }) => trustDomain),
        ['b.example', 'd.example'],
      );
      assert.equal(refusals.length, 1);
      assert.match(refusals[0] ?? '', /^relationships\[0\]\./);
      assert.match(refusals[0] ?? '', refusal);
    });
  }

  for (const [what, item] of [
    ['that is no object', 'b.example'],
    ['that names no trust domain', relationship('B example')],
    ['that names the trust domain of the server', relationship('a.example')],
  ] as const) {
    test(`leaves out an entry ${what}, and uses the others`, () => {
      const { document, refusals } = read({ ...whole, relationships: [item], held: [] });
      assert.deepEqual(document?.relationships, []);
      assert.deepEqual(document?.held, []);
      assert.equal(refusals?.length, 1);
    });
  }

  test('uses the first of two entries for one trust domain', () => {
    const two = [relationship('b.example'), relationship('b.example', { profile: 'https_web' })];
    const { document, refusals } = read({ ...whole, relationships: two });
    assert.deepEqual(document?.relationships, [relationship('b.example')]);
    assert.match(refusals?.join() ?? '', /^relationships\[1\]: b\.example is there twice$/);
  });

  test('holds what is beyond the limit', () => {
    const many = Array.from({ length: 1002 }, (_, at) => relationship(`t${at}.example`));
    const { document, refusals } = read({ ...whole, relationships: many, held: [] });
    assert.equal(document?.relationships.length, 1000);
    assert.deepEqual(
      document.held.map(({ trustDomain }) => trustDomain),
      ['t1000.example', 't1001.example'],
    );
    assert.equal(refusals?.length, 2);
  });

  for (const [what, namespaces] of [
    ['that are no list', 'web'],
    ['of which none is a name', ['a b', 1]],
  ] as const) {
    test(`with namespaces ${what} lets no namespace federate`, () => {
      const { document, refusals } = read({ ...whole, namespaces });
      assert.deepEqual(document?.namespaces, []);
      assert.match(refusals?.join() ?? '', /namespaces/);
    });
  }

  test('with too many namespaces uses as many as the site watches', () => {
    const namespaces = Array.from({ length: 10_001 }, () => 'a');
    const { document, refusals } = read({ ...whole, namespaces });
    assert.equal(document?.namespaces?.length, 10_000);
    assert.equal(refusals?.length, 1);
  });

  for (const staleAfterSeconds of ['1h', 0]) {
    test(`with the time ${staleAfterSeconds} uses an hour`, () => {
      const { document, refusals } = read({ ...whole, staleAfterSeconds });
      assert.equal(document?.staleAfterSeconds, 3600);
      assert.match(refusals?.join() ?? '', /staleAfterSeconds/);
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
