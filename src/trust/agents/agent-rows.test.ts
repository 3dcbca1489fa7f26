import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Agent } from '../../api/kinds/agent.ts';
import { agentDetails, forgetEffects } from './agent-details.ts';
import { agentRow, agentTable, countAgents, troubleLines, troubleOf } from './agent-rows.ts';

const nowMs = Date.UTC(2026, 0);
const at = (seconds: number): string => new Date(nowMs + seconds * 1000).toISOString();

function agent(status: Agent['status'], labels?: Record<string, string>): Agent {
  return {
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'Agent',
    metadata: { name: 'crane-1', ...(labels === undefined ? {} : { labels }) },
    spec: {},
    status,
  } as unknown as Agent;
}

const connected = agent(
  {
    state: 'Connected',
    reason: 'It is connected.',
    since: at(-300),
    lastSeenAt: at(-8),
    svidExpiresAt: at(3000),
    entries: 2,
    workloads: 3,
    host: 'crane-1.harbour',
    version: '0.1.0',
    token: 'machines',
    provenBy: 'spiffe://bruges.example/machines/crane',
    joinedAt: at(-600),
  },
  { zone: 'harbour' },
);

suite('the row of an agent', () => {
  test('that is connected tells no reason', () => {
    const row = agentRow(connected, nowMs);
    assert.deepEqual(
      [row.state, row.since, row.entries, row.workloads, row.lastSeen, row.svid, row.why],
      ['Connected', '5m', '2', '3', '8s ago', 'for 50m', ''],
    );
    assert.equal(row.labels, 'zone=harbour');
  });

  test('without a status is shown as unknown', () => {
    const row = agentRow(agent(undefined), nowMs);
    assert.deepEqual([row.state, row.entries, row.lastSeen, row.why], ['unknown', '0', '', '']);
  });

  test('has version, host, token and labels in the wide table only', () => {
    const rows = [agentRow(connected, nowMs)];
    assert.deepEqual(
      agentTable(rows, true)[0]?.filter(
        (heading) => !agentTable(rows, false)[0]?.includes(heading),
      ),
      ['VERSION', 'HOST', 'TOKEN', 'LABELS'],
    );
  });

  test('that has joined only tells how to start it, which is no trouble', () => {
    const joined = agent({ state: 'Joined', reason: 'Start hansa agent run.' });
    assert.equal(agentRow(joined, nowMs).why, 'Start hansa agent run.');
    assert.equal(troubleOf(joined, nowMs), undefined);
  });

  for (const state of ['Conflicted', 'Suspended', 'Expired', 'Disconnected'] as const) {
    test(`that is ${state} tells the reason of the site`, () => {
      const odd = agent({ state, reason: 'Do something.', svidExpiresAt: at(9000) });
      assert.equal(agentRow(odd, nowMs).why, 'Do something.');
      assert.equal(troubleOf(odd, nowMs), 'Do something.');
    });
  }

  for (const [status, why] of [
    [{ state: 'Connected', svidExpiresAt: at(600) }, /SVID expires in 10m.*has not renewed/],
    [{ state: 'Connected', svidExpiresAt: at(-600) }, /SVID expires in 0s/],
    [{ state: 'Connected', problems: ['The cache is full.'] }, /^The cache is full\.$/],
  ] as const) {
    test(`that is connected and has ${JSON.stringify(status)} tells that`, () => {
      assert.match(agentRow(agent(status), nowMs).why, why);
    });
  }

  test('never shows a negative time where the clocks differ', () => {
    const row = agentRow(
      agent({ state: 'Disconnected', since: at(60), lastSeenAt: at(60) }),
      nowMs,
    );
    assert.deepEqual([row.since, row.lastSeen], ['0s', '0s ago']);
  });
});

suite('the details of an agent', () => {
  const valueOf = (rows: readonly (readonly [string, string])[], label: string) =>
    rows.find(([each]) => each === label)?.[1];

  test('name its host, its entries and who vouched for it', () => {
    const rows = agentDetails(connected, ['db', 'web'], nowMs);
    assert.equal(valueOf(rows, 'host'), 'crane-1.harbour');
    assert.equal(valueOf(rows, 'entries'), '2: db, web');
    assert.equal(valueOf(rows, 'vouched by'), 'bruges.example');
    assert.equal(valueOf(rows, 'token'), 'machines');
    assert.match(valueOf(rows, 'SVID') ?? '', /^valid until 2026-.* \(for 50m\)$/);
  });

  test('name no trust domain for a secret, and only some of many entries', () => {
    const many = Array.from({ length: 25 }, (_, index) => `entry-${index}`);
    const rows = agentDetails(agent({ provenBy: 'join-token:machines' }), many, nowMs);
    assert.equal(valueOf(rows, 'vouched by'), undefined);
    assert.match(valueOf(rows, 'entries') ?? '', /^25: .* and 5 more$/);
  });

  test('name each problem once', () => {
    const problems = ['The cache is full.', 'No key file.'];
    const rows = agentDetails(agent({ state: 'Connected', problems }), [], nowMs);
    const told = rows.filter(([label]) => label === 'why' || label === 'problem');
    for (const problem of problems) {
      assert.equal(told.filter(([, value]) => value === problem).length, 1, problem);
    }
  });

  test('say what ends when the site forgets it', () => {
    assert.match(
      forgetEffects(connected).join('\n'),
      /3 workloads are connected[^]*token machines/,
    );
    assert.match(forgetEffects(agent(undefined)).join('\n'), /No workload is connected/);
  });
});

test('agents are counted by state', () => {
  const away = agent({ state: 'Disconnected' });
  assert.deepEqual(countAgents([away, connected, connected]), {
    total: 3,
    states: { connected: 2, disconnected: 1 },
  });
});

test('only agents in trouble have lines in the status, and only some of many', () => {
  const away = agent({ state: 'Disconnected', since: at(-60), reason: 'Check it.' });
  assert.deepEqual(troubleLines([connected], nowMs, 5), []);
  assert.deepEqual(troubleLines([connected, away], nowMs, 5), [
    'agent crane-1 is Disconnected for 60s: Check it.',
  ]);
  assert.deepEqual(
    troubleLines(
      Array.from({ length: 9 }, () => away),
      nowMs,
      5,
    ).slice(-1),
    ['and 4 more: hansa agent list'],
  );
});
