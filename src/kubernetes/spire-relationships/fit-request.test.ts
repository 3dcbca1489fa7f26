import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { fitRequest } from './fit-request.ts';
import type { Relationship } from './parse-relationship.ts';
import { type RelationshipsDocument, requestText } from './sidecar-contract.ts';

/** Of all values of a ConfigMap with their keys, as the API server counts. */
const mostMapBytes = 1024 * 1024;

const relationship = (trustDomain: string, more: Partial<Relationship> = {}): Relationship => ({
  trustDomain,
  bundleEndpointURL: `https://${trustDomain}/`,
  profile: 'https_web',
  from: 'SpireServer',
  ...more,
});

const request = (
  relationships: readonly Relationship[],
  more: Partial<RelationshipsDocument> = {},
): RelationshipsDocument => ({
  trustDomain: 'a.example',
  staleAfterSeconds: 3600,
  withholdStaleBundles: false,
  relationships,
  held: [],
  ...more,
});

const sizeOf = (document: RelationshipsDocument): number =>
  Buffer.byteLength(requestText(document)) + 100;
const namesIn = (list: readonly { readonly trustDomain: string }[]): readonly string[] =>
  list.map(({ trustDomain }) => trustDomain);

suite('the request to a sidecar', () => {
  test('that fits stays as it is', () => {
    const document = request([relationship('b.example', { bundle: '{}' })]);
    assert.deepEqual(fitRequest(document), { document, problems: [] });
  });

  test('loses bundles that do not fit, and no relationship', () => {
    const list = Array.from({ length: 50 }, (_, at) =>
      relationship(`t${at}.example`, { bundle: '"'.repeat(128 * 1024) }),
    );
    const { document, problems } = fitRequest(request(list));
    assert.ok(sizeOf(document) <= mostMapBytes);
    assert.deepEqual(namesIn(document.relationships), namesIn(list));
    const withBundle = document.relationships.filter(({ bundle }) => bundle !== undefined);
    assert.ok(withBundle.length > 0);
    assert.equal(problems.length, 50 - withBundle.length);
    assert.match(problems[0] ?? '', /^SpireServer: the bundle of t\d+\.example is not handed/);
  });

  test('holds relationships of objects before those of the SpireServer', () => {
    const long = { bundleEndpointURL: `https://x/${'p'.repeat(2000)}` };
    const ours = Array.from({ length: 50 }, (_, at) => relationship(`z${at}.example`, long));
    const theirs = Array.from({ length: 950 }, (_, at) =>
      relationship(`a${at}.example`, { ...long, from: 'ClusterFederatedTrustDomain x' }),
    );
    const namespaces = Array.from({ length: 2000 }, (_, at) => `${at}-`.padEnd(63, 'n'));
    const { document } = fitRequest(request([...theirs, ...ours], { namespaces }));
    assert.ok(sizeOf(document) <= mostMapBytes);
    const kept = new Set(namesIn(document.relationships));
    assert.ok(namesIn(ours).every((name) => kept.has(name)));
    assert.ok(document.held.length > 0);
    assert.equal(document.held.length + document.relationships.length, 1000);
  });
});
