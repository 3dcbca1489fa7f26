// The SQL of the SQLite driver. It runs in a separate thread, because every call blocks until the
// disk answers.

import type { StatementSync } from 'node:sqlite';
import { DatabaseSync } from 'node:sqlite';
import type { Clock } from '../../clock/clock.ts';
import { corrupt } from '../current/load.ts';
import { hashBytes } from '../../merkle/tree.ts';
import { edgeCounts } from '../commit/subtree-hashes.ts';
import { checkDataFile, makePrivateFile } from '../../plane/data-files.ts';
import { erased, isSealed } from '../sealing/sealed-collections.ts';
import type { Answers, Packed, Questions, WireBatch, WireHead, WireRows } from './messages.ts';
import { pack, unpack } from './messages.ts';
import { migrate } from './schema.ts';

/** A page of changes at start. */
const pageRows = 2000;
const pageBytes = 4 * 1024 * 1024;

/** Busy timeout: only a reader or an operator's sqlite3 can block a write, and only briefly. */
const busyTimeoutMs = 5000;

/** Longer than readers of this process take. */
const emptyLogWithinMs = 200;

const writerPragmas = [
  // For new databases. A batch of commits fills several pages, and half as many calls write them.
  'page_size = 8192',
  'journal_mode = WAL',
  // Flushes the log with every commit: an acknowledged write survives loss of power.
  'synchronous = FULL',
  'temp_store = MEMORY',
  // 16 MiB: the tail of both tables and all inner pages.
  'cache_size = -16384',
  // In pages: the log grows to 16 MiB before it is copied, which flushes the database file too.
  'wal_autocheckpoint = 2000',
  // Truncates the log after a burst, to free disk space.
  'journal_size_limit = 16777216',
];

/** Thrown where COMMIT failed for another reason than a full disk. */
export class CommitUncertain extends Error {
  override readonly name = 'CommitUncertain';
}

export class SqliteDatabase {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();
  /** The write-ahead log still holds an erased value. */
  #logHoldsErased = false;
  /** Why COMMIT failed. Only reopening the database shows what was written. */
  #uncertain: { readonly cause: unknown } | undefined;
  /** Why `first` failed. */
  #firstFailed: { readonly cause: unknown } | undefined;
  readonly #clock: Clock;

  private constructor(database: DatabaseSync, clock: Clock) {
    this.#database = database;
    this.#clock = clock;
  }

  /** Creates the file if there is none, and upgrades its schema. */
  static open(path: string, clock: Clock): SqliteDatabase {
    // SQLite gives its other files the mode of this one.
    makePrivateFile(path);
    for (const suffix of ['-wal', '-shm', '-journal']) checkDataFile(`${path}${suffix}`);
    const database = new DatabaseSync(path, { timeout: busyTimeoutMs });
    try {
      for (const pragma of writerPragmas) database.exec(`PRAGMA ${pragma}`);
      migrate(database);
      vacuumIfDue(database);
      // A killed process may have left an erased value in the log.
      emptyLog(database, busyTimeoutMs);
    } catch (error) {
      database.close();
      throw error;
    }
    return new SqliteDatabase(database, clock);
  }

  static openReader(path: string, clock: Clock): SqliteDatabase {
    const database = new DatabaseSync(path, { readOnly: true, timeout: busyTimeoutMs });
    return new SqliteDatabase(database, clock);
  }

