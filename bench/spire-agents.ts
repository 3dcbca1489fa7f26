// The program that bench/agents.ts compares with: a SPIRE server, a real spire-agent, and many SPIRE
// agents that ask for SVIDs in batches (BatchNewX509SVID).

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type SpireAgent,
  type SpireServer,
  startSpire,
  startSpireAgent,
} from '../test/interop/spire.ts';
import { Fleet, type Signed } from './agent-fleet.ts';
import { cpuSeconds, residentBytes } from './process-stat.ts';
import { sized } from './size.ts';
import { WorkloadStream } from './workload-stream.ts';

/** A spire-agent's own default. */
const agentIntervalMs = sized(5000, 5000, 1000);
const trustDomain = 'hamburg.example';
const agentId = `spiffe://${trustDomain}/agent`;
const ownUid = process.getuid?.() ?? 0;

export class SpireAgents {
  readonly #server: SpireServer;
  readonly #agent: SpireAgent;
  readonly #fleet: Fleet;
  readonly #workload: WorkloadStream;
  #round = 0;

  private constructor(
    server: SpireServer,
    agent: SpireAgent,
    fleet: Fleet,
    workload: WorkloadStream,
  ) {
    this.#server = server;
    this.#agent = agent;
    this.#fleet = fleet;
    this.#workload = workload;
  }

  /** With `entries` entries that all of `count` agents may ask for, and one for this process. */
  static async start(count: number, entries: number): Promise<SpireAgents> {
    const server = await startSpire(trustDomain, { unlimited: true });
    let agent: SpireAgent | undefined;
    let fleet: Fleet | undefined;
    try {
      await createEntries(server, [
        { path: 'web', parent: agentId, uid: ownUid },
        ...Array.from({ length: entries }, (_, i) => ({
          path: `load/${i}`,
          parent: `spiffe://${trustDomain}/fleet`,
          uid: 4_000_000 + i,
        })),
      ]);
      agent = await startSpireAgent(server, agentIntervalMs / 1000);
      fleet = await Fleet.open(
        '-api=spire',
        `-address=127.0.0.1:${server.port}`,
        `-trust-domain=${trustDomain}`,
        `-socket=${server.socket}`,
      );
      await fleet.connect(count);
      const workload = await WorkloadStream.first(agent.socket);
      return new SpireAgents(server, agent, fleet, workload);
    } catch (error) {
      await fleet?.close();
      await agent?.stop();
      await server.stop();
      throw error;
    }
  }

  /** With the CPU time of the server. */
  async sign(seconds: number, batch: number): Promise<Signed & { readonly cpuSeconds: number }> {
    const before = cpuSeconds([this.#server.pid]);
    const signed = await this.#fleet.sign(seconds, batch);
    return { ...signed, cpuSeconds: cpuSeconds([this.#server.pid]) - before };
  }

  /** From the command that creates an entry until the workload at the agent holds its SVID. */
  async newEntry(): Promise<number> {
    const path = `new/${this.#round++}`;
    // Anywhere between two questions of the agent, not just after one.
    await sleep(Math.random() * agentIntervalMs);
    const started = performance.now();
    await createEntries(this.#server, [{ path, parent: agentId, uid: ownUid }]);
    await this.#workload.untilSvid(`spiffe://${trustDomain}/${path}`, true, 60_000);
    return performance.now() - started;
  }

  agentBytes(): number {
    return residentBytes([this.#agent.pid]);
  }

  async stop(): Promise<void> {
    this.#workload.close();
    await this.#fleet.close();
    await this.#agent.stop();
    await this.#server.stop();
  }
}

interface NewEntry {
  readonly path: string;
  readonly parent: string;
  readonly uid: number;
}

/** In one command, as many as there are. */
async function createEntries(server: SpireServer, wanted: readonly NewEntry[]): Promise<void> {
  const file = join(server.folder, 'entries.json');
  const entries = wanted.map(({ path, parent, uid }) => ({
    spiffe_id: `spiffe://${trustDomain}/${path}`,
    parent_id: parent,
    selectors: [{ type: 'unix', value: `uid:${uid}` }],
  }));
  await writeFile(file, JSON.stringify({ entries }));
  await server.run('entry', 'create', '-data', file);
}
