// The SQLite driver. SQLite runs in its own thread, so that a slow disk delays only writers. A second
// thread, started on first use, reads the audit log concurrently with the writer (WAL).

import type { Clock } from '../../clock/clock.ts';
import type { Base, Batch, ChangeRow, Driver, FirstRows, Opened } from '../driver.ts';
import { TransactionFailed } from '../driver.ts';
import { HansaError } from '../../errors/error.ts';
import { isSealed } from '../sealing/sealed-collections.ts';
import { StoreLock } from './lock.ts';
import type { Packed, WireOpened } from './messages.ts';
import { packBatch, packRows, unpack, unpackChanges } from './messages.ts';
import { SqliteThread } from './thread.ts';

/**
 * Two concurrent transactions hide the time for planning and thread switches (0.3 ms for 32 commits),
 * but COMMIT runs twice as often. This pays off only where COMMIT takes less than this time.
 */
const quickCommitMs = 0.12;

export class SqliteDriver implements Driver {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #overlapBelowMs: number;
  #lock: StoreLock | undefined;
  #writer: SqliteThread | undefined;
  #reader: Promise<SqliteThread> | undefined;
  /** Estimated median duration of COMMIT. */
  #commitMs = 1;

  /** Transactions overlap where COMMIT takes less than `overlapBelowMs`. */
  constructor(path: string, clock: Clock, overlapBelowMs = quickCommitMs) {
    this.#path = path;
    this.#clock = clock;
    this.#overlapBelowMs = overlapBelowMs;
  }

  /** After the thread ended, `holds` must find out what was written before the next write. */
  get maxInFlight(): number {
    return this.#commitMs < this.#overlapBelowMs && this.#writer?.dead === false ? 2 : 1;
  }

  async open(): Promise<Opened> {
    this.#lock = StoreLock.take(this.#path);
    const opened = await unwrap(this.#startWriter());
    return {
      head: { ...opened.head, frontier: Buffer.from(opened.head.frontier) },
      // The lock proves that earlier lease holders are gone, so their leases end at once.
      leases: opened.leases.map((lease) => ({ ...lease, expiresAtMs: 0 })),
      facts: opened.facts,
      edges: buffers(opened.edges),
    };
  }

  async readChanges(after: number): Promise<readonly ChangeRow[]> {
    const writer = this.#writer;
    if (writer === undefined) throw notOpen();
    return unpackChanges(await unwrap(writer.ask('changes', { after })));
  }

  async transact(build: (base: Base) => Batch | undefined): Promise<void> {
    // After a thread failure. The write itself compares the head.
    if (this.#writer?.dead === true) await this.#startWriter();
    let first: FirstRows | undefined;
    const batch = build({
      nowMs: this.#clock.now(),
      writeFirst: (rows) => {
        if (this.#writeFirst(rows)) first = rows;
      },
    });
    if (batch === undefined) return;
    if (this.#writer === undefined) throw new TransactionFailed(notOpen(), 'none');
    const wire = packBatch(batch, first);
    const { commitMs } = await this.#writer.ask('write', wire, [wire.packed.bytes.buffer]);
    this.#observe(commitMs);
  }

  #writeFirst(rows: FirstRows): boolean {
    // A sealed value is erased in one go with its batch.
    if (this.#writer === undefined || rows.changes.some((row) => isSealed(row.collection)))
      return false;
    const wire = packRows(rows, rows.audit[0]?.index ?? 0);
    this.#writer.tell(wire, [wire.packed.bytes.buffer]);
    return true;
  }

  /** Moves towards the median, so that a single slow commit (such as one with a checkpoint) changes little. */
  #observe(commitMs: number): void {
    const next = this.#commitMs * (commitMs > this.#commitMs ? 1.1 : 1 / 1.1);
    // Limits, so that the estimate follows a change of disk speed within a hundred commits.
    this.#commitMs = Math.min(10, Math.max(0.01, next));
  }

  /**
   * Reopens the database, so that it reads its log from disk as after a crash, instead of relying on
   * its memory.
   */
  async holds(batch: Batch): Promise<boolean> {
    await this.#endReader();
    await this.#writer?.end();
    const { head } = await unwrap(this.#startWriter());
    return head.sequence >= batch.head.sequence;
  }

  async readAudit(from: number, limit: number, maxBytes: number): Promise<readonly Buffer[]> {
    const reader = await this.#startReader();
    return buffers(await unwrap(reader.ask('audit', { from, limit, maxBytes })));
  }

  async readLeafHashes(from: number, count: number): Promise<Buffer> {
    const reader = await this.#startReader();
    return whole(await unwrap(reader.ask('leafHashes', { from, count })));
  }

  async readSubtreeHashes(level: number, from: number, count: number): Promise<Buffer> {
    const reader = await this.#startReader();
    return whole(await unwrap(reader.ask('subtreeHashes', { level, from, count })));
  }

  async close(): Promise<void> {
    await this.#endReader();
    await this.#writer?.end();
    this.#writer = undefined;
    this.#lock?.free();
    this.#lock = undefined;
  }

  async #startWriter(): Promise<WireOpened> {
    const writer = new SqliteThread();
    this.#writer = writer;
    try {
      return await writer.ask('open', { path: this.#path });
    } catch (error) {
      // Left as ended, so that the next transaction retries.
      await writer.end();
      throw error;
    }
  }

  async #startReader(): Promise<SqliteThread> {
    if (this.#lock === undefined) throw notOpen();
    this.#reader ??= this.#openReader();
    const starting = this.#reader;
    const reader = await starting;
    if (!reader.dead) return reader;
    if (this.#reader === starting) this.#reader = undefined;
    return this.#startReader();
  }

  async #openReader(): Promise<SqliteThread> {
    const reader = new SqliteThread();
    try {
      await unwrap(reader.ask('openReader', { path: this.#path }));
      return reader;
    } catch (error) {
      this.#reader = undefined;
      await reader.end();
      throw error;
    }
  }

  async #endReader(): Promise<void> {
    const reader = await this.#reader?.catch(() => undefined);
    this.#reader = undefined;
    await reader?.end();
  }
}

/** For readers, which get the original error. */
async function unwrap<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw error instanceof TransactionFailed ? error.error : error;
  }
}

function buffers(packed: Packed): Buffer[] {
  return [...unpack(packed)].map((part) => whole(part === undefined ? empty : { bytes: part }));
}

const empty = { bytes: new Uint8Array(0) };

function whole({ bytes }: { readonly bytes: Uint8Array }): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function notOpen(): HansaError {
  return new HansaError('HANSA_UNAVAILABLE', 'Cannot use the store: it is not open.');
}
