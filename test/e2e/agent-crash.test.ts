// Kills an agent, or its site, with SIGKILL at each step of the life of an agent. The agent is started
// again whenever it ends, as systemd does, and must serve its workload without help of an operator.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, type TestContext, test } from 'node:test';
import { workloadEntryKind } from '../../src/api/kinds/workload-entry.ts';
import { trustPlane } from '../../src/trust/plane.ts';
import { joiningOf } from '../interop/site-agent.ts';
import { missingTools, requireTool } from '../interop/tool.ts';
import { startWorkloadSite } from '../interop/workload-site.ts';
import { type AgentProcess, type Joining, spawnAgent, startAgent } from './agent-process.ts';
import { applyTo, asAdmin, joiningAt } from './agent-site.ts';
import { execute, temporaryFolder } from './daemon.ts';
import { MovableClock } from './movable-clock.ts';
import { PeeringSite } from './peering-pair.ts';
import { until } from './until.ts';

const skip = await missingTools('go-spiffe');
const worker = 'spiffe://lubeck.example/worker';

/** An agent that is started again whenever it ends. */
class SupervisedAgent {
  readonly dataDir: string;
  readonly #joining: Joining;
  #process: AgentProcess;
  #starts = 0;
  #isStopped = false;

  constructor(dataDir: string, joining: Joining) {
    this.dataDir = dataDir;
    this.#joining = joining;
    this.#process = this.#start();
  }

  /** How often it was started. */
  get starts(): number {
    return this.#starts;
  }

  get log(): string {
    return this.#process.log();
  }

  get socket(): string {
    return this.#process.socket;
  }

  hasFile(name: string): boolean {
    return existsSync(join(this.dataDir, 'secrets', 'identity', name));
  }

  async kill(): Promise<void> {
    await this.#process.signal('SIGKILL');
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#process.signal('SIGTERM');
  }

