import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { SPIFFEFederation } from '../../api/kinds/spiffe-federation.ts';
import { timestamp } from '../../api/object.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { encodeSpiffeBundle, parseSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { forgeRoot } from '../../core/identity/x509/test-forge.ts';
import { findCondition } from '../../core/reconcile/conditions.ts';
import {
  acceptedStatus,
  failedStatus,
  type FederationStatus,
  restingStatus,
} from './federation-status.ts';

const name = 'bruges.example';
const nowMs = Date.UTC(2026, 0);
const trustDomain = TrustDomain.parse(name);
const root = forgeRoot(name).certificate;
const document = encodeSpiffeBundle(new Bundle(trustDomain, [root]), {
  sequence: 1,
  refreshHintSeconds: 300,
});
const look = { generation: 1, nowMs, nextSyncAtMs: nowMs + 1000 };

const federation = (spec: object, status?: FederationStatus): SPIFFEFederation =>
  ({
    metadata: { name, generation: 1, creationTimestamp: timestamp(nowMs) },
    spec: { bundleSource: { httpsWeb: {} }, staleAfterSeconds: 60, quarantined: false, ...spec },
    ...(status && { status }),
  }) as unknown as SPIFFEFederation;

const ready = (status: FederationStatus): string =>
  findCondition(status.conditions, 'Ready')?.message ?? '';

const accepted = (spec: object): FederationStatus =>
  acceptedStatus(federation(spec), document, parseSpiffeBundle(document, trustDomain), look);

suite('the condition Ready of a federation', () => {
  test('says of one that is quarantined that nobody is verified by it', () => {
    assert.match(
      ready(accepted({})),
      /^SVIDs of bruges\.example are verified against 1 authority\./,
    );
    assert.match(ready(accepted({ quarantined: true })), /accepted until you apply it with/);
    const made = federation({ quarantined: true });
    const labels = { 'hansa.dev/peer': name };
    const ofPeer = acceptedStatus(
      { ...made, metadata: { ...made.metadata, labels } },
      document,
      parseSpiffeBundle(document, trustDomain),
      look,
    );
    assert.match(ready(ofPeer), /accepted until its peer is active again/);
  });

  test('says what to do about a failure, once', () => {
    const failure = (message: string) =>
      ({ class: 'connect', code: 'HANSA_UNREACHABLE', message }) as const;
    const failed = (message: string): string =>
      ready(failedStatus(federation({}, accepted({})), failure(message), look));
    assert.match(
      failed('Nobody is there.'),
      /Nobody is there\. To find the cause: hansa doctor --peer bruges\.example/,
    );
    assert.doesNotMatch(failed('Say hansa trust refresh.'), /doctor/);
  });

  test('says what to do about a bundle that is stale, and one that has expired', () => {
    const later = (spec: object, afterMs: number, status = accepted(spec)): string =>
      ready(restingStatus(federation(spec, status), nowMs + afterMs));
    assert.match(later({}, 3_600_000), /withheld .* hansa doctor --peer bruges\.example/);
    const fixed = { bundleSource: { static: { bundle: document } } };
    const expired = {
      ...accepted(fixed),
      authorities: [{ fingerprint: 'x', notAfter: timestamp(nowMs) }],
    };
    assert.match(
      later(fixed, 10_000, expired),
      /expired .* Ask its operator for the current bundle/,
    );
  });
});
