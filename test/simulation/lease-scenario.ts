// Several holders compete for one lease over a network that loses, delays and duplicates messages.
// Holders pause and crash, and have clocks that drift or are wrong. The database crashes too.
//
// Invariants: no two running holders hold the lease at the same time. The database accepts writes
// of one holder per epoch, and never of an older epoch after a newer one. Epochs only grow. When
// the faults end, one holder gets the lease and writes.

import assert from 'node:assert/strict';
import type { JsonObject } from '../../src/api/object.ts';
import { sleep } from '../../src/core/clock/clock.ts';
import { hasCode, toHansaError } from '../../src/core/errors/error.ts';
import { type HeldLease, holdLease } from '../../src/core/lease/lease.ts';
import type { LeaseState, LeaseTable, Store } from '../../src/core/store/store.ts';
import { noDiskFaults, SimulatedDatabase } from './disk.ts';
import type { Scenario } from './seeds.ts';
import type { Process, Simulation } from './simulation.ts';
import type { NodeTransport } from './node-transport.ts';

const lease = 'league';
const durationMs = 3000;
const busyMs = 25_000;
/** An expired lease is taken within a duration, and so is one whose holder must first notice. */
const quietMs = 4 * durationMs;

export const leaseScenario: Scenario = {
  name: 'lease',
  async run(simulation) {
    const world = new World(simulation);
    const setup = simulation.random.fork('setup');
    simulation.node('db', (process) => world.bootDatabase(process));
    const names = ['h1', 'h2', 'h3', 'h4'].slice(0, setup.integer(2, 4));
    for (const name of names) {
      simulation.node(name, (process) => world.bootHolder(process), {
        skewMs: setup.integer(-3_600_000, 3_600_000),
        // Ten times worse than the worst crystal (200 ppm), and well within the third of the
        // duration that holders keep as a margin.
        rate: 1 + (setup.unit() - 0.5) * 0.004,
      });
    }
    world.watch(names);
    const anyNode = ['db', ...names];
    simulation.often('partition', 4000, busyMs, (random) => {
      const alone = random.pick(names);
      simulation.network.partition(
        [alone],
        anyNode.filter((name) => name !== alone),
      );
    });
    simulation.often('heal', 4000, busyMs, () => simulation.network.heal());
    simulation.often('pause', 3000, busyMs, (random) => {
      simulation.nodeOf(random.pick(names))?.pause(random.integer(100, 3 * durationMs));
    });
    simulation.often('crash', 4000, busyMs, (random) => {
      const node = simulation.nodeOf(random.pick(anyNode));
      node?.crash();
      simulation.clock.timer(random.integer(10, 2000), () => node?.start());
    });
    simulation.often('jump', 2000, busyMs, (random) => {
      const by = random.integer(-86_400_000, 86_400_000);
      simulation.nodeOf(random.pick(names))?.process?.clock.jumpWall(by);
    });
    await simulation.run(busyMs);
    world.calm();
    for (const name of anyNode) simulation.nodeOf(name)?.start();
    await simulation.run(quietMs);
    world.check();
  },
};

