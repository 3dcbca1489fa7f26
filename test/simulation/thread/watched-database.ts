// The database of one simulated site, which survives its crashes. Shows what is durable at any time, and can be
// copied and put back, as an operator does with a data folder.

import type { Batch, ChangeRow } from '../../../src/core/store/driver.ts';
import { MemoryDatabase } from '../../../src/core/store/memory/driver.ts';
import { type DiskFaults, SimulatedDatabase } from '../disk.ts';
import type { Simulation } from '../simulation.ts';

export interface Watching {
  readonly before: () => void;
  readonly after: (batch: Batch) => void;
}

/** A database with a function that runs before and after each commit. */
export class WatchedDatabase extends SimulatedDatabase {
  readonly #watching: Watching;
  readonly #current = new Map<string, ChangeRow>();

  constructor(simulation: Simulation, faults: DiskFaults, watching: Watching) {
    super(simulation, faults);
    this.#watching = watching;
    const { written } = this;
    const push = written.push.bind(written);
    written.push = (...batches) => {
      const length = push(...batches);
      for (const batch of batches) {
        for (const row of batch.changes) this.#apply(row);
        watching.after(batch);
      }
      return length;
    };
  }

  override async work(): Promise<void> {
    await super.work();
    this.#watching.before();
  }

  /** The durable value of a record; undefined if there is none. */
  read(collection: string, name: string): Buffer | undefined {
    return this.#current.get(key(collection, name))?.value;
  }

  /** The current records of all collections. */
  rows(): readonly ChangeRow[] {
    return [...this.#current.values()];
  }

  /** An independent copy of everything that is durable now. */
  copy(): MemoryDatabase {
    const { head, changes, audit, subtrees, leases, facts } = this.database;
    const copy = new MemoryDatabase();
    copy.head = head;
    for (const [revision, row] of changes) copy.changes.set(revision, row);
    copy.audit.push(...audit);
    copy.subtrees.push(...subtrees.map((hashes) => [...hashes]));
    for (const [name, lease] of leases) copy.leases.set(name, lease);
    for (const [name, fact] of facts) copy.facts.set(name, fact);
    return copy;
  }

  override replace(database: MemoryDatabase): void {
    super.replace(database);
    this.#current.clear();
    for (const row of database.changes.values()) this.#apply(row);
  }

  #apply(row: ChangeRow): void {
    const at = key(row.collection, row.name);
    if (row.value === undefined) this.#current.delete(at);
    else this.#current.set(at, row);
  }
}

function key(collection: string, name: string): string {
  return `${collection}/${name}`;
}
