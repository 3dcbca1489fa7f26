import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SpireInfo } from '../client/spire-info.ts';
import { judgeSpire } from './spire.ts';

const condition = (type: string, status: string, reason: string) => ({
  type,
  status,
  reason,
  message: `${reason}!`,
});
const relationship = (trustDomain: string, state: string, reason?: string) => ({
  trustDomain,
  state,
  ...(reason !== undefined && { reason }),
  since: '2026-01-01T00:00:00Z',
  message: 'Why.',
});
const info: SpireInfo = { cluster: 'app1', conditions: [], relationships: [] };
const judge = (fields: Partial<SpireInfo>) =>
  judgeSpire({ ...info, ...fields }).map(({ level, check, text }) => `${level} ${check}: ${text}`);

test('a server that the site cannot follow is a problem', () => {
  assert.deepEqual(judge({ problem: 'No CRD.' }), ['problem server: app1 is not operated']);
});

test('each condition is a finding, a warning of the server too', () => {
  const conditions = [
    condition('FederationConfigurationValid', 'True', 'Valid'),
    condition('FederationObjectsInSync', 'False', 'Drift'),
    condition('FederationServiceReady', 'False', 'NotFederated'),
    condition('FederationRouteReady', 'Unknown', 'ExposedByOthers'),
    condition('FederationWarnings', 'True', 'NoCounterpart'),
  ];
  assert.deepEqual(judge({ conditions }), [
    'ok configuration: Valid!',
    'problem objects: Drift',
    'warning exposure: ExposedByOthers',
    'warning warnings: NoCounterpart',
  ]);
  const none = [condition('FederationWarnings', 'False', 'None')];
  assert.deepEqual(judge({ conditions: none }), []);
});

test('a stale or failed relationship is a problem, and one that begins or fails at times a warning', () => {
  const relationships = [
    relationship('b.example', 'Fresh'),
    relationship('f.example', 'Fresh', 'LastFetchFailed'),
    relationship('c.example', 'Stale'),
    relationship('d.example', 'Failed'),
    relationship('e.example', 'Bootstrapping'),
  ];
  assert.deepEqual(judge({ relationships }), [
    'ok relationship: b.example is Fresh',
    'warning relationship: f.example is Fresh',
    'problem relationship: c.example is Stale',
    'problem relationship: d.example is Failed',
    'warning relationship: e.example is Bootstrapping',
  ]);
});
