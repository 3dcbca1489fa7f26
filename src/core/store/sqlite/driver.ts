// The embedded driver: SQLite in a thread of its own, so that a slow disk delays writers and
// nobody else. A second thread, started when it is first needed, reads the audit log beside the
// writer; WAL lets both go on at once.

import type { Clock } from '../../clock/clock.ts';
import type { Base, Batch, ChangeRow, Driver, Opened } from '../driver.ts';
import { TransactionFailed } from '../driver.ts';
import { HansaError } from '../../errors/error.ts';
import { StoreLock } from './lock.ts';
import type { Packed, WireOpened } from './messages.ts';
import { packBatch, unpack, unpackChanges } from './messages.ts';
import { SqliteThread } from './thread.ts';

/**
 * Two transactions at once hide the time for planning and for waking threads (0.3 ms for 32 commits),
 * but COMMIT runs twice as often: worth it only where that takes less than this.
 */
const quickCommitMs = 0.12;

export class SqliteDriver implements Driver {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #overlapBelowMs: number;
  #lock: StoreLock | undefined;
  #writer: SqliteThread | undefined;
  #reader: Promise<SqliteThread> | undefined;
  /** How long COMMIT takes, typically: half of them take longer. */
  #commitMs = 1;

  /** Transactions overlap where COMMIT takes less than `overlapBelowMs`. */
  constructor(path: string, clock: Clock, overlapBelowMs = quickCommitMs) {
    this.#path = path;
    this.#clock = clock;
    this.#overlapBelowMs = overlapBelowMs;
  }

  /** After the end of the thread `holds` has to find out what was written, before anything else is. */
  get maxInFlight(): number {
    return this.#commitMs < this.#overlapBelowMs && this.#writer?.dead === false ? 2 : 1;
  }

  async open(): Promise<Opened> {
    this.#lock = StoreLock.take(this.#path);
    const opened = await unwrap(this.#startWriter());
    return {
      head: { ...opened.head, frontier: Buffer.from(opened.head.frontier) },
      // The lock proves that whoever held a lease is gone: nobody has to wait for it to expire.
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
    // After a failure of the thread: the head is compared by the write itself.
    if (this.#writer?.dead === true) await this.#startWriter();
    const batch = build({ nowMs: this.#clock.now() });
    if (batch === undefined) return;
    if (this.#writer === undefined) throw new TransactionFailed(notOpen(), 'none');
    const wire = packBatch(batch);
    const { commitMs } = await this.#writer.ask('write', wire, [wire.packed.bytes.buffer]);
    this.#observe(commitMs);
  }

  /** Steps towards the median: a single slow commit (one with a checkpoint, say) changes little. */
  #observe(commitMs: number): void {
    const next = this.#commitMs * (commitMs > this.#commitMs ? 1.1 : 1 / 1.1);
    // Bounds, so that a change of the disk's speed shows within a hundred commits.
    this.#commitMs = Math.min(10, Math.max(0.01, next));
  }

  /**
   * Opens the database anew: only then does it read its log as it would after a crash, and not as
   * it remembers having written it.
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
      // Left as dead, so that the next transaction tries again.
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

/** For readers, who are told the error itself. */
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
