// Agents of a site with two replicas, over a network with partitions, with crashes of agents and
// replicas, while operators change entries, labels and federations, and forget agents.
//
// Invariants: an agent holds exactly the entries that were assigned to it at the revision of its state.
// It never goes back behind an epoch or a revision that it stored, also not across restarts. What a replica
// keeps current step by step equals what a new replica computes from the store. An agent with one process
// is never conflicted. After the faults end, every agent holds the state of the last revision, and a
// forgotten agent holds nothing.

import assert from 'node:assert/strict';
import { workloadEntryKind } from '../../src/api/kinds/workload-entry.ts';
import type { SeededRandom } from '../../src/core/clock/seeded-random.ts';
import { hashState, type StateVersion } from '../../src/core/agent/state.ts';
import type { Store } from '../../src/core/store/store.ts';
import { SiteAuthority } from '../../src/core/identity/authority/authority.ts';
import { MemoryVault } from '../../src/core/identity/authority/test-vault.ts';
import { generateEd25519 } from '../../src/core/identity/x509/keys.ts';
import { AgentOperators } from './agent-operators.ts';
import { type SiteReplica, startReplica, trustDomain } from './agent-replica.ts';
import { AssignmentHistory } from './assignment-history.ts';
import { noDiskFaults, SimulatedDatabase } from './disk.ts';
import type { Scenario } from './seeds.ts';
import { type AgentDisk, bootAgent, type SimulatedAgent } from './simulated-agent.ts';
import type { Process, Simulation } from './simulation.ts';

const busyMs = 40_000;
const stepMs = 1000;
/** Several of the longest retries of an agent. */
const settleWithinMs = 180_000;

export const agentsScenario: Scenario = {
  name: 'agents',
  async run(simulation) {
    await new World(simulation).play();
  },
};

