import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { LeagueInfo, MemberInfo } from './client/league-info.ts';
import { judgeLeague } from './doctor/members.ts';
import { statusOf } from './status.ts';

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

  test('remove control characters that a cluster sent', () => {
    const evil = info({ members: [member('a', 'Refused', { message: '\u001b[31mred\n' })] });
    const line = String(statusOf(evil).lines?.[0]);
    assert.ok(!line.includes('\u001b') && !line.includes('\n'), line);
  });
});
