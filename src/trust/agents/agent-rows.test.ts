import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Agent } from '../../api/kinds/agent.ts';
import { agentDetails, forgetEffects } from './agent-details.ts';
import { agentRow, agentTable, countAgents, troubleOf } from './agent-rows.ts';

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
  test('that is connected needs nothing', () => {
    const row = agentRow(connected, nowMs);
    assert.deepEqual(
      [row.state, row.since, row.entries, row.workloads, row.lastSeen, row.svid, row.todo],
      ['Connected', '5m', '2', '3', 'now', 'for 50m', ''],
    );
    assert.equal(row.labels, 'zone=harbour');
  });

  test('without a status is shown as unknown', () => {
    const row = agentRow(agent(undefined), nowMs);
    assert.deepEqual([row.state, row.entries, row.lastSeen, row.todo], ['unknown', '0', '', '']);
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

  for (const [status, todo] of [
    [{ state: 'Conflicted', reason: 'two processes answer' }, /agent reinstate crane-1.*forget/],
    [{ state: 'Suspended', reason: 'its peer is suspended' }, /resume its peer/],
    [{ state: 'Expired', reason: 'its SVID expired' }, /start the agent/],
    [{ state: 'Disconnected', reason: 'no message' }, /network on its machine/],
    [{ state: 'Connected', svidExpiresAt: at(600) }, /log of the agent/],
    [{ state: 'Connected', problems: ['the cache is full'] }, /log of the agent/],
  ] as const) {
    test(`tells what to do about ${JSON.stringify(status)}`, () => {
      const row = agentRow(agent(status), nowMs);
      assert.match(row.todo, todo);
      assert.notEqual(row.why, '');
    });
  }

  test('says when the SVID of an agent that is away ends', () => {
    const away = agent({ state: 'Disconnected', reason: 'no message', svidExpiresAt: at(1800) });
    assert.match(troubleOf(away, nowMs)?.why ?? '', /expires in 30m/);
  });

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