class World {
  readonly #simulation: Simulation;
  readonly #database: SimulatedDatabase;
  readonly #authority: Promise<SiteAuthority>;
  readonly #history: AssignmentHistory;
  readonly #replicaNames = ['r1', 'r2'];
  readonly #agentNames: readonly string[];
  readonly #replicas = new Map<string, SiteReplica>();
  readonly #agents = new Map<string, SimulatedAgent>();
  readonly #disks = new Map<string, AgentDisk>();
  /** The newest version that each agent stored since it joined. */
  readonly #newest = new Map<string, { readonly epoch: number; readonly revision: number }>();
  readonly #operators: AgentOperators;
  #accepted = 0;
  /** An agent that is there in the end. */
  #returns = '';

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    const setup = simulation.random.fork('setup');
    this.#database = new SimulatedDatabase(simulation, noDiskFaults);
    this.#authority = SiteAuthority.open({
      trustDomain,
      clock: simulation.clock,
      random: simulation.random.fork('authority'),
      vault: new MemoryVault(),
      generateKey: generateEd25519,
    });
    this.#history = new AssignmentHistory(this.#database);
    this.#agentNames = ['a1', 'a2', 'a3', 'a4'].slice(0, setup.integer(2, 4));
    this.#operators = new AgentOperators({
      simulation,
      agentNames: this.#agentNames,
      stores: () => this.#awake().map(([node, { store }]) => [node, store]),
    });
    for (const name of this.#replicaNames) {
      simulation.node(name, (process) => this.#bootReplica(process), {
        skewMs: setup.integer(-2000, 2000),
      });
    }
    for (const name of this.#agentNames) {
      this.#disks.set(name, {});
      simulation.node(name, (process) => this.#bootAgent(process), {
        skewMs: setup.integer(-60_000, 60_000),
        rate: 1 + (setup.unit() - 0.5) * 0.0004,
      });
    }
  }

  async play(): Promise<void> {
    await this.#simulation.run(100);
    for (const name of this.#agentNames) this.#join(name);
    await this.#simulation.run(2000);
    this.#database.faults = this.#simulation.random.chance(0.3)
      ? { longestDelayMs: 20, full: 0.02, unknown: 0.02 }
      : { longestDelayMs: 20, full: 0, unknown: 0 };
    this.#disturb();
    await this.#simulation.run(busyMs);
    this.#calm();
    await this.#settle();
    assert.ok(this.#accepted > 0, 'an agent accepted a state');
  }

  #bootReplica(process: Process): void {
    this.#replicas.delete(process.node);
    process.spawn(async () => {
      const replica = await startReplica({
        process,
        database: this.#database,
        authority: await this.#authority,
        conflicted: (instance) =>
          this.#simulation.fail(new Error(`${instance} is conflicted, but has one process`)),
      });
      if (process.alive) this.#replicas.set(process.node, replica);
    });
  }

  #bootAgent(process: Process): void {
    const { node } = process;
    this.#agents.delete(node);
    const choice = process.random.fork('replica');
    process.spawn(async () => {
      const agent = await bootAgent({
        process,
        disk: this.#disks.get(node) as AgentDisk,
        replica: () => choice.pick(this.#replicaNames),
        applied: (store, version) => {
          this.#accepted += 1;
          this.#check(node, store, version);
        },
        kept: ({ epoch, revision }) => this.#newest.set(node, { epoch, revision }),
      });
      this.#agents.set(node, agent);
      this.#check(node, agent.store, agent.version);
    });
  }

  #awake(): readonly (readonly [string, SiteReplica])[] {
    return [...this.#replicas].filter(([node]) => this.#simulation.nodeOf(node)?.awake === true);
  }

  #disturb(): void {
    const simulation = this.#simulation;
    const untilMs = simulation.clock.monotonic() + busyMs;
    const often = (label: string, meanMs: number, act: (random: SeededRandom) => void): void =>
      simulation.often(label, meanMs, untilMs, act);
    const all = [...this.#replicaNames, ...this.#agentNames];
    often('entry', 400, (random) => this.#operators.changeEntry(random));
    often('relation', 700, (random) => this.#operators.changeRelation(random));
    often('label', 2000, (random) => {
      const name = random.pick(this.#agentNames);
      if (this.#history.agentExists(name)) this.#operators.label(name, random);
    });
    often('forget', 8000, (random) => this.#operators.forget(random.pick(this.#agentNames)));
    often('join', 1500, (random) => this.#join(random.pick(this.#agentNames)));
    often('partition', 6000, (random) => {
      const alone = random.pick(all);
      simulation.network.partition(
        [alone],
        all.filter((name) => name !== alone),
      );
    });
    often('heal', 5000, () => simulation.network.heal());
    often('crash', 4000, (random) => {
      const node = simulation.nodeOf(random.pick(all));
      node?.crash();
      simulation.clock.timer(random.integer(10, 3000), () => node?.start());
    });
    often('pause', 8000, (random) =>
      simulation.nodeOf(random.pick(all))?.pause(random.integer(100, 9000)),
    );
    often('compare', 1500, () => this.#compare());
  }

  #calm(): void {
    this.#simulation.event('calm');
    this.#database.faults = noDiskFaults;
    this.#simulation.network.heal();
    this.#simulation.network.faults = { ...this.#simulation.network.faults, loss: 0 };
    for (const name of this.#replicaNames) this.#simulation.nodeOf(name)?.start();
    // Some stay forgotten.
    const [first, ...others] = this.#agentNames as [string, ...string[]];
    for (const name of others) this.#simulation.nodeOf(name)?.start();
    this.#returns = first;
  }

  /** A forgotten name joins as a new agent: without labels, state or floor. */
  #join(name: string): void {
    if (this.#history.agentExists(name)) return;
    const node = this.#simulation.nodeOf(name);
    node?.crash();
    this.#disks.set(name, {});
    this.#newest.delete(name);
    this.#operators.join(name, () => node?.start());
  }

  /** What the agent holds now is what was assigned to it at the revision of its state. */
  #check(name: string, store: Store, version: StateVersion | undefined): void {
    const held = store.list(workloadEntryKind.plural).entries.map((entry) => entry.name);
    if (version === undefined) {
      assert.deepEqual(held, [], `${name} serves entries without a state`);
      return;
    }
    const { epoch, revision } = version;
    this.#simulation.event(`${name} holds ${held.join()} of ${epoch}/${revision}`);
    assert.deepEqual(
      held,
      this.#history.entriesOf(name, revision),
      `${name} holds other entries than were assigned to it at revision ${revision}`,
    );
    const before = this.#newest.get(name);
    if (before !== undefined) {
      assert.ok(epoch >= before.epoch, `${name} went back from epoch ${before.epoch} to ${epoch}`);
      assert.ok(
        revision >= before.revision,
        `${name} went back from revision ${before.revision} to ${revision}`,
      );
    }
  }

  /** The items that a replica keeps current equal those of a new one. */
  #compare(): void {
    for (const [node, replica] of this.#awake()) {
      const other = replica.newSection();
      for (const name of this.#agentNames) {
        assert.ok(
          hashState(replica.sections.itemsOf(name)).equals(hashState(other.itemsOf(name))),
          `${node} keeps another state of ${name} than it computes from the store`,
        );
      }
    }
  }

  async #settle(): Promise<void> {
    const startedMs = this.#simulation.clock.monotonic();
    for (;;) {
      await this.#simulation.run(stepMs);
      this.#compare();
      const problem = this.#problem();
      if (problem === undefined) return;
      const sinceMs = this.#simulation.clock.monotonic() - startedMs;
      assert.ok(sinceMs < settleWithinMs, `after ${sinceMs} ms of calm: ${problem}`);
    }
  }

  #problem(): string | undefined {
    const [replica] = this.#replicas.values();
    if (replica === undefined) return 'no replica is up';
    if (!this.#history.agentExists(this.#returns)) {
      this.#join(this.#returns);
      return `${this.#returns} has not joined again`;
    }
    this.#simulation.nodeOf(this.#returns)?.start();
    for (const name of this.#agentNames) {
      const agent = this.#agents.get(name);
      if (agent === undefined) return `${name} is not up`;
      if (!this.#history.agentExists(name)) {
        const held = agent.store.list(workloadEntryKind.plural).entries.length;
        if (!agent.isForgotten && held > 0) return `${name} does not know that it was forgotten`;
        continue;
      }
      if (agent.isForgotten) {
        // It joined again while it was away; an operator starts it again.
        this.#restart(name);
        return `${name} believes that it was forgotten`;
      }
      if (!agent.link.status.connected) return `${name} is not connected`;
      if (!agent.hash.equals(hashState(replica.sections.itemsOf(name)))) {
        return `${name} holds another state than its site`;
      }
    }
    return undefined;
  }

  #restart(name: string): void {
    const node = this.#simulation.nodeOf(name);
    node?.crash();
    node?.start();
  }
}
