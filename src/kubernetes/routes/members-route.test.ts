import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { testLeague } from '../members/test-league.ts';
import { infoOf } from './members-route.ts';

const shown = (league: ReturnType<typeof testLeague>) =>
  infoOf('hansa-system', {
    home: 'prod',
    members: league.members,
    leaving: undefined,
    waitsFor: '',
  });

describe('what a site says about its cluster set', () => {
  test('is nothing without a home cluster', () => {
    assert.deepEqual(infoOf('hansa-system', undefined), {
      namespace: 'hansa-system',
      supervisor: false,
      members: [],
    });
  });

  test('is why it waits, before the home cluster is a supervisor', () => {
    const info = infoOf('x', {
      home: 'prod',
      members: undefined,
      leaving: undefined,
      waitsFor: 'No CRDs.',
    });
    assert.deepEqual([info.home, info.supervisor, info.problem], ['prod', false, 'No CRDs.']);
  });

  test('is the state of each member, with its leader', async () => {
    const league = testLeague(['app1']);
    league.list('home', 'app1');
    league.members.start();
    await league.clock.advance(0);
    league.members.get('app1')?.sawLease({ holder: 'bruges.example/h/1/u', epoch: 9 }, 'm');
    league.members.get('home')?.sawLease({ holder: '', epoch: 2 }, 'm');
    const { members, ...info } = shown(league);
    assert.deepEqual(info, {
      namespace: 'hansa-system',
      home: 'prod',
      homeID: 'home',
      supervisor: true,
      clusterSet: 'hanse',
      leaving: [],
    });
    assert.deepEqual(
      members.map(({ clusterID, state, leader, epoch }) => [clusterID, state, leader, epoch]),
      [
        ['home', 'Ready', undefined, 2],
        ['app1', 'Ready', 'bruges.example/h/1/u', 9],
      ],
    );
  });

  test('is which clusters left and may have copies', () => {
    const { members } = testLeague();
    const view = { clusterID: 'app1', sinceMs: 0, reason: 'Unreachable', message: 'Try it.' };
    const leaving = { list: () => [view] };
    const info = infoOf('hansa-system', { home: 'prod', members, leaving, waitsFor: '' });
    assert.deepEqual(info.leaving, [
      {
        clusterID: 'app1',
        since: '1970-01-01T00:00:00Z',
        reason: 'Unreachable',
        message: 'Try it.',
      },
    ]);
  });

  test('is that Federation is missing, or that the home cluster is away', async () => {
    const league = testLeague();
    league.members.start();
    await league.clock.advance(0);
    assert.match(String(shown(league).problem), /has no Federation/);
    league.home.goAway();
    await league.clock.advance(1000);
    assert.match(String(shown(league).problem), /connection refused/);
  });
});
