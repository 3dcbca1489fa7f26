// Tests `hansa agent list`, `show`, `forget` and `reinstate` with a client that holds a few objects.
// test/e2e/agent-commands.test.ts runs them against a site.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Kind } from '../../api/kind.ts';
import { createCli } from '../../cli/cli.ts';
import { processIo } from '../../cli/process-io.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { CommandKit } from '../../core/plane/command-kit.ts';
import type { RequestOptions, SiteClient } from '../../core/plane/site-client.ts';
import { allPlanes } from '../../test-planes.ts';
import { agentCommand } from './agent.ts';

const agentNamed = (name: string, state: string, labels = {}, more = {}) => ({
  metadata: { name, labels, managedFields: [{ manager: 'agents' }] },
  status: { state, reason: `why \u001b[31m${state}`, token: 'machines', ...more },
});
const agents = [
  agentNamed('crane-1', 'Connected', { zone: 'harbour' }, { workloads: 2 }),
  agentNamed('crane-2', 'Conflicted'),
  agentNamed('site', 'Connected'),
];
const entries = [
  {
    metadata: { name: 'scale' },
    spec: { agents: { selector: { matchLabels: { zone: 'harbour' } } } },
  },
  { metadata: { name: 'winch' }, spec: { agents: { names: ['crane-2'] } } },
  { metadata: { name: 'web' }, spec: {} },
];

/** Runs `hansa agent ARGS`. The user answers yes. */
async function run(...args: string[]) {
  const printed: string[] = [];
  const notes: string[] = [];
  const questions: string[] = [];
  const calls: string[] = [];
  const client = {
    list: async (kind: Kind) => ({ items: kind.kind === 'Agent' ? agents : entries }),
    get: async (_kind: Kind, name: string) => {
      const found = agents.find(({ metadata }) => metadata.name === name);
      if (found === undefined) throw new HansaError('HANSA_NOT_FOUND', `no ${name}`);
      return found;
    },
    delete: async (kind: Kind, name: string) => void calls.push(`delete ${kind.kind} ${name}`),
    request: async ({ method, path }: RequestOptions) => {
      calls.push(`${method} ${path}`);
      return { status: 200, body: {} };
    },
  } as unknown as SiteClient;
  const kit: CommandKit = {
    ...createCli(processIo(), { planes: allPlanes, version: '1' }),
    print: (text) => void printed.push(text),
    note: (text) => void notes.push(text),
    withClient: (_command, work) => work(client),
    confirm: async (_command, question) => void questions.push(question),
  };
  await agentCommand(kit).exitOverride().parseAsync(args, { from: 'user' });
  return { printed: printed.join('\n'), notes: notes.join('\n'), questions, calls };
}

suite('hansa agent', () => {
  test('list shows every agent, and why it is in its state', async () => {
    const { printed } = await run('list');
    assert.match(printed, /^AGENT +STATE +SINCE +ENTRIES/);
    assert.match(printed, /^crane-1 +Connected/m);
    assert.match(printed, /^crane-2 +Conflicted .*why/m);
    assert.ok(!printed.includes('\u001b'), 'no control characters of an agent');
  });

  test('list has names only with -o name, and all fields with -o json', async () => {
    assert.equal((await run('list', '-o', 'name')).printed, 'crane-1\ncrane-2\nsite');
    const parsed = JSON.parse((await run('list', '-o', 'json')).printed) as { agents: unknown[] };
    assert.equal(parsed.agents.length, 3);
    for (const args of [['list'], ['show', 'crane-1']]) {
      const { printed } = await run(...args, '-o', 'json');
      assert.ok(!printed.includes('managedFields'), 'no managers of fields');
    }
  });

  test('show names the entries of the agent', async () => {
    assert.match((await run('show', 'crane-1')).printed, /^entries +1: scale$/m);
    assert.match((await run('show', 'site')).printed, /^entries +1: web$/m);
    const { printed } = await run('show', 'crane-2', '-o', 'json');
    assert.deepEqual((JSON.parse(printed) as { entries: unknown }).entries, ['winch']);
  });

  test('forget says what ends, asks, and deletes the Agent', async () => {
    const { notes, questions, calls, printed } = await run('forget', 'crane-1');
    assert.match(notes, /rejects the SVID of crane-1 at once/);
    assert.match(notes, /2 workloads are connected/);
    assert.deepEqual(questions, ['Forget the agent crane-1?']);
    assert.deepEqual(calls, ['delete Agent crane-1']);
    assert.equal(printed, 'Forgot the agent crane-1.');
  });

  test('forget of the machine of the site is refused', async () => {
    await assert.rejects(run('forget', 'site'), { code: 'HANSA_CONFLICT' });
  });

  test('reinstate explains the risk, asks, and calls the site', async () => {
    const { notes, questions, calls } = await run('reinstate', 'crane-2');
    assert.match(notes, /still holds a copy of its key/);
    assert.deepEqual(questions, ['Reinstate the agent crane-2?']);
    assert.deepEqual(calls, ['POST /hansa/v1/join/agents/crane-2/reinstate']);
  });

  test('reinstate of an agent without a conflict is refused', async () => {
    await assert.rejects(run('reinstate', 'crane-1'), {
      code: 'HANSA_CONFLICT',
      message: /it is Connected, not Conflicted/,
    });
  });

  for (const command of ['show', 'forget', 'reinstate']) {
    test(`${command} of an unknown agent is refused, with the command that lists them`, async () => {
      await assert.rejects(run(command, 'nobody'), {
        code: 'HANSA_NOT_FOUND',
        message: 'There is no agent nobody. To list the agents: hansa agent list',
      });
    });
  }
});
