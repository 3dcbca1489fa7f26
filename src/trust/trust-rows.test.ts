import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { SPIFFEFederation } from '../api/kinds/spiffe-federation.ts';
import { countsText } from './state-counts.ts';
import { countFederations, federationRow, trustTable } from './trust-rows.ts';

const nowMs = Date.UTC(2026, 0);
const at = (seconds: number): string => new Date(nowMs + seconds * 1000).toISOString();

const federation = (status: object, spec: object = {}): SPIFFEFederation =>
  ({
    metadata: { name: 'bruges.example', creationTimestamp: at(-86_400) },
    spec: {
      bundleSource: { httpsWeb: {} },
      staleAfterSeconds: 3600,
      quarantined: false,
      ...spec,
    },
    status: {
      bundle: '{}',
      refreshHintSeconds: 300,
      source: 'https_web',
      syncedAt: at(-12),
      nextSyncAt: at(240),
      authorityCount: 2,
      authorities: [{ fingerprint: 'f', notAfter: at(86_400) }],
      conditions: [
        { type: 'Ready', status: 'True' },
        { type: 'Fresh', status: 'True' },
      ],
      ...status,
    },
  }) as unknown as SPIFFEFederation;

const state = (status: object, spec?: object): string =>
  federationRow(federation(status, spec), nowMs).state;

