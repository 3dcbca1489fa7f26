import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TrustDomain } from '../../../api/values/trust-domain.ts';
import { Bundle, maxAuthorities } from './bundle.ts';
import { parseCertificatesPem } from '../x509/pem.ts';
import { forgeRoot } from '../x509/test-forge.ts';

const lubeck = TrustDomain.parse('lubeck.example');
const one = forgeRoot('lubeck.example').certificate;
const two = forgeRoot('lubeck.example').certificate;

test('the hash depends on the authorities and not on their order or repetition', () => {
  const { hash } = new Bundle(lubeck, [one, two]);
  assert.equal(new Bundle(lubeck, [two, one, two]).hash, hash);
  assert.notEqual(new Bundle(lubeck, [one]).hash, hash);
  assert.notEqual(new Bundle(TrustDomain.parse('bruges.example'), [one, two]).hash, hash);
});

test('the PEM holds every authority once', () => {
  const { pem } = new Bundle(lubeck, [one, two, one]);
  const read = parseCertificatesPem(pem, 10).map(({ fingerprint }) => fingerprint);
  assert.deepEqual(read, [one.fingerprint, two.fingerprint]);
});

test('more authorities than a rotation needs are refused', () => {
  const many = Array.from({ length: maxAuthorities + 1 }, () => forgeRoot('a').certificate);
  assert.throws(() => new Bundle(lubeck, many), RangeError);
});
