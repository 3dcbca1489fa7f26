import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readRefreshFailure, refreshAdvice } from './refresh-failure.ts';

/** As a SPIRE server wrote them. */
const fetching =
  'failed to refresh bundle: failed to fetch federated bundle from endpoint: failed to fetch bundle: Get "https://192.0.2.1:8443/": ';
const refreshing = 'failed to refresh bundle: failed to fetch federated bundle from endpoint: ';

for (const [message, name, cause] of [
  [`${fetching}dial tcp: lookup b.example on 192.0.2.53:53: no such host`, 'dns', 'dns'],
  [`${fetching}dial tcp: lookup b.example on 192.0.2.53:53: i/o timeout`, 'dns', 'dns'],
  [`${fetching}dial tcp 192.0.2.1:8443: connect: no route to host`, 'connect', 'connect'],
  [`${fetching}dial tcp 192.0.2.1:8443: connect: connection refused`, 'connect', 'connect'],
  [
    `${fetching}x509svid: could not verify leaf certificate: x509: certificate signed by unknown authority`,
    'identity',
    'unknown-authority',
  ],
  [
    `${fetching}tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 2026-01-02T00:00:00Z is after 2026-01-01T00:00:00Z`,
    'identity',
    'expired',
  ],
  [
    `${fetching}tls: failed to verify certificate: x509: certificate is valid for other.example, not b.example`,
    'identity',
    'other-name',
  ],
  [
    `${fetching}tls: failed to verify certificate: x509: cannot validate certificate for 192.0.2.1 because it doesn't contain any IP SANs`,
    'identity',
    'other-name',
  ],
  [`${fetching}unexpected ID "spiffe://x.example/y"`, 'identity', 'other-id'],
  [
    "failed to refresh bundle: can't perform SPIFFE Authentication: local copy of bundle not found",
    'identity',
    'not-bootstrapped',
  ],
  ['context deadline exceeded', 'unreachable', 'silent'],
  [`${refreshing}unexpected status 404 fetching bundle: not found`, 'http', 'http'],
  [
    `${refreshing}failed to decode bundle: invalid character '<' looking for beginning of value`,
    'malformed',
    'malformed',
  ],
  ['the endpoint serves the bundle of spiffe://c.example', 'malformed', 'misfit'],
  ['its bootstrap bundle cannot be used: it is not JSON', 'malformed', 'bootstrap'],
  ['something else', 'internal', 'unknown'],
] as const) {
  test(`"${message.slice(-40)}" is of the class ${name}`, () => {
    const found = readRefreshFailure(message);
    assert.deepEqual([found.class, found.cause], [name, cause]);
    assert.doesNotMatch(found.words, /failed to (?:refresh|fetch) /);
    for (const profile of ['https_spiffe', 'https_web'] as const) {
      const advice = refreshAdvice(found.cause, { trustDomain: 'b.example', profile });
      assert.equal(advice !== '', cause !== 'unknown');
    }
  });
}

test('advice follows words that end with a full stop like any others', () => {
  const sidecar = 'its bootstrap bundle cannot be used: it has no X.509 authority, only JWT-SVIDs.';
  assert.match(readRefreshFailure(sidecar).words, /only JWT-SVIDs$/);
});

test('what an endpoint sends decides nothing, and is not shown', () => {
  const body =
    'unexpected status 503 fetching bundle: x509: certificate signed by\nunknown authority';
  const found = readRefreshFailure(`${refreshing}${body}`);
  assert.equal(found.cause, 'http');
  assert.equal(found.words, 'unexpected status 503');
  const moved = fetching.replace('8443/', '8443/no%20such host');
  assert.equal(readRefreshFailure(`${moved}EOF`).cause, 'silent');
});

test('a certificate of an unknown authority needs a bootstrap with https_spiffe alone', () => {
  const advice = (profile: 'https_spiffe' | 'https_web') =>
    refreshAdvice('unknown-authority', { trustDomain: 'b.example', profile });
  assert.match(advice('https_spiffe'), /hansa spire bootstrap/);
  assert.doesNotMatch(advice('https_web'), /bootstrap/);
});
