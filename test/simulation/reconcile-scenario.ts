// Controllers on several replicas of a site: the lease holder copies the desired state into the
// observed state. Replicas crash and pause, disks and runs fail, and changes continue.
//
// Invariants: a process never reconciles one key twice at the same time. Writes of an older epoch
// never follow those of a newer one. The controller retries a key that always fails at bounded
// intervals. When changes stop, the observed state equals the desired state.

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
const longestPauseMs = 3000;
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
      simulation.nodeOf(random.pick(names))?.pause(random.integer(100, longestPauseMs));
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
  /** Half of the runs must do without resyncs, which would hide a change that was missed. */
  readonly #resyncs: boolean;
  #failing = 0.25;
  #serial = 0;
  /** From when on nobody is paused any more. */
  #awakeMs = Number.POSITIVE_INFINITY;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    this.#resyncs = simulation.random.fork('resyncs').chance(0.5);
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
      resyncMs: this.#resyncs ? 3000 : 3_600_000,
      // What was made for something that is gone is found through itself: while nobody led, nobody
      // saw the deletion.
      sources: ['desired', 'observed'].map(
        (collection) => new StoreSource({ store, clock: process.clock, collection }),
      ),
      reconcile: async (key, { epoch, signal }) => {
        this.#hold(!inside.has(key), `${key} is worked on twice at once`);
        inside.add(key);
        try {
          if (key === 'poison') {
            const nowMs = process.clock.monotonic();
            if (
              poisoned !== undefined &&
              poisoned.epoch === epoch &&
              poisoned.atMs > this.#awakeMs
            ) {
              const gapMs = nowMs - poisoned.atMs;
              this.#hold(gapMs <= backOff.longestMs + 50, `poison rested for ${gapMs} ms`);
            }
            poisoned = { epoch, atMs: nowMs };
            throw new Error('poison');
          }
          await sleep(process.clock, random.integer(0, 30), signal);
          if (random.chance(this.#failing)) {
            if (this.#resyncs && random.chance(0.2)) throw new TerminalError('this time for good');
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

  /** What is observed is what is desired, and with it who wrote it: `value@epoch`. */
  async #copy(process: Process, store: Store, name: string, epoch: number): Promise<void> {
    const desired = store.get('desired', name)?.value.toString();
    const observed = store.get('observed', name)?.value.toString();
    if (observed?.split('@')[0] === desired) return;
    const fence = { lease: 'copy', epoch };
    const value = Buffer.from(`${desired}@${epoch}`);
    await store.commit(
      desired === undefined
        ? { fence, delete: [{ collection: 'observed', name }] }
        : { fence, put: [{ collection: 'observed', name, encode: () => value }] },
    );
    this.#simulation.event(`${process.node} copied ${name} in epoch ${epoch}`);
  }

  /** Inside of a reconciler an assertion would only be one more failure to try again after. */
  #hold(holds: boolean, otherwise: string): void {
    if (!holds) this.#simulation.fail(new Error(otherwise));
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
    this.#awakeMs = this.#simulation.clock.monotonic() + longestPauseMs;
    this.#failing = 0;
    this.#database.faults = noDiskFaults;
    this.#simulation.event('calm');
  }

  check(): void {
    const desired = new Map<string, string>();
    const observed = new Map<string, string>();
    let highestEpoch = 0;
    for (const { collection, name, value } of this.#database.written.flatMap((b) => b.changes)) {
      const [text = '', epoch] = value?.toString().split('@') ?? [];
      const state = collection === 'desired' ? desired : observed;
      if (value === undefined) state.delete(name);
      else state.set(name, text);
      if (epoch === undefined) continue;
      assert.ok(Number(epoch) >= highestEpoch, `epoch ${epoch} wrote after ${highestEpoch}`);
      highestEpoch = Number(epoch);
    }
    desired.delete('poison');
    assert.deepEqual(observed, desired);
    assert.ok(highestEpoch > 0, 'nothing was ever copied');
  }
}
