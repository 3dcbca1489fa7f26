// Controllers on several replicas of a site: one of them, under a lease, copies what is desired into
// what is observed. Nodes crash and pause, disks fail, runs fail, and changes keep coming.
//
// Held: one key is never worked on twice at once in a process; writes of an older term never follow
// those of a newer one; a key that always fails is tried again at bounded intervals; and when it is
// quiet, everything desired is observed.

import assert from 'node:assert/strict';
import { sleep } from '../../src/core/clock/clock.ts';
import { toHansaError } from '../../src/core/errors/error.ts';
import { MetricsRegistry } from '../../src/core/metrics/registry.ts';
import { type Controller, TerminalError } from '../../src/core/reconcile/controller.ts';
import { LeaseLeadership } from '../../src/core/reconcile/lease-leadership.ts';
import { ReconcileRuntime } from '../../src/core/reconcile/runtime.ts';
import { StoreSource } from '../../src/core/reconcile/source.ts';
import type { Store } from '../../src/core/store/store.ts';
import { noDiskFaults, SimulatedDatabase } from './disk.ts';
import type { Scenario } from './seeds.ts';
import type { Process, Simulation } from './simulation.ts';

const keys = ['a', 'b', 'c', 'd', 'e', 'poison'];
const backOff = { firstMs: 10, longestMs: 500 };
const leaseMs = 1500;
const busyMs = 8000;
const quietMs = 12_000;

export const reconcileScenario: Scenario = {
  name: 'reconcile',
  async run(simulation) {
    const world = new World(simulation);
    const names = ['n1', 'n2', 'n3'].slice(0, simulation.random.fork('nodes').integer(1, 3));
    for (const name of names) simulation.node(name, (process) => world.boot(process));
    simulation.often('write', 60, busyMs, (random) => {
      world.write(random.pick(names), random.pick(keys), random.chance(0.15));
    });
    simulation.often('crash', 2500, busyMs, (random) => {
      const node = simulation.nodeOf(random.pick(names));
      node?.crash();
      simulation.clock.timer(random.integer(10, 1500), () => node?.start());
    });
    simulation.often('pause', 3000, busyMs, (random) => {
      simulation.nodeOf(random.pick(names))?.pause(random.integer(100, 3000));
    });
    // A watch that fell behind a compaction must list again.
    if (names.length === 1) simulation.often('compact', 1000, busyMs, () => world.compact('n1'));
    await simulation.run(busyMs);
    world.calm();
    for (const name of names) simulation.nodeOf(name)?.start();
    await simulation.run(quietMs);
    world.check();
  },
};