suite('a row of hansa trust status', () => {
  test('tells when the endpoint was asked, and when it is asked again', () => {
    const [headings, row] = trustTable([federationRow(federation({}), nowMs)], false);
    assert.deepEqual(headings, [
      'TRUST DOMAIN',
      'SOURCE',
      'BUNDLE',
      'SINCE',
      'SYNCED',
      'NEXT',
      'AUTHORITIES',
      'WHY',
    ]);
    assert.deepEqual(row, [
      'bruges.example',
      'https_web',
      'fresh',
      '',
      '12s ago',
      'in 4m',
      '2',
      '',
    ]);
  });

  test('tells more where it is asked to', () => {
    const row = federationRow(federation({ sequence: 7, consecutiveFailures: 3 }), nowMs);
    const [, cells] = trustTable([row], true);
    assert.deepEqual(cells?.slice(7, 10), ['7', 'in 24h', '3']);
  });

  test('tells how long a bundle that is overdue is still given, and when it is not', () => {
    const overdue = [
      { type: 'Ready', status: 'True' },
      { type: 'Fresh', status: 'False' },
    ];
    assert.equal(state({ syncedAt: at(-900), conditions: overdue }), 'stale in 50m');
    assert.equal(state({ syncedAt: at(-7200), conditions: overdue }), 'stale');
    assert.equal(state({ authorities: [{ notAfter: at(-60) }] }), 'expired');
  });

  test('tells that the bootstrap is given until the endpoint answers, and how long', () => {
    const spec = { bundleSource: { httpsSpiffe: { bundleBootstrap: '{}' } } };
    const given = (seconds: number): string =>
      state({ bundle: undefined, syncedAt: undefined, bootstrappedAt: at(-seconds) }, spec);
    assert.equal(given(300), 'bootstrapped, stale in 60m');
    assert.equal(given(7200), 'stale');
  });

  test('tells of every trouble since when it is there, why, and what to do', () => {
    const condition = (type: string, status: string, seconds: number, message = '') => ({
      type,
      status,
      lastTransitionTime: at(-seconds),
      message,
    });
    const ready = [condition('Ready', 'True', 900), condition('Fresh', 'True', 900)];
    const notReady = [condition('Ready', 'False', 600, 'connection refused')];
    const overdue = [condition('Ready', 'True', 9000), condition('Fresh', 'False', 600)];
    const spiffe = { bundleSource: { httpsSpiffe: { bundleBootstrap: '{}' } } };
    const fixed = { bundleSource: { static: { bundle: '{}' } } };
    const lastError = { class: 'connect', message: 'connection refused', at: at(-1) };
    const expired = { authorities: [{ notAfter: at(-61) }] };
    const never = { bundle: undefined, syncedAt: undefined };
    const troubles: [name: string, status: object, spec: object, since: string, todo: RegExp][] = [
      ['not ready', { ...never, conditions: notReady, lastError }, {}, '10m', /doctor --peer/],
      [
        'never',
        { ...never, bootstrappedAt: at(-60), conditions: notReady },
        spiffe,
        '10m',
        /doctor/,
      ],
      ['overdue', { syncedAt: at(-900), conditions: overdue, lastError }, {}, '10m', /doctor/],
      ['stale', { syncedAt: at(-7200), conditions: overdue }, {}, '55m', /doctor --peer/],
      ['expired', expired, {}, '60s', /its operator must rotate/],
      ['static, expired', { ...expired, syncedAt: at(-9) }, fixed, '60s', /bundleSource\.static/],
      ['refused', { conditions: ready, lastError }, {}, '15m', /doctor --peer bruges\.example/],
      [
        'rolled back',
        { conditions: ready, lastError: { ...lastError, class: 'sequence' } },
        {},
        '15m',
        /hansa trust refresh bruges\.example --accept-rollback/,
      ],
      ['quarantined', { conditions: ready }, { quarantined: true }, '', /quarantined: false/],
      ['not asked yet', { ...never, conditions: undefined }, {}, '24h', /doctor --peer/],
    ];
    for (const [name, status, spec, since, todo] of troubles) {
      const row = federationRow(federation(status, spec), nowMs);
      assert.equal(row.since, since, name);
      assert.notEqual(row.why, '', name);
      assert.match(row.todo, todo, name);
    }
    const fresh = federationRow(federation({ conditions: ready }), nowMs);
    assert.deepEqual([fresh.since, fresh.why, fresh.todo], ['15m', '', '']);
  });

  test('sends to the peer, not to the spec, where peering quarantined it', () => {
    const made = federation({}, { quarantined: true });
    const labels = { 'hansa.dev/peer': 'bruges.example' };
    const ofPeer = { ...made, metadata: { ...made.metadata, labels } };
    assert.match(federationRow(ofPeer, nowMs).todo, /hansa peer show bruges\.example/);
  });

  test('shows no bundle of a federation that is being deleted as fresh', () => {
    const made = federation({});
    const metadata = {
      ...made.metadata,
      deletionTimestamp: at(-60),
      finalizers: ['example.org/hold'],
    };
    const row = federationRow({ ...made, metadata }, nowMs);
    assert.deepEqual([row.state, row.since], ['being deleted', '60s']);
    assert.match(row.why, /finalizers block its deletion: example\.org\/hold/);
    assert.match(row.todo, /hansa get spiffefederation bruges\.example -o yaml/);
  });

  test('tells what is believed by nobody', () => {
    assert.equal(state({}, { quarantined: true }), 'quarantined');
    assert.equal(state({ bundle: undefined }), 'not ready');
    const never = federationRow(
      federation({
        syncedAt: undefined,
        bundle: undefined,
        lastError: { message: 'connection refused' },
      }),
      nowMs,
    );
    assert.equal(never.synced, 'never');
    assert.equal(never.why, 'connection refused');
  });
});

suite('how many federations there are', () => {
  const overdue = {
    syncedAt: at(-1800),
    conditions: [
      { type: 'Ready', status: 'True' },
      { type: 'Fresh', status: 'False' },
    ],
  };
  const told = (...federations: readonly SPIFFEFederation[]): string =>
    countsText(countFederations(federations, nowMs));

  test('is told by what can be relied upon', () => {
    assert.equal(told(), 'none');
    assert.equal(told(federation({}), federation({})), '2 fresh');
    assert.equal(
      told(
        federation({ syncedAt: at(-7200) }),
        federation({}),
        federation(overdue),
        federation({}, { quarantined: true }),
        federation({}),
      ),
      '5 (2 fresh, 1 stale, 1 overdue, 1 quarantined)',
    );
  });
});