class World {
  readonly #simulation: Simulation;
  readonly #database: SimulatedDatabase;
  /** Who believes to hold the lease, by node. */
  readonly #terms = new Map<string, HeldLease>();
  readonly #holderOf = new Map<number, string>();
  #highestEpoch = 0;
  #lastWriteMs = 0;
  #calmMs = 0;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    this.#database = new SimulatedDatabase(simulation, {
      longestDelayMs: 4,
      full: 0.02,
      unknown: 0.02,
    });
  }

  bootDatabase(process: Process): void {
    process.spawn(async () => {
      const store = await this.#database.open(process);
      process.transport.serve({
        request: async (_, path, body) => this.#answer(store, path, body as JsonObject),
      });
    });
  }

  async #answer(store: Store, path: string, body: JsonObject): Promise<JsonObject | null> {
    const holder = body['holder'] as string;
    const epoch = Number(body['epoch']);
    switch (path) {
      case 'acquire':
        return wire(await store.leases.acquire(lease, holder, durationMs));
      case 'renew':
        return wire(await store.leases.renew(lease, holder, epoch, durationMs));
      case 'release':
        await store.leases.release(lease, holder, epoch);
        return null;
      default:
        await store.commit({
          fence: { lease, epoch },
          put: [{ collection: 'things', name: 'x', encode: () => Buffer.from(holder) }],
        });
        this.#accepted(holder, epoch);
        return null;
    }
  }

  #accepted(holder: string, epoch: number): void {
    const simulation = this.#simulation;
    simulation.event(`write of ${holder} accepted in epoch ${epoch}`);
    const known = this.#holderOf.get(epoch);
    if (known !== undefined && known !== holder) {
      simulation.fail(new Error(`${known} and ${holder} both wrote in epoch ${epoch}`));
    }
    if (epoch < this.#highestEpoch) {
      simulation.fail(new Error(`epoch ${epoch} wrote after epoch ${this.#highestEpoch}`));
    }
    this.#holderOf.set(epoch, holder);
    this.#highestEpoch = epoch;
    this.#lastWriteMs = simulation.clock.monotonic();
  }

  bootHolder(process: Process): void {
    const holder = `${process.node}/${process.life}`;
    this.#terms.delete(process.node);
    holdLease(
      {
        leases: remoteLeases(process.transport),
        name: lease,
        holder,
        durationMs,
        clock: process.clock,
        random: process.random.fork('lease'),
        log: process.log,
      },
      async (held) => {
        this.#simulation.event(`${holder} begins epoch ${held.epoch}`);
        this.#terms.set(process.node, held);
        await this.#writeWhileHeld(process, holder, held);
        this.#simulation.event(`${holder} ends epoch ${held.epoch}`);
      },
    );
  }

  async #writeWhileHeld(process: Process, holder: string, held: HeldLease): Promise<void> {
    while (!held.signal.aborted) {
      try {
        await process.transport.request('db', 'write', { holder, epoch: held.epoch });
      } catch (error) {
        const { code } = toHansaError(error);
        assert.notEqual(code, 'HANSA_INTERNAL', String(error));
        if (hasCode(error, 'HANSA_FENCED')) throw error;
      }
      await sleep(process.clock, process.random.integer(20, 300), held.signal).catch(
        () => undefined,
      );
    }
  }

  /** Looks every few milliseconds who believes to hold the lease. */
  watch(names: readonly string[]): void {
    const look = (): void => {
      const believers = names.filter(
        (name) =>
          this.#simulation.nodeOf(name)?.awake === true &&
          this.#terms.get(name)?.signal.aborted === false,
      );
      if (believers.length > 1) {
        this.#simulation.fail(new Error(`${believers.join(' and ')} hold the lease at once`));
      }
      this.#simulation.clock.timer(7, look);
    };
    look();
  }

  calm(): void {
    this.#database.faults = noDiskFaults;
    this.#simulation.network.heal();
    this.#simulation.network.faults = { ...this.#simulation.network.faults, loss: 0 };
    this.#calmMs = this.#simulation.clock.monotonic();
    this.#simulation.event('calm');
  }

  check(): void {
    assert.ok(
      this.#lastWriteMs > this.#calmMs + durationMs,
      'nobody holds the lease when all is well',
    );
    let epoch = 0;
    for (const { leases } of this.#database.written) {
      for (const state of leases) {
        assert.ok(state.epoch >= epoch, `the epoch fell from ${epoch} to ${state.epoch}`);
        epoch = state.epoch;
      }
    }
  }
}

/** The lease table of a store at the other end of the network. */
function remoteLeases(transport: NodeTransport): LeaseTable {
  const call = async (path: string, body: JsonObject): Promise<LeaseState | undefined> =>
    ((await transport.request('db', path, body)) ?? undefined) as LeaseState | undefined;
  return {
    acquire: (name, holder, ms) => call('acquire', { name, holder, ms }),
    renew: (name, holder, epoch, ms) => call('renew', { name, holder, epoch, ms }),
    release: async (name, holder, epoch) => void (await call('release', { name, holder, epoch })),
    list: () => Promise.reject(new Error('nobody lists here')),
  };
}

function wire(state: LeaseState | undefined): JsonObject | null {
  return state === undefined ? null : { ...state };
}
