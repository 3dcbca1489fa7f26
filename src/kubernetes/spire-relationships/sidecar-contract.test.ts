import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseStatusDocument } from './sidecar-contract.ts';

const one = {
  trustDomain: 'b.example',
  bundleEndpointURL: 'https://b.example/',
  profile: 'https_spiffe',
  lastRefresh: '2026-01-01T00:00:00Z',
  bundleSequence: 7,
  hasBundle: true,
  kept: false,
};
const document = { observedAt: '2026-01-01T00:00:01.5Z', relationships: [one] };
const parse = (value: unknown) => parseStatusDocument(JSON.stringify(value));

test('the status of a sidecar is read as it was written', () => {
  const whole = { ...document, spireVersion: '1.12.4', problem: 'no socket', excludedEntries: 3 };
  assert.deepEqual(parse(whole), whole);
  const held = { ...document, relationships: [{ ...one, withheld: true, foreign: true }] };
  assert.deepEqual(parse(held), held);
});

for (const [what, text] of [
  ['no text', undefined],
  ['no JSON', '{'],
  ['a list', '[]'],
  ['no time', JSON.stringify({ ...document, observedAt: 'now' })],
  ['no relationships', JSON.stringify({ observedAt: document.observedAt })],
  ['more than the limit', `"${'x'.repeat(2 * 1024 * 1024)}"`],
] as const) {
  test(`${what} is no status`, () => {
    assert.equal(parseStatusDocument(text), undefined);
  });
}

test('entries and fields of the wrong form are left out', () => {
  const { trustDomain, bundleEndpointURL, profile } = one;
  const bare = { trustDomain, bundleEndpointURL, profile, hasBundle: false, kept: false };
  const odd = {
    ...bare,
    withheld: 1,
    hasBundle: 'yes',
    lastRefresh: 'soon',
    bundleSequence: 1.5,
    lastError: 3,
  };
  const found = parse({
    ...document,
    relationships: [null, 'x', {}, { ...one, profile: 'x' }, odd],
  });
  assert.deepEqual(found?.relationships, [bare]);
});

test('counts of refreshes are read, and left out where they are no counts', () => {
  const good = { count: 3, errors: { connect: 1 }, durations: { counts: [1, 2], sum: 0.5 } };
  const read = (refreshes: unknown) =>
    parse({ ...document, relationships: [{ ...one, refreshes }] })?.relationships[0]?.refreshes;
  assert.deepEqual(read(good), good);
  for (const bad of [
    'x',
    { ...good, count: -1 },
    { ...good, count: 1.5 },
    { ...good, errors: { connect: 'many' } },
    { ...good, errors: { 'x"} 1\n': 1 } },
    { ...good, errors: Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`${at}`, 1])) },
    { ...good, durations: { counts: 'x', sum: 1 } },
    { ...good, durations: { counts: [-1], sum: 1 } },
    { ...good, durations: { counts: [1], sum: -1 } },
    { ...good, durations: undefined },
  ]) {
    assert.equal(read(bad), undefined, JSON.stringify(bad));
  }
});

test('texts bring no control characters to conditions and terminals', () => {
  const found = parse({
    ...document,
    problem: '\u001b[2Ja\nb',
    refusals: ['c\u0000d'],
    relationships: [{ ...one, lastError: 'e\r\u009bf' }],
  });
  const texts = [found?.problem, found?.refusals?.[0], found?.relationships[0]?.lastError];
  for (const text of texts) assert.doesNotMatch(text ?? '\n', /\p{Cc}/u);
});

test('long texts are cut', () => {
  const found = parse({ ...document, problem: 'x'.repeat(10_000) });
  assert.equal(found?.problem?.length, 2048);
});
