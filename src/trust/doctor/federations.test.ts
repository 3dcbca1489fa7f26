import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { SPIFFEFederation } from '../../api/kinds/spiffe-federation.ts';
import { judgeFederations } from './federations.ts';

const nowMs = Date.UTC(2026, 0);
const at = (seconds: number): string => new Date(nowMs + seconds * 1000).toISOString();

const federation = (name: string, syncedSecondsAgo: number, quarantined = false) =>
  ({
    metadata: { name, creationTimestamp: at(-86_400) },
    spec: { bundleSource: { httpsWeb: {} }, staleAfterSeconds: 3600, quarantined },
    status: {
      bundle: '{}',
      refreshHintSeconds: 300,
      syncedAt: at(-syncedSecondsAgo),
      lastError: { class: 'connect', message: 'Nobody listens\nthere.', at: at(-1) },
      conditions: [
        { type: 'Ready', status: 'True' },
        { type: 'Fresh', status: 'True' },
      ],
    },
  }) as unknown as SPIFFEFederation;

suite('doctor looks at federations', () => {
  test('and says nothing where there is none, little where all are fresh', () => {
    assert.deepEqual(judgeFederations([], nowMs), []);
    const [finding, ...others] = judgeFederations(
      [federation('a.example', 9), federation('b.example', 9, true)],
      nowMs,
    );
    assert.deepEqual(others, []);
    assert.equal(finding?.level, 'ok');
    assert.equal(finding.text, '2 (1 fresh, 1 quarantined)');
  });

  test('and warns of each that workloads do not get, with the reason', () => {
    const [finding, ...others] = judgeFederations(
      [federation('a.example', 9), federation('b.example', 7200)],
      nowMs,
    );
    assert.deepEqual(others, []);
    assert.equal(finding?.level, 'warning');
    assert.match(finding.text, /^b\.example is stale: Nobody listens.+there\.$/);
    assert.doesNotMatch(finding.text, /\n/);
    assert.match(finding.remedy ?? '', /hansa doctor --peer b\.example/);
  });

  test('and of many of them tells only some', () => {
    const many = Array.from({ length: 40 }, (_, index) => federation(`x${index}.example`, 7200));
    const findings = judgeFederations(many, nowMs);
    assert.equal(findings.length, 6);
    assert.equal(findings[5]?.text, 'and 35 more (40 stale)');
  });
});
