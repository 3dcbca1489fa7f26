import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { LeagueInfo, MemberInfo } from './client/league-info.ts';
import { judgeLeague } from './doctor/members.ts';
import { judgeSync } from './doctor/sync.ts';
import { statusOf, syncStatusOf } from './status.ts';
import type { Cluster } from '../api/kinds/cluster.ts';

const member = (clusterID: string, state: MemberInfo['state'], extra: object = {}): MemberInfo => ({
  clusterID,
  state,
  since: '2026-01-01T00:00:00Z',
  reason: 'R',
  message: `Correct ${clusterID}.`,
  leader: 'lubeck.example/h/1/u',
  epoch: 3,
  ...extra,
});

const info = (extra: Partial<LeagueInfo> = {}): LeagueInfo => ({
  namespace: 'hansa-system',
  home: 'home',
  homeID: 'home',
  supervisor: true,
  clusterSet: 'hanse',
  members: [member('home', 'Ready')],
  ...extra,
});

describe('hansa status and hansa doctor', () => {
  test('say nothing about members at a site that is no supervisor', () => {
    const none: LeagueInfo = { namespace: 'x', supervisor: false, members: [] };
    assert.deepEqual(statusOf(none), { fields: {}, rows: [], lines: [] });
    assert.deepEqual([statusOf(undefined).rows, judgeLeague(undefined)], [[], []]);
    assert.deepEqual(judgeLeague({ ...none, home: 'a', problem: 'no CRDs' }), []);
  });

  test('count the policies, and tell conflicts', () => {
    const counts = (replicated: number, conflicts: number, pending = 0) => ({
      policies: { replicated, conflicts, pending },
    });
    const none = info({ members: [member('home', 'Ready', counts(0, 0))] });
    assert.equal(statusOf(none).rows?.length, 1);
    const members = [
      member('home', 'Ready', counts(12, 0, 1)),
      member('app', 'Ready', counts(10, 2)),
      member('old', 'Ready'),
    ];
    assert.deepEqual(statusOf(info({ members })).rows?.[1], [
      'policies',
      '12 replicated, 1 pending, 2 in conflict: hansa policy list -o wide',
    ]);
    const [found] = judgeLeague(info({ members }));
    assert.match(JSON.stringify(found), /app cannot get 2 federated policies/);
  });

  test('count the members', () => {
    assert.deepEqual(statusOf(info()).rows, [['members', '1, 1 ready, in cluster set hanse']]);
    assert.deepEqual(
      judgeLeague(info()).map(({ level, text }) => [level, text]),
      [['ok', '1 ready']],
    );
  });

  test('name clusters that left and may have copies', () => {
    const since = '2026-01-01T00:00:00Z';
    const left = { clusterID: 'app9', since, reason: 'Unreachable', message: 'Delete them.' };
    const league = info({ leaving: [left] });
    assert.deepEqual(statusOf(league).lines, ['leaving app9: Delete them.']);
    assert.deepEqual(
      judgeLeague(league).map(({ level, text, remedy }) => [level, text, remedy]),
      [['warning', 'app9 left and may have copies', 'Delete them.']],
    );
  });

  test('name refused members first, then unreachable ones, with what to do', () => {
    const troubled = info({
      members: [member('a', 'Unreachable'), member('b', 'Refused'), member('c', 'Connecting')],
    });
    assert.deepEqual(statusOf(troubled).lines, [
      'member b: Refused. Correct b.',
      'member a: Unreachable. Correct a.',
    ]);
    assert.deepEqual(
      judgeLeague(troubled).map(({ level, text, remedy }) => [level, text, remedy]),
      [
        ['problem', 'b is refused', 'Correct b.'],
        ['problem', 'a is unreachable', 'Correct a.'],
      ],
    );
  });

  test('name a few of many', () => {
    const many = info({
      members: Array.from({ length: 9 }, (_, index) => member(`a${index}`, 'Refused')),
    });
    assert.equal(statusOf(many).lines?.length, 6);
    assert.match(String(statusOf(many).lines?.at(-1)), /and 4 more/);
    assert.equal(judgeLeague(many).length, 6);
  });

  test('report a home cluster that cannot be followed, and members without a leader', () => {
    const found = judgeLeague(
      info({ problem: 'Connection refused.', members: [{ ...member('a', 'Ready'), leader: '' }] }),
    );
    assert.equal(found[0]?.level, 'problem');
    const { leader: _, ...unled } = member('a', 'Ready');
    assert.match(String(judgeLeague(info({ members: [unled] }))[0]?.text), /a has no leader/);
    assert.match(
      String(statusOf(info({ problem: 'Away.' })).lines?.[0]),
      /home cluster home: Away\./,
    );
  });

  test('name members that the site follows and cannot lead, once', () => {
    const { leader: _, ...unled } = member('a', 'Ready', { reason: 'NoLeader', message: 'Why.' });
    const found = info({ members: [unled] });
    assert.deepEqual(statusOf(found).lines, ['member a: Why.']);
    assert.deepEqual(
      judgeLeague(found).map(({ level, text, remedy }) => [level, text, remedy]),
      [['warning', 'this site cannot lead a', 'Why.']],
    );
  });

  test('remove control characters that a cluster sent', () => {
    const evil = info({ members: [member('a', 'Refused', { message: '\u001b[31mred\n' })] });
    const line = String(statusOf(evil).lines?.[0]);
    assert.ok(!line.includes('\u001b') && !line.includes('\n'), line);
  });
});

