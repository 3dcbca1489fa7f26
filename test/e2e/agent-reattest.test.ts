// An agent that was off for days: it attests again with its key, for as long as the site accepts it.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { type AgentProcess, spawnAgent, startAgent } from './agent-process.ts';
import { type Daemon, hansa, startDaemon, temporaryFolder } from './daemon.ts';
import { until } from './until.ts';

const folder = temporaryFolder();
const siteFolder = join(folder, 'lubeck');
const agentFolder = join(folder, 'crane-1');
const dayMs = 86_400_000;

const after = (days: number): Readonly<Record<string, string>> => ({
  NODE_OPTIONS: `--import=${join(import.meta.dirname, 'shift-clock.ts')} --disable-warning=ExperimentalWarning`,
  SHIFT_CLOCK_MS: String(days * dayMs),
});

/** The site and its agent start so many days later, do the work, and stop. */
async function daysLater(
  days: number,
  work: (site: Daemon, start: (start: typeof startAgent) => Promise<AgentProcess>) => Promise<void>,
): Promise<void> {
  const env = after(days);
  const site = await startDaemon(siteFolder, [], env);
  const agents: AgentProcess[] = [];
  try {
    await work(site, async (start) => {
      const flags = [`--server=${site.endpoints.federation}`];
      const agent = await start(agentFolder, undefined, { env, flags });
      agents.push(agent);
      return agent;
    });
  } finally {
    for (const agent of agents) await agent.signal('SIGTERM');
    await site.signal('SIGTERM');
  }
}

const at = (days: number, ...args: readonly string[]) =>
  hansa([...args, '--data-dir', siteFolder], { env: after(days) });

suite('an agent that was off', () => {
  test('joins, and is connected', async () => {
    await daysLater(0, async (site) => {
      const made = await at(0, 'join', 'token', 'create', 'one', '--single-use');
      assert.equal(made.code, 0, made.stderr);
      const agent = await startAgent(
        agentFolder,
        {
          url: site.endpoints.federation,
          trustDomain: 'lubeck.example',
          caFile: join(siteFolder, 'ca.pem'),
          token: 'one',
          name: 'crane-1',
          secret: made.stdout,
        },
        { env: after(0) },
      );
      await until(
        () => agent.log().includes('connected to the site'),
        () => agent.log(),
      );
      await agent.signal('SIGTERM');
    });
  });

  test('for six days attests again with its key, once', async () => {
    await daysLater(6, async (_site, start) => {
      const agent = await start(startAgent);
      await until(
        () => agent.log().includes('connected to the site'),
        () => agent.log(),
      );
      const audited = await at(6, 'audit', 'list', '--verb', 'agent.reattest', '-o', 'json');
      assert.equal(audited.stdout.match(/"verb": ?"agent\.reattest"/g)?.length, 1, audited.stdout);
    });
  });

  test('for longer than the site accepts its key is told what to do, and so is the operator', async () => {
    await daysLater(20, async (_site, start) => {
      const agent = await start(async (...how) => spawnAgent(...how));
      assert.equal(await agent.ended, 7);
      assert.match(agent.log(), /its key could renew it until .*hansa agent forget crane-1/);
      const expired = ['agents', 'crane-1', '--for', 'jsonpath={.status.state}=Expired'];
      const waited = await at(20, 'wait', ...expired);
      assert.equal(waited.code, 0, waited.stderr);
      const listed = await at(20, 'agent', 'list');
      assert.match(listed.stdout, /crane-1 +Expired .*Run hansa agent forget crane-1/);
    });
  });
});