  opened(): Answers['open'] {
    const head = this.#head();
    const beyond = this.#get('SELECT count(*) AS count FROM audit WHERE idx >= ?', head.treeSize);
    if (beyond['count'] !== 0) throw corrupt('the audit log has records beyond its recorded size');
    const edges = edgeCounts(head.treeSize).map((count, level) => {
      const from = Math.floor(head.treeSize / 256 ** level) - count;
      return level === 0
        ? this.leafHashes({ from, count }).bytes
        : this.subtreeHashes({ level, from, count }).bytes;
    });
    return {
      head,
      leases: this.#all(
        'SELECT name, holder, epoch, expires_at_ms AS expiresAtMs FROM lease',
      ) as never,
      facts: this.#all('SELECT collection, name, value FROM fact') as never,
      edges: pack(edges),
    };
  }

  changes({ after }: Questions['changes']): Answers['changes'] {
    const revisions: number[] = [];
    const collections: string[] = [];
    const names: string[] = [];
    const previous: number[] = [];
    const values: (Uint8Array | undefined)[] = [];
    let bytes = 0;
    const rows = this.#statement(
      'SELECT revision, collection, name, previous, coalesce(sealed.value, changes.value) AS value FROM changes LEFT JOIN sealed USING (revision) WHERE revision > ? ORDER BY revision LIMIT ?',
    ).iterate(after, pageRows);
    for (const row of rows) {
      const value = (row['value'] as Uint8Array | null) ?? undefined;
      revisions.push(row['revision'] as number);
      collections.push(row['collection'] as string);
      names.push(row['name'] as string);
      previous.push(row['previous'] as number);
      values.push(value);
      bytes += value?.byteLength ?? 0;
      if (bytes > pageBytes) break;
    }
    return { revisions, collections, names, previous, packed: pack(values) };
  }

  /** Begins a transaction with its first rows. `write` adds the others, or reports why these failed. */
  first(rows: WireRows): undefined {
    this.#firstFailed = undefined;
    try {
      this.#begin();
      this.#insertRows(rows, unpack(rows.packed));
    } catch (cause) {
      this.#rollback();
      this.#firstFailed = { cause };
    }
    return undefined;
  }

  write(batch: WireBatch): Answers['write'] {
    if (this.#uncertain !== undefined) throw this.#uncertain.cause;
    const seals = batch.changes.collections.some((collection) => isSealed(collection));
    // Only sometimes: zeroing every page that history frees would slow down each commit.
    if (seals) this.#database.exec('PRAGMA secure_delete = ON');
    let commitMs: number;
    try {
      commitMs = this.#transact(batch);
    } finally {
      if (seals) this.#database.exec('PRAGMA secure_delete = OFF');
    }
    this.#logHoldsErased ||= seals;
    if (this.#logHoldsErased) {
      // A reader of another program, such as a backup, must not block every commit.
      this.#logHoldsErased = !emptyLog(this.#database, seals ? emptyLogWithinMs : 0);
    }
    return { commitMs };
  }

  /** Returns how long COMMIT took, in milliseconds. */
  #transact(batch: WireBatch): number {
    if (!batch.begun) this.#begin();
    else if (this.#firstFailed !== undefined) {
      if (this.#head().sequence !== batch.baseSequence) throw foreignWrite();
      throw this.#firstFailed.cause;
    }
    try {
      this.#insert(batch);
    } catch (error) {
      this.#rollback();
      throw error;
    }
    const startedMs = this.#clock.monotonic();
    try {
      this.#statement('COMMIT').run();
      return this.#clock.monotonic() - startedMs;
    } catch (error) {
      this.#rollback();
      // SQLITE_FULL comes from write(2), before the frame that makes the transaction valid is
      // whole. After any other error that frame may be in the log, and may or may not have
      // reached the disk.
      if (resultCode(error) === sqliteFull) throw error;
      this.#uncertain = { cause: error };
      throw new CommitUncertain('COMMIT failed', { cause: error });
    }
  }

  #begin(): void {
    // The batch after the first rows of another transaction was never built.
    this.#rollback();
    this.#statement('BEGIN IMMEDIATE').run();
  }

  audit({ from, limit, maxBytes }: Questions['audit']): Packed {
    const bodies: Uint8Array[] = [];
    let bytes = 0;
    const rows = this.#statement(
      'SELECT body FROM audit WHERE idx >= ? ORDER BY idx LIMIT ?',
    ).iterate(from, limit);
    for (const row of rows) {
      const body = row['body'] as Uint8Array;
      bytes += body.byteLength;
      if (bodies.length > 0 && bytes > maxBytes) break;
      bodies.push(body);
    }
    return pack(bodies);
  }

  leafHashes({ from, count }: Questions['leafHashes']): Packed {
    const sql = 'SELECT leaf_hash AS hash FROM audit WHERE idx >= ? ORDER BY idx LIMIT ?';
    return this.#hashes(this.#all(sql, from, count), count);
  }

  subtreeHashes({ level, from, count }: Questions['subtreeHashes']): Packed {
    const sql =
      'SELECT hash FROM audit_subtree WHERE level = ? AND number >= ? ORDER BY number LIMIT ?';
    return this.#hashes(this.#all(sql, level, from, count), count);
  }

  close(): undefined {
    if (this.#database.isOpen) this.#database.close();
    return undefined;
  }

  #insert(batch: WireBatch): void {
    const { head } = batch;
    const parts = unpack(batch.packed);
    const moved = this.#statement(
      'UPDATE head SET sequence = ?, revision = ?, compacted_revision = ?, tree_size = ?, frontier = ? WHERE id = 1 AND sequence = ?',
    ).run(
      head.sequence,
      head.revision,
      head.compactedRevision,
      head.treeSize,
      head.frontier,
      batch.baseSequence,
    );
    if (moved.changes !== 1) throw foreignWrite();
    this.#insertRows(batch, parts);
    const insertSubtree = this.#statement('INSERT INTO audit_subtree VALUES (?, ?, ?)');
    for (const { level, number } of batch.subtrees) {
      insertSubtree.run(level, number, parts.next().value ?? null);
    }
    const deleteChange = this.#statement('DELETE FROM changes WHERE revision = ?');
    for (const revision of batch.superseded) deleteChange.run(revision);
    this.#insertBeside(batch);
  }

  #insertRows({ changes, auditFrom, auditRows }: WireRows, parts: ReturnType<typeof unpack>): void {
    const next = (): Uint8Array | null => parts.next().value ?? null;
    const insertChange = this.#statement('INSERT INTO changes VALUES (?, ?, ?, ?, ?)');
    for (let at = 0; at < changes.revisions.length; at++) {
      const revision = changes.revisions[at] as number;
      const collection = changes.collections[at] as string;
      const previous = changes.previous[at] as number;
      const value = next();
      const kept = isSealed(collection) ? this.#insertSealed(revision, previous, value) : value;
      insertChange.run(revision, collection, changes.names[at] as string, previous, kept);
    }
    const insertAudit = this.#statement('INSERT INTO audit VALUES (?, ?, ?)');
    for (let at = 0; at < auditRows; at++) insertAudit.run(auditFrom + at, next(), next());
  }

  /** Erases the previous version. Returns the replacement value for its row in changes. */
  #insertSealed(revision: number, previous: number, value: Uint8Array | null): Uint8Array | null {
    this.#statement('DELETE FROM sealed WHERE revision = ?').run(previous);
    if (value === null) return null;
    this.#statement('INSERT INTO sealed VALUES (?, ?)').run(revision, value);
    return erased;
  }

  /** Writes leases and facts. */
  #insertBeside(batch: WireBatch): void {
    const upsertLease = this.#statement('INSERT OR REPLACE INTO lease VALUES (?, ?, ?, ?)');
    for (const lease of batch.leases) {
      upsertLease.run(lease.name, lease.holder, lease.epoch, lease.expiresAtMs);
    }
    for (const { collection, name, value } of batch.facts) {
      if (value === undefined) {
        this.#statement('DELETE FROM fact WHERE collection = ? AND name = ?').run(collection, name);
      } else {
        this.#statement('INSERT OR REPLACE INTO fact VALUES (?, ?, ?)').run(
          collection,
          name,
          value,
        );
      }
    }
  }

  #head(): WireHead {
    return this.#get(
      'SELECT sequence, revision, compacted_revision AS compactedRevision, tree_size AS treeSize, frontier FROM head',
    ) as unknown as WireHead;
  }

  #hashes(rows: readonly Record<string, unknown>[], count: number): Packed {
    if (rows.length !== count) throw corrupt('hashes of the audit log are missing');
    const bytes = new Uint8Array(new ArrayBuffer(count * hashBytes));
    rows.forEach((row, at) => bytes.set(row['hash'] as Uint8Array, at * hashBytes));
    return { bytes, lengths: [bytes.byteLength] };
  }

  #rollback(): void {
    // Some errors roll back by themselves.
    if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
  }

  #get(sql: string, ...values: (number | string)[]): Record<string, unknown> {
    const row = this.#statement(sql).get(...values);
    if (row === undefined) throw corrupt('a row is missing');
    return row;
  }

  #all(sql: string, ...values: (number | string)[]): Record<string, unknown>[] {
    return this.#statement(sql).all(...values);
  }

  #statement(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.#database.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