describe('hansa status and hansa doctor about marked clusters', () => {
  const cluster = (name: string, sync?: object, state?: 'True' | 'False', counts?: object) =>
    ({
      metadata: { name },
      spec: { ...(sync && { sync }) },
      status: {
        ...(counts && { sync: counts }),
        ...(state && {
          conditions: [{ type: 'ResourcesSynced', status: state, message: `Look at ${name}.` }],
        }),
      },
    }) as unknown as Cluster;
  const kinds = { kinds: ['JoinToken'] };
  const none = { accepted: 0, refused: 0, kept: 0 };
  const findings = (...clusters: readonly Cluster[]) =>
    judgeSync(clusters).map(({ level, text, remedy }) => [level, text, remedy ?? '']);

  test('say nothing at a site that has marked none', () => {
    const clusters = [cluster('app1')];
    assert.deepEqual(syncStatusOf(clusters), { fields: {}, rows: [], lines: [] });
    assert.deepEqual(judgeSync(clusters), []);
  });

  test('count the objects', () => {
    const app1 = cluster('app1', kinds, 'True', { ...none, accepted: 1 });
    assert.deepEqual(syncStatusOf([app1]).rows, [['synced clusters', '1, 1 object']]);
    assert.deepEqual(findings(app1), [['ok', '1, with 1 object', '']]);
    const app2 = cluster('app2', kinds, 'True', { accepted: 2, refused: 3, kept: 4 });
    assert.deepEqual(syncStatusOf([app1, app2]).rows, [
      ['synced clusters', '2, 3 objects, 3 refused, 4 kept'],
    ]);
    assert.deepEqual(
      findings(app1, app2).map(([level, text]) => [level, text]),
      [
        ['warning', 'the site refuses 3 objects of app2'],
        ['warning', '4 objects came from app2 and are not there any more'],
      ],
    );
  });

  test('name clusters that the site cannot follow, with what to do', () => {
    const app1 = cluster('app1', kinds, 'False', none);
    assert.deepEqual(syncStatusOf([app1]).lines, [
      'cluster app1: its objects are not followed. Look at app1.',
    ]);
    assert.deepEqual(findings(app1), [
      ['problem', 'the site cannot follow objects of app1', 'Look at app1.'],
    ]);
  });

  test('do not take a mark without a report for a problem', () => {
    const app1 = cluster('app1', kinds);
    assert.deepEqual(syncStatusOf([app1]).lines, []);
    assert.deepEqual(
      findings(app1).map(([level]) => level),
      ['warning'],
    );
  });
});
