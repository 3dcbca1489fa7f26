// Deterministic simulation in one process: several nodes, a network and disks that fail, and
// virtual time, which advances only when no task can run. One seed determines a run, so a failed
// run can be repeated exactly.
//
// This folder contains the simulator (this file, network.ts, disk.ts), the scenarios, and the
// runner of many seeds. Simulated code must take clock, randomness and transport from its node, and
// must wait only for these and for promises.

import { createLog } from '../../src/core/log/json-log.ts';
import type { Log } from '../../src/core/log/log.ts';
import { SeededRandom } from '../../src/core/clock/seeded-random.ts';
import {
  LocalClock,
  type LocalClockOptions,
  settle,
  VirtualClock,
} from '../../src/core/clock/virtual.ts';
import { Network, type NetworkFaults } from './network.ts';
import { Trace } from './trace.ts';
import type { NodeTransport } from './node-transport.ts';

/** One life of a node: from its start to its crash. */
export interface Process {
  readonly node: string;
  /** Counts the lives of the node from 1. */
  readonly life: number;
  readonly clock: LocalClock;
  /** Differs from life to life. */
  readonly random: SeededRandom;
  readonly transport: NodeTransport;
  readonly log: Log;
  readonly alive: boolean;
  /** Runs it, and makes the run fail where it does. Errors after the process died are of no interest. */
  spawn(task: () => Promise<void>): void;
}

export type Boot = (process: Process) => void;

class RunningProcess implements Process {
  alive = true;
  readonly node: string;
  readonly life: number;
  readonly clock: LocalClock;
  readonly random: SeededRandom;
  readonly transport: NodeTransport;
  readonly log: Log;
  readonly #simulation: Simulation;

  constructor(simulation: Simulation, node: SimulatedNode, life: number) {
    this.#simulation = simulation;
    this.node = node.name;
    this.life = life;
    this.clock = new LocalClock(simulation.clock, node.clockOptions);
    this.random = simulation.random.fork(`node/${node.name}/${life}`);
    this.transport = simulation.network.attach(this);
    this.log = createLog({
      sink: {
        write: (line: string) => simulation.event(`${node.name} ${line.slice(25).trimEnd()}`),
      },
      clock: simulation.clock,
      level: 'warn',
      format: 'text',
    });
  }

  spawn(task: () => Promise<void>): void {
    task().catch((error: unknown) => {
      if (this.alive) this.#simulation.fail(error);
    });
  }
}

export class SimulatedNode {
  readonly name: string;
  readonly clockOptions: LocalClockOptions;
  readonly #simulation: Simulation;
  readonly #boot: Boot;
  #process: RunningProcess | undefined;
  #lives = 0;
  #resumedMs = -1;

  constructor(simulation: Simulation, name: string, boot: Boot, clockOptions: LocalClockOptions) {
    this.#simulation = simulation;
    this.name = name;
    this.#boot = boot;
    this.clockOptions = clockOptions;
  }

  get process(): Process | undefined {
    return this.#process;
  }

  get up(): boolean {
    return this.#process !== undefined;
  }

  /** Whether it is up and has had the time to notice that it was paused. */
  get awake(): boolean {
    const process = this.#process;
    return (
      process !== undefined &&
      !process.clock.paused &&
      this.#simulation.clock.monotonic() > this.#resumedMs
    );
  }

  start(): void {
    if (this.#process !== undefined) return;
    this.#simulation.event(`${this.name} starts`);
    this.#process = new RunningProcess(this.#simulation, this, ++this.#lives);
    this.#boot(this.#process);
  }

  /** Dies at once, with everything that it had in memory and under way. */
  crash(): void {
    const process = this.#process;
    if (process === undefined) return;
    this.#simulation.event(`${this.name} crashes`);
    this.#process = undefined;
    process.alive = false;
    process.clock.kill();
    this.#simulation.network.detach(process);
  }

  /** Stands still for so long, as in a long collection of garbage or on a suspended machine. */
  pause(forMs: number): void {
    const process = this.#process;
    if (process === undefined || process.clock.paused) return;
    this.#simulation.event(`${this.name} pauses for ${forMs} ms`);
    process.clock.pause();
    this.#simulation.clock.timer(forMs, () => {
      if (!process.alive) return;
      this.#simulation.event(`${this.name} goes on`);
      this.#resumedMs = this.#simulation.clock.monotonic();
      process.clock.resume();
    });
  }
}

export class Simulation {
  readonly seed: string;
  readonly clock = new VirtualClock();
  readonly random: SeededRandom;
  readonly trace = new Trace();
  readonly network: Network;
  readonly #nodes = new Map<string, SimulatedNode>();
  #failure: { readonly error: unknown } | undefined;

  constructor(seed: string | number, faults: Partial<NetworkFaults> = {}) {
    this.seed = String(seed);
    this.random = new SeededRandom(this.seed);
    this.network = new Network(this, faults);
  }

  /** Adds a node and starts it. */
  node(name: string, boot: Boot, clockOptions: LocalClockOptions = {}): SimulatedNode {
    const node = new SimulatedNode(this, name, boot, clockOptions);
    this.#nodes.set(name, node);
    node.start();
    return node;
  }

  nodeOf(name: string): SimulatedNode | undefined {
    return this.#nodes.get(name);
  }

  event(event: string): void {
    this.trace.add(this.clock.monotonic(), event);
  }

  /** Ends the run with this error; the first one counts. */
  fail(error: unknown): void {
    this.#failure ??= { error };
  }

  /** Does something at random times, `meanMs` apart on average, until the time given. */
  often(label: string, meanMs: number, untilMs: number, act: (random: SeededRandom) => void): void {
    const random = this.random.fork(`often/${label}`);
    const next = (): void => {
      const delayMs = random.unit() * 2 * meanMs;
      if (this.clock.monotonic() + delayMs >= untilMs) return;
      this.clock.timer(delayMs, () => {
        act(random);
        next();
      });
    };
    next();
  }

  /** Lets time pass; throws what failed meanwhile. */
  async run(ms: number): Promise<void> {
    const untilMs = this.clock.monotonic() + ms;
    // In steps, so that a failure ends the run soon after it happened.
    while (this.clock.monotonic() < untilMs) {
      await this.clock.advance(Math.min(250, untilMs - this.clock.monotonic()));
      if (this.#failure !== undefined) throw this.#failure.error;
    }
    await settle();
    if (this.#failure !== undefined) throw this.#failure.error;
  }
}
