// The driver without a disk, for simulation and tests. `MemoryDatabase` replaces the disk: a store
// that is opened on it again finds everything, and several stores on one database are replicas.

import type { Clock } from '../../clock/clock.ts';
import type {
  AuditRecord,
  Base,
  Batch,
  ChangeRow,
  Driver,
  FactRow,
  Foreign,
  Head,
  Opened,
} from '../driver.ts';
import { emptyHead } from '../driver.ts';
import { edgeCounts } from '../commit/subtree-hashes.ts';
import { erased, isSealed } from '../sealing/sealed-collections.ts';
import type { LeaseState } from '../store.ts';

const pageRows = 1000;

export class MemoryDatabase {
  head: Head = emptyHead;
  /** In ascending order of revision, as they were inserted. */
  readonly changes = new Map<number, ChangeRow>();
  readonly audit: AuditRecord[] = [];
  /** By level, then number. */
  readonly subtrees: Buffer[][] = [];
  readonly leases = new Map<string, LeaseState>();
  readonly facts = new Map<string, FactRow>();

  write(batch: Batch): void {
    this.head = batch.head;
    for (const row of batch.changes) {
      this.changes.set(row.revision, row);
      const previous = this.changes.get(row.previous);
      if (previous !== undefined && isSealed(row.collection)) {
        this.changes.set(row.previous, { ...previous, value: erased });
      }
    }
    for (const revision of batch.superseded) this.changes.delete(revision);
    this.audit.push(...batch.audit);
    for (const { level, hash } of batch.subtrees) (this.subtrees[level] ??= []).push(hash);
    for (const lease of batch.leases) this.leases.set(lease.name, lease);
    for (const row of batch.facts) {
      const key = JSON.stringify([row.collection, row.name]);
      if (row.value === undefined) this.facts.delete(key);
      else this.facts.set(key, row);
    }
  }

  hashes(level: number, from: number, count: number): Buffer {
    if (level > 0) return Buffer.concat((this.subtrees[level] ?? []).slice(from, from + count));
    return Buffer.concat(this.audit.slice(from, from + count).map((row) => row.leafHash));
  }
}

export class MemoryDriver implements Driver {
  readonly maxInFlight: number = 1;
  readonly #database: MemoryDatabase;
  readonly #clock: Clock;
  #seen: Head = emptyHead;

  constructor(database: MemoryDatabase, clock: Clock) {
    this.#database = database;
    this.#clock = clock;
  }

  async open(): Promise<Opened> {
    const { head, leases, facts } = this.#database;
    this.#seen = head;
    return {
      head,
      leases: [...leases.values()],
      facts: [...facts.values()],
      edges: edgeCounts(head.treeSize).map((count, level) =>
        this.#database.hashes(level, Math.floor(head.treeSize / 256 ** level) - count, count),
      ),
    };
  }

  async readChanges(after: number): Promise<readonly ChangeRow[]> {
    const page: ChangeRow[] = [];
    for (const row of this.#database.changes.values()) {
      if (row.revision > this.#seen.revision || page.length === pageRows) break;
      if (row.revision > after) page.push(row);
    }
    return page;
  }

  async transact(build: (base: Base) => Batch | undefined): Promise<void> {
    const foreign = this.#foreign();
    const base: Base = { nowMs: this.#clock.now() };
    const batch = build(foreign === undefined ? base : { ...base, foreign });
    this.#seen = this.#database.head;
    if (batch === undefined) return;
    this.#database.write(batch);
    this.#seen = batch.head;
  }

  #foreign(): Foreign | undefined {
    const { head, changes, leases } = this.#database;
    if (head.sequence === this.#seen.sequence) return undefined;
    const seen = this.#seen.revision;
    return {
      head,
      changes: [...changes.values()].filter((row) => row.revision > seen),
      leases: [...leases.values()],
    };
  }

  async holds(batch: Batch): Promise<boolean> {
    return this.#database.head.sequence >= batch.head.sequence;
  }

  async readAudit(from: number, limit: number, maxBytes: number): Promise<readonly Buffer[]> {
    const bodies: Buffer[] = [];
    let bytes = 0;
    for (const { body } of this.#database.audit.slice(from, from + limit)) {
      bytes += body.byteLength;
      if (bodies.length > 0 && bytes > maxBytes) break;
      bodies.push(body);
    }
    return bodies;
  }

  async readLeafHashes(from: number, count: number): Promise<Buffer> {
    return this.#database.hashes(0, from, count);
  }

  async readSubtreeHashes(level: number, from: number, count: number): Promise<Buffer> {
    return this.#database.hashes(level, from, count);
  }

  async close(): Promise<void> {
    // Nothing is held: the database outlives the driver.
  }
}