class World {
  readonly #simulation: Simulation;
  readonly #database: SimulatedDatabase;
  readonly #stores = new Map<string, Store>();
  #failing = 0.25;
  #highestEpoch = 0;
  #serial = 0;
  #calm = false;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    this.#database = new SimulatedDatabase(simulation, {
      longestDelayMs: 4,
      full: 0.02,
      unknown: 0.02,
    });
  }

  boot(process: Process): void {
    process.spawn(async () => {
      const store = await this.#database.open(process);
      this.#stores.set(process.node, store);
      const runtime = new ReconcileRuntime({
        clock: process.clock,
        random: process.random.fork('runtime'),
        log: process.log,
        metrics: new MetricsRegistry(),
        leadership: new LeaseLeadership({
          leases: store.leases,
          holder: `${process.node}/${process.life}`,
          durationMs: leaseMs,
          clock: process.clock,
          random: process.random.fork('lease'),
          log: process.log,
        }),
      });
      runtime.start(this.#controller(process, store));
    });
  }

  #controller(process: Process, store: Store): Controller {
    const inside = new Set<string>();
    const random = process.random.fork('controller');
    let poisoned: { readonly epoch: number | undefined; readonly atMs: number } | undefined;
    return {
      name: 'copy',
      lease: 'copy',
      parallelism: 2,
      backOff,
      resyncMs: 3000,
      // What was made for something that is gone is found through itself: while nobody led, nobody
      // saw the deletion.
      sources: ['desired', 'observed'].map(
        (collection) => new StoreSource({ store, clock: process.clock, collection }),
      ),
      reconcile: async (key, { epoch, signal }) => {
        assert.ok(!inside.has(key), `${key} is worked on twice at once`);
        inside.add(key);
        try {
          if (key === 'poison') {
            const nowMs = process.clock.monotonic();
            if (this.#calm && poisoned !== undefined && poisoned.epoch === epoch) {
              const gapMs = nowMs - poisoned.atMs;
              assert.ok(gapMs <= backOff.longestMs + 50, `poison rested for ${gapMs} ms`);
            }
            poisoned = { epoch, atMs: nowMs };
            throw new Error('poison');
          }
          await sleep(process.clock, random.integer(0, 30), signal);
          if (random.chance(this.#failing)) {
            if (random.chance(0.2)) throw new TerminalError('this time for good');
            throw new Error('this time not');
          }
          await this.#copy(process, store, key, epoch ?? 0);
          return random.chance(0.05) ? { requeueAfterMs: random.integer(1, 500) } : undefined;
        } finally {
          inside.delete(key);
        }
      },
    };
  }

  async #copy(process: Process, store: Store, key: string, epoch: number): Promise<void> {
    const name = key;
    const desired = store.get('desired', name);
    const observed = store.get('observed', name);
    if (desired === undefined ? observed === undefined : observed?.value.equals(desired.value))
      return;
    const fence = { lease: 'copy', epoch };
    await store.commit(
      desired === undefined
        ? { fence, delete: [{ collection: 'observed', name }] }
        : { fence, put: [{ collection: 'observed', name, encode: () => desired.value }] },
    );
    assert.ok(
      epoch >= this.#highestEpoch,
      `epoch ${epoch} wrote after epoch ${this.#highestEpoch}`,
    );
    this.#highestEpoch = epoch;
    this.#simulation.event(`${process.node} copied ${key} in epoch ${epoch}`);
  }

  /** Somebody changes what is desired, through any node that is up. */
  write(nodeName: string, name: string, remove: boolean): void {
    const process = this.#simulation.nodeOf(nodeName)?.process;
    const store = this.#stores.get(nodeName);
    if (process === undefined || store === undefined) return;
    const value = Buffer.from(String(++this.#serial));
    process.spawn(async () => {
      try {
        await store.commit(
          remove
            ? { delete: [{ collection: 'desired', name }] }
            : { put: [{ collection: 'desired', name, encode: () => value }] },
        );
      } catch (error) {
        const { code } = toHansaError(error);
        assert.ok(code === 'HANSA_STORE_FULL' || code === 'HANSA_UNAVAILABLE', String(error));
      }
    });
  }

  compact(nodeName: string): void {
    const process = this.#simulation.nodeOf(nodeName)?.process;
    const store = this.#stores.get(nodeName);
    if (process === undefined || store === undefined) return;
    process.spawn(() => store.compact(store.revision).catch(() => undefined));
  }

  calm(): void {
    this.#calm = true;
    this.#failing = 0;
    this.#database.faults = noDiskFaults;
    this.#simulation.event('calm');
  }

  check(): void {
    const state = new Map<string, string>();
    for (const { changes } of this.#database.written) {
      for (const { collection, name, value } of changes) {
        if (value === undefined) state.delete(`${collection}/${name}`);
        else state.set(`${collection}/${name}`, value.toString());
      }
    }
    for (const key of keys.filter((name) => name !== 'poison')) {
      assert.equal(
        state.get(`observed/${key}`),
        state.get(`desired/${key}`),
        `${key} is not observed`,
      );
    }
    assert.ok(this.#highestEpoch > 0, 'nothing was ever copied');
  }
}
