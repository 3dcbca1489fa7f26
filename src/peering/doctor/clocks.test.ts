import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { judgeClocks } from './clocks.ts';
import { judgeReports } from './peer.ts';

const peer = (name: string, skewMilliseconds: number) => ({
  name,
  clock: {
    skewMilliseconds,
    uncertaintyMilliseconds: 5,
    measuredAt: '2026-01-01T00:00:00Z',
    tooFar: Math.abs(skewMilliseconds) > 30_000,
  },
});

suite('what doctor says about clocks', () => {
  test('is nothing where no peer reports its clock', () => {
    assert.deepEqual(judgeClocks([]), []);
    assert.deepEqual(judgeClocks([{ name: 'bruges.example' }]), []);
  });

  test('is fine where all are in sync', () => {
    const found = judgeClocks([peer('a', 5), peer('b', -900), { name: 'c' }]);
    assert.deepEqual(found, [{ check: 'peer clocks', level: 'ok', text: 'in sync with 2 peers' }]);
  });

  test('names the peer that is off', () => {
    const [found] = judgeClocks([peer('a', 5), peer('b', 90_000), peer('c', 0)]);
    assert.equal(found?.level, 'warning');
    assert.equal(found?.text, 'b 90 s ahead (too far)');
    assert.match(found?.remedy ?? '', /of this site and of these peers/);
  });

  test('blames the own clock where most peers are off in one direction', () => {
    const [found] = judgeClocks([peer('a', 90_000), peer('b', 91_000), peer('c', 0)]);
    assert.match(found?.remedy ?? '', /clock of this site is behind most of its peers/);
    const [other] = judgeClocks([peer('a', -90_000), peer('b', -91_000)]);
    assert.match(other?.remedy ?? '', /clock of this site is ahead of most of its peers/);
    // One peer alone proves nothing, and neither do two that disagree.
    const [one] = judgeClocks([peer('a', 90_000)]);
    assert.match(one?.remedy ?? '', /of this site and of these peers/);
    const [two] = judgeClocks([peer('a', 90_000), peer('b', -90_000)]);
    assert.match(two?.remedy ?? '', /of this site and of these peers/);
  });

  test('names at most five of many', () => {
    const many = Array.from({ length: 9 }, (_, at) => peer(`p${at}`, 90_000));
    assert.match(judgeClocks(many)[0]?.text ?? '', /p4 90 s ahead \(too far\); and 4 more$/);
  });
});

suite('what doctor says about the reports of one peer', () => {
  test('is nothing where it reports nothing', () => {
    assert.deepEqual(judgeReports({ name: 'a' }), []);
  });

  test('warns of a clock that is too far, and of what was lost', () => {
    const drift = { lost: ['catalog'], gained: [] };
    const found = judgeReports({ ...peer('a', -90_000), capabilities: ['catalog'], drift });
    assert.deepEqual(
      found.map(({ check, level }) => `${check} ${level}`),
      ['clock warning', 'capabilities warning'],
    );
    assert.match(found[0]?.remedy ?? '', /timedatectl/);
    assert.match(found[1]?.text ?? '', /hansa peer catalog fails/);
  });

  test('does not warn of what both have and did not agree on', () => {
    const found = judgeReports({ name: 'a', capabilities: [], drift: { lost: [], gained: ['x'] } });
    assert.deepEqual(
      found.map(({ level }) => level),
      ['ok'],
    );
  });
});