  #start(): AgentProcess {
    this.#starts += 1;
    const agent = spawnAgent(this.dataDir, this.#joining);
    void agent.ended.then(() => {
      if (!this.#isStopped) this.#process = this.#start();
      return undefined;
    });
    return agent;
  }
}

interface Step {
  readonly name: string;
  /** Whether the agent must survive a crash of the site in this step. */
  readonly survives: boolean;
  readonly reached: (agent: SupervisedAgent, name: string) => boolean | Promise<boolean>;
}

suite('a crash', { skip }, () => {
  const folder = temporaryFolder();
  const lubeck = new PeeringSite(folder, 'lubeck');
  let program: string;
  let count = 0;

  before(async () => {
    program = await requireTool('go-spiffe');
    await lubeck.start();
    await applyTo(lubeck, 'WorkloadEntry', 'worker', {
      spiffeID: worker,
      selectors: [`unix:path:${program}`],
      agents: { selector: { matchLabels: { fleet: 'crash' } } },
    });
  });
  after(() => lubeck.stop());

  const steps: readonly Step[] = [
    {
      name: 'while it joins',
      survives: false,
      reached: (agent) => agent.hasFile('svid.key.next') || agent.hasFile('join.json'),
    },
    { name: 'after it joined', survives: true, reached: (agent) => agent.hasFile('join.json') },
    {
      name: 'when it has connected',
      survives: true,
      reached: (agent) => /connected to the site/.test(agent.log),
    },
    {
      name: 'when the site signs for it',
      survives: true,
      reached: async (_, name) => {
        const path = '/hansa/v1/audit/events?verb=svid.issue&limit=500';
        const { text } = await asAdmin(lubeck, (admin) => admin.get(path));
        return text.includes(`/hansa/agent/${name}"`);
      },
    },
    { name: 'while it serves', survives: true, reached: ({ socket }) => existsSync(socket) },
  ];

  const fetch = (agent: SupervisedAgent) =>
    execute(program, ['fetch'], { env: { SPIFFE_ENDPOINT_SOCKET: `unix://${agent.socket}` } });

  const untilServed = (agent: SupervisedAgent): Promise<void> =>
    until(
      async () => {
        const { code, stdout } = await fetch(agent);
        return code === 0 && stdout.includes(worker);
      },
      () => `its workload has no SVID: ${agent.log}`,
    );

  const startJoining = async (t: TestContext): Promise<readonly [SupervisedAgent, string]> => {
    const name = `crane-${count++}`;
    const joining = await joiningAt(lubeck, name, { fleet: 'crash' });
    const agent = new SupervisedAgent(join(folder, name), joining);
    t.after(() => agent.stop());
    return [agent, name];
  };

  for (const { name: step, survives, reached } of steps) {
    test(`of an agent ${step} leaves an agent that serves`, async (t) => {
      const [agent, name] = await startJoining(t);
      await until(
        () => reached(agent, name),
        () => agent.log,
      );
      await agent.kill();
      await untilServed(agent);
      assert.ok(agent.starts >= 2);
    });

    test(`of the site ${step} leaves an agent that serves`, async (t) => {
      const [agent, name] = await startJoining(t);
      await until(
        () => reached(agent, name),
        () => agent.log,
      );
      await lubeck.stop('SIGKILL');
      await lubeck.start();
      await untilServed(agent);
      if (survives) assert.equal(agent.starts, 1, 'the agent itself goes on');
    });
  }

  test('of both leaves an agent that serves', async (t) => {
    const [agent] = await startJoining(t);
    await untilServed(agent);
    await Promise.all([agent.kill(), lubeck.stop('SIGKILL')]);
    await lubeck.start();
    await untilServed(agent);
  });

  test('of an agent does not bring back an entry that it has heard was deleted', async (t) => {
    const [agent, name] = await startJoining(t);
    await applyTo(lubeck, 'WorkloadEntry', 'passing', {
      spiffeID: 'spiffe://lubeck.example/passing',
      selectors: [`unix:path:${program}`],
      agents: { names: [name] },
    });
    const holds = async (): Promise<boolean> => (await fetch(agent)).stdout.includes('/passing');
    await until(holds, 'the workload has both SVIDs');
    await lubeck.must(['delete', 'workloadentry', 'passing']);
    await until(async () => !(await holds()), 'the workload has lost one');
    // The agent must not need the site to know that.
    await lubeck.stop('SIGKILL');
    await agent.kill();
    await until(async () => {
      const { stdout, stderr } = await fetch(agent);
      assert.ok(!stdout.includes('/passing'), 'the deleted entry is served again');
      return stdout.includes(worker) || /PermissionDenied|Unavailable/.test(stderr);
    });
    await lubeck.start();
    await untilServed(agent);
  });
});

suite('a crash of an agent while it renews its SVID', { skip }, () => {
  test('leaves an agent that renews again', async (t) => {
    // The clock of the site is slow, so the SVID of the agent is past its half-life from the beginning.
    const behindMs = 45 * 60_000;
    const clock = new MovableClock();
    clock.move(-behindMs);
    const site = await startWorkloadSite('lubeck.example', [trustPlane], {}, clock);
    t.after(() => site.stop());
    const program = await requireTool('go-spiffe');
    const made = await site.apply(workloadEntryKind, 'worker', {
      spiffeID: worker,
      selectors: [`unix:path:${program}`],
      agents: { names: ['crane-1'] },
    });
    assert.equal(made.status, 201, made.text);
    const folder = temporaryFolder();
    const joining = await joiningOf(site, 'crane-1');
    const first = spawnAgent(join(folder, 'crane-1'), joining);
    t.after(() => first.signal('SIGKILL'));
    const identity = join(first.dataDir, 'secrets', 'identity');
    const generation = (): string | undefined => {
      const file = join(identity, 'join.json');
      if (!existsSync(file)) return undefined;
      return (JSON.parse(readFileSync(file, 'utf8')) as { readonly generation: string }).generation;
    };
    await until(
      () => generation() !== undefined && existsSync(join(identity, 'svid.key.next')),
      () => `it does not renew: ${first.log()}`,
    );
    const killedAt = Number(generation());
    await first.signal('SIGKILL');
    const again = await startAgent(first.dataDir);
    t.after(() => again.signal('SIGKILL'));
    await until(
      () => Number(generation()) > killedAt,
      () => `it does not renew again: ${again.log()}`,
    );
    clock.move(behindMs);
    const env = { SPIFFE_ENDPOINT_SOCKET: `unix://${again.socket}` };
    await until(
      async () => (await execute(program, ['fetch'], { env })).stdout.includes(worker),
      () => again.log(),
    );
  });
});
