// The contract of the store, which keeps all state of a site as bytes. The suite in conformance/
// tests every driver against it.

import type { HansaError } from '../errors/error.ts';

/**
 * One version of one record. Immutable: a later change creates a new `Entry`, so that readers may keep
 * it and cache derived data (a parsed object, an encoded body) by its identity.
 */
export interface Entry {
  /** Resources use their plural name; other collections have a name with a dot. */
  readonly collection: string;
  readonly name: string;
  /** The global revision of the change that made this version. */
  readonly revision: number;
  /** Encoded bytes. Must not be changed. */
  readonly value: Buffer;
}

/** `entry` is undefined where the record was deleted, `previous` where it did not exist before. */
export interface Change {
  readonly collection: string;
  readonly name: string;
  readonly revision: number;
  readonly entry: Entry | undefined;
  readonly previous: Entry | undefined;
  /** For a deletion: the facts that were deleted with the record, if any. */
  readonly facts?: Readonly<Record<string, unknown>>;
}

export type Expectation = RecordExpectation | RoomExpectation;

export interface RecordExpectation {
  readonly collection: string;
  readonly name: string;
  /** The revision that the record must be at, or 'absent'. */
  readonly at: number | 'absent';
}

export interface RoomExpectation {
  readonly collection: string;
  /** The collection must hold fewer records than this before the commit: a limit that also holds for concurrent commits. */
  readonly below: number;
}

export interface Put {
  readonly collection: string;
  readonly name: string;
  /**
   * Called once, when the revision of this change is known and only the disk can still fail the
   * commit. Must be pure. The store keeps the Buffer.
   */
  readonly encode: (revision: number) => Buffer;
}

export interface AuditRow {
  /** Called once, like Put.encode; `revision` is that of the commit's last change. */
  readonly encode: (position: { readonly index: number; readonly revision: number }) => Buffer;
}

export interface Commit {
  readonly expect?: readonly Expectation[];
  readonly put?: readonly Put[];
  readonly delete?: readonly { readonly collection: string; readonly name: string }[];
  /** Rows for the audit log, written if and only if the changes are. */
  readonly audit?: readonly AuditRow[];
  /**
   * Rejected with HANSA_FENCED where the lease has a newer epoch than the writer's, or never had
   * the writer's epoch.
   */
  readonly fence?: { readonly lease: string; readonly epoch: number };
}

export interface Committed {
  /** The entries in the order of `put`. */
  readonly entries: readonly Entry[];
  /** The revision after this commit. */
  readonly revision: number;
}

export interface Listing {
  /** In ascending order of the UTF-8 bytes of the names. Immutable: later changes do not show in it. */
  readonly entries: readonly Entry[];
  /** The revision of the store at which these entries were the whole collection. */
  readonly revision: number;
}

export interface Watch {
  /** No callback runs after this. */
  stop(): void;
}

export interface Watcher {
  /**
   * Every change once, in order of revision; changes of one commit come in one call. Never called
   * before `watch` has returned. Must not throw and must not block.
   */
  changes(changes: readonly Change[]): void;
  /** The watch ended: the store was closed, or changes were lost (HANSA_EXPIRED). */
  ended(error: HansaError): void;
}

/**
 * Ordering: there is one global revision. Each put and each delete that found something takes the
 * next one, in the order puts, then deletes; a reader never sees N+1 before N, and sees all
 * changes of a commit or none.
 *
 * Durability: when `commit` resolves, its changes survive kill -9 and loss of power, and `get`,
 * `list` and `watch` of this process show them. When it rejects, nothing changed. A crash of
 * the process during the call leaves all of it or nothing.
 *
 * Concurrency: any number of commits may wait at once; they are written in the order of the calls,
 * many to one transaction. One whose expectation fails (HANSA_CONFLICT) leaves the others alone.
 *
 * Limits: a value of more than `maxValueBytes` is refused with HANSA_TOO_LARGE.
 */
