// A slow, unreliable database that several nodes share and that outlives them. It records what was
// written, for scenarios to compare with.

import type { SeededRandom } from '../../src/core/clock/seeded-random.ts';
import { HansaError } from '../../src/core/errors/error.ts';
import type { Base, Batch, ChangeRow, Driver, Opened } from '../../src/core/store/driver.ts';
import { TransactionFailed } from '../../src/core/store/driver.ts';
import { defaultHistoryLimits } from '../../src/core/store/current/history.ts';
import { MemoryDatabase, MemoryDriver } from '../../src/core/store/memory/driver.ts';
import { Replica } from '../../src/core/store/replica.ts';
import type { Store } from '../../src/core/store/store.ts';
import type { Process, Simulation } from './simulation.ts';

export interface DiskFaults {
  readonly longestDelayMs: number;
  /** Of a transaction that fails, with nothing written. */
  readonly full: number;
  /** Of a transaction whose outcome the database does not tell; half of them are written. */
  readonly unknown: number;
}

export const noDiskFaults: DiskFaults = { longestDelayMs: 3, full: 0, unknown: 0 };

export class SimulatedDatabase {
  database = new MemoryDatabase();
  /** Every batch, in the order in which they became durable. */
  readonly written: Batch[] = [];
  faults: DiskFaults;
  readonly #simulation: Simulation;
  readonly #random: SeededRandom;
  #locked = false;
  readonly #waiting: { readonly process: Process; readonly enter: () => void }[] = [];

  constructor(simulation: Simulation, faults: DiskFaults) {
    this.#simulation = simulation;
    this.#random = simulation.random.fork('disk');
    this.faults = faults;
  }

  /** Opens a store of this node on the database. */
  open(process: Process): Promise<Store> {
    return Replica.open(new SimulatedDriver(this, process), {
      clock: process.clock,
      log: process.log,
      history: defaultHistoryLimits,
    });
  }

  /** Puts another database in the place of this one, while no process is up. */
  replace(database: MemoryDatabase): void {
    this.database = database;
    this.written.length = 0;
    this.#locked = false;
    this.#waiting.length = 0;
  }

  /** Takes as long as the disk does, on the clock of the world: it works on while a process is paused. */
  work(): Promise<void> {
    return new Promise((resolve) => {
      this.#simulation.clock.timer(this.#random.unit() * this.faults.longestDelayMs, resolve);
    });
  }

  chance(probability: number): boolean {
    return this.#random.chance(probability);
  }

  /** One transaction at a time, as a lock on the head row makes it. */
  lock(process: Process): Promise<void> {
    if (!this.#locked) {
      this.#locked = true;
      return Promise.resolve();
    }
    return new Promise((resolve) => this.#waiting.push({ process, enter: resolve }));
  }

  unlock(): void {
    // The connection of a process that died is gone, and its place in the line with it.
    let next = this.#waiting.shift();
    while (next?.process.alive === false) next = this.#waiting.shift();
    if (next === undefined) this.#locked = false;
    else next.enter();
  }
}

/** Writes to a copy of a database as no site does: without the rules of a commit, and without an audit record. */
export function writeRow(
  copy: MemoryDatabase,
  collection: string,
  name: string,
  value: Buffer | undefined,
): void {
  const before = [...copy.changes.values()].findLast(
    (row) => row.collection === collection && row.name === name,
  );
  const revision = copy.head.revision + 1;
  copy.changes.set(revision, {
    revision,
    collection,
    name,
    value,
    previous: before?.revision ?? 0,
  });
  copy.head = { ...copy.head, revision };
}

class SimulatedDriver implements Driver {
  readonly maxInFlight = 1;
  readonly #shared: SimulatedDatabase;
  readonly #process: Process;
  readonly #inner: MemoryDriver;

  constructor(shared: SimulatedDatabase, process: Process) {
    this.#shared = shared;
    this.#process = process;
    this.#inner = new MemoryDriver(shared.database, process.clock);
  }

  open(): Promise<Opened> {
    return this.#inner.open();
  }

  readChanges(after: number): Promise<readonly ChangeRow[]> {
    return this.#inner.readChanges(after);
  }

  async transact(build: (base: Base) => Batch | undefined): Promise<void> {
    await this.#shared.lock(this.#process);
    await this.#shared.work();
    let failed: TransactionFailed | undefined;
    try {
      // A crash before this line leaves nothing behind, one after it everything.
      if (this.#process.alive) failed = await this.#write(build);
    } finally {
      this.#shared.unlock();
    }
    await this.#answer();
    if (failed !== undefined) throw failed;
  }

  async #write(build: (base: Base) => Batch | undefined): Promise<TransactionFailed | undefined> {
    const { faults } = this.#shared;
    const full = this.#shared.chance(faults.full);
    const unknown = !full && this.#shared.chance(faults.unknown);
    const lost = full || (unknown && this.#shared.chance(0.5));
    let batch: Batch | undefined;
    await this.#inner.transact((base) => {
      batch = build(base);
      return lost ? undefined : batch;
    });
    if (!lost && batch !== undefined) this.#shared.written.push(batch);
    if (full) return failure('HANSA_STORE_FULL', 'none');
    return unknown ? failure('HANSA_UNAVAILABLE', 'unknown') : undefined;
  }

  async holds(batch: Batch): Promise<boolean> {
    await this.#shared.work();
    await this.#answer();
    if (this.#shared.chance(0.3)) throw new Error('the database is away');
    return this.#shared.written.includes(batch);
  }

  /** Answers reach a process that is not paused, and never one that is dead. */
  #answer(): Promise<void> {
    return new Promise((resolve) => {
      this.#process.clock.timer(0, resolve);
    });
  }

  readAudit(from: number, limit: number, maxBytes: number): Promise<readonly Buffer[]> {
    return this.#inner.readAudit(from, limit, maxBytes);
  }

  readLeafHashes(from: number, count: number): Promise<Buffer> {
    return this.#inner.readLeafHashes(from, count);
  }

  readSubtreeHashes(level: number, from: number, count: number): Promise<Buffer> {
    return this.#inner.readSubtreeHashes(level, from, count);
  }

  close(): Promise<void> {
    return this.#inner.close();
  }
}

function failure(
  code: 'HANSA_STORE_FULL' | 'HANSA_UNAVAILABLE',
  outcome: 'none' | 'unknown',
): TransactionFailed {
  return new TransactionFailed(new HansaError(code, 'The simulated disk failed.'), outcome);
}
