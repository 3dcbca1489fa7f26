import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Agent } from '../../api/kinds/agent.ts';
import type { WorkloadEntry } from '../workload/entries/matching-entries.ts';
import { judgeAgents } from './agents.ts';

const nowMs = Date.UTC(2026, 0);
const at = (seconds: number): string => new Date(nowMs + seconds * 1000).toISOString();

const agent = (name: string, state: string, labels = {}) =>
  ({
    metadata: { name, labels },
    status: { state, reason: 'something\nhappened', svidExpiresAt: at(3000) },
  }) as unknown as Agent;

const entry = (name: string, agents?: WorkloadEntry['spec']['agents']) =>
  ({
    metadata: { name },
    spec: agents === undefined ? {} : { agents },
  }) as unknown as WorkloadEntry;

const site = agent('site', 'Connected');

suite('doctor looks at agents', () => {
  test('and counts them where all are connected', () => {
    const findings = judgeAgents([site, agent('a', 'Connected')], [entry('web')], nowMs);
    assert.deepEqual(findings, [{ check: 'agents', level: 'ok', text: '2 connected' }]);
  });

  test('and calls only a conflict a problem, which comes first', () => {
    const findings = judgeAgents(
      [site, agent('a', 'Disconnected'), agent('b', 'Expired'), agent('c', 'Conflicted')],
      [],
      nowMs,
    );
    assert.deepEqual(
      findings.map(({ level, text }) => [level, text.split(' ')[0]]),
      [
        ['problem', 'c'],
        ['warning', 'b'],
        ['warning', 'a'],
      ],
    );
    assert.match(findings[0]?.remedy ?? '', /^something.happened$/);
  });

  test('and of many of them tells only some', () => {
    const many = Array.from({ length: 40 }, (_, index) => agent(`crane-${index}`, 'Disconnected'));
    const findings = judgeAgents(many, [], nowMs);
    assert.equal(findings.length, 6);
    assert.equal(findings[5]?.text, 'and 35 more');
  });

  test('and warns of an SVID that ends soon although the agent is connected', () => {
    const late = { ...site, status: { state: 'Connected', svidExpiresAt: at(60) } } as Agent;
    const [finding] = judgeAgents([late], [], nowMs);
    assert.equal(finding?.level, 'warning');
    assert.match(finding.remedy ?? '', /SVID expires in 60s/);
  });

  test('and warns of entries that no agent has', () => {
    const agents = [site, agent('a', 'Connected', { zone: 'harbour' })];
    const entries = [
      entry('on-site'),
      entry('on-a', { names: ['a'] }),
      entry('in-harbour', { selector: { matchLabels: { zone: 'harbour' } } }),
      entry('on-z', { names: ['z'] }),
      entry('at-the-gate', { selector: { matchLabels: { zone: 'gate' } } }),
    ];
    const findings = judgeAgents(agents, entries, nowMs);
    assert.deepEqual(
      findings.map(({ level, text }) => [level, text]),
      [
        ['ok', '2 connected'],
        ['warning', 'no agent has the WorkloadEntries at-the-gate, on-z'],
      ],
    );
  });
});