function foreignWrite(): Error {
  return corrupt('another process wrote to it while it was open');
}

/** Moves the write-ahead log into the database and truncates it. False while a reader needs it. */
function emptyLog(database: DatabaseSync, withinMs: number): boolean {
  try {
    database.exec(`PRAGMA busy_timeout = ${withinMs}`);
    return database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()?.['busy'] === 0;
  } catch {
    // For example a full disk. The log has everything, and the next write retries.
    return false;
  } finally {
    database.exec(`PRAGMA busy_timeout = ${busyTimeoutMs}`);
  }
}

/** Once, after a schema step that erased values: it leaves no free pages, and no stale bytes in others. */
function vacuumIfDue(database: DatabaseSync): void {
  const due = `SELECT 1 FROM meta WHERE key = 'vacuum_due'`;
  if (database.prepare(due).get() === undefined) return;
  try {
    // A copy of the whole database, which may be larger than memory.
    database.exec('PRAGMA temp_store = FILE');
    database.exec('VACUUM');
    database.exec(`DELETE FROM meta WHERE key = 'vacuum_due'`);
  } catch (error) {
    // No space for the copy: the next start retries.
    if (!isFull(error)) throw error;
  } finally {
    database.exec('PRAGMA temp_store = MEMORY');
  }
}

/** The result code of SQLite, extended or not; undefined where the error is not SQLite's. */
function extendedCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errcode' in error)) return undefined;
  return typeof error.errcode === 'number' ? error.errcode : undefined;
}

/** The primary result code, the low eight bits: https://sqlite.org/rescode.html */
export function resultCode(error: unknown): number | undefined {
  const code = extendedCode(error);
  return code === undefined ? undefined : code & 0xff;
}

const sqliteFull = 13;

/** SQLITE_FULL, or no room for the index of the log (SQLITE_IOERR_SHMSIZE). */
export function isFull(error: unknown): boolean {
  return resultCode(error) === sqliteFull || extendedCode(error) === 4874;
}