export interface Store {
  readonly revision: number;
  /** Why the last write failed, for example a full disk; undefined after the next success. Reads always work. */
  readonly problem: HansaError | undefined;
  get(collection: string, name: string): Entry | undefined;
  /** O(1) while the collection has not changed since the last listing of it, O(n log n) after a change. */
  list(collection: string): Listing;
  /** How many records the collection holds. O(1). */
  count(collection: string): number;
  /**
   * Delivers the changes of one collection with a revision above `after`. Throws HANSA_EXPIRED
   * where the history no longer reaches back that far, and where `after` is in the future.
   * Past changes of sealed collections come without their values
   * (sealed-collections.ts).
   */
  watch(collection: string, after: number, watcher: Watcher): Watch;
  commit(commit: Commit): Promise<Committed>;
  /** Forgets history at and below `revision`; what is current stays. */
  compact(revision: number): Promise<void>;
  /** The oldest revision from which `watch` can resume. */
  readonly compactedRevision: number;

  readonly facts: Facts;
  readonly leases: LeaseTable;
  readonly auditLog: AuditLog;

  /** Finishes waiting commits, then rejects all calls with HANSA_UNAVAILABLE. Idempotent. */
  close(): Promise<void>;
}

export const maxValueBytes = 1536 * 1024;

/**
 * Live facts that change every few seconds (last seen, last sync): stored apart from resources, with
 * no revision, no watch and no audit record. Writes are batched, and a crash may lose the newest.
 * Deleting a record deletes its facts.
 */
export interface Facts {
  get(collection: string, name: string): Readonly<Record<string, unknown>> | undefined;
  /** Merged over what is there; a key set to undefined is removed. */
  merge(collection: string, name: string, facts: Readonly<Record<string, unknown>>): void;
  delete(collection: string, name: string): void;
  /**
   * From now on, `compute` gives the facts of this record at each read, and nothing of them is written. It is
   * quick, and returns the same object until the facts change. One at most for each record.
   */
  compute(
    collection: string,
    name: string,
    compute: () => Readonly<Record<string, unknown>> | undefined,
  ): void;
}

export interface LeaseState {
  readonly name: string;
  readonly holder: string;
  /** The fencing token: grows by one with every new holder, never shrinks, survives release. */
  readonly epoch: number;
  /** By the clock of the database. */
  readonly expiresAtMs: number;
  /**
   * By the monotonic clock of this process: before it sent the request that took or renewed the lease. Only
   * tables that do other work before that request say so.
   */
  readonly sentMs?: number;
}

export interface LeaseTable {
  /**
   * Takes the lease if it is free, expired by the database's clock, or already held by `holder`
   * (then the epoch stays). Resolves to undefined where another process holds it. Durable before it
   * resolves.
   */
  acquire(name: string, holder: string, durationMs: number): Promise<LeaseState | undefined>;
  /** Extends; resolves to undefined where it was lost (another epoch, or expired and taken). */
  renew(
    name: string,
    holder: string,
    epoch: number,
    durationMs: number,
  ): Promise<LeaseState | undefined>;
  /** Frees it at once; the epoch stays. */
  release(name: string, holder: string, epoch: number): Promise<void>;
  /** Every lease ever taken, for status and metrics. */
  list(): Promise<readonly LeaseState[]>;
  /** How long to wait before the next `acquire`, where the table knows better than a share of the duration. */
  askAgainMs?(name: string): number | undefined;
}

/** The Merkle log's storage. Hashing is that of RFC 6962; core/audit makes proofs from it. */
export interface AuditLog {
  /** How many rows there are. */
  readonly size: number;
  /** The RFC 6962 tree head over all rows (SHA-256 of nothing where there are none). */
  readonly rootHash: Buffer;
  /** Rows from index `from`, at most `limit`, and never more than about 1 MiB of them (at least one). */
  read(from: number, limit: number): Promise<readonly Buffer[]>;
  /** Leaf hashes from index `from`, exactly `count` (at most 4,096). */
  leafHashes(from: number, count: number): Promise<Buffer>;
  /**
   * Hashes of complete subtrees of 256^level leaves, `level` ≥ 1, from subtree number `from`,
   * exactly `count`, concatenated.
   */
  subtreeHashes(level: number, from: number, count: number): Promise<Buffer>;
}
