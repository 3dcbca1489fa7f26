// The interface of a database driver. The store makes all decisions (expectations, revisions, hashes,
// fences, leases) in commit/transaction-draft.ts; a driver only stores rows.
//
// The interface fits an embedded database with one writer process, and a database that several
// replicas share. Such a driver locks the head row, returns the changes of other replicas
// (`Base.foreign`), and only then builds the batch.

import type { HansaError } from '../errors/error.ts';
import type { LeaseState } from './store.ts';

/** The one row with the current position of the store. It changes with every transaction. */
export interface Head {
  /** Grows by one with each transaction, whatever that changes. */
  readonly sequence: number;
  readonly revision: number;
  readonly compactedRevision: number;
  /** How many audit rows there are. */
  readonly treeSize: number;
  /** Hashes of the perfect subtrees that make up the log, largest first, 32 bytes each. */
  readonly frontier: Buffer;
}

export const emptyHead: Head = {
  sequence: 0,
  revision: 0,
  compactedRevision: 0,
  treeSize: 0,
  frontier: Buffer.alloc(0),
};

export interface ChangeRow {
  readonly revision: number;
  readonly collection: string;
  readonly name: string;
  /** Undefined where the change is a deletion. */
  readonly value: Buffer | undefined;
  /** The revision of the version that this one replaced; 0 where there was none. */
  readonly previous: number;
}

export interface AuditRecord {
  readonly index: number;
  readonly leafHash: Buffer;
  readonly body: Buffer;
}

/** The hash of the complete subtree over the leaves [number × 256^level, (number + 1) × 256^level). */
export interface SubtreeRow {
  readonly level: number;
  readonly number: number;
  readonly hash: Buffer;
}

export interface FactRow {
  readonly collection: string;
  readonly name: string;
  /** JSON, or undefined where the facts were deleted. */
  readonly value: string | undefined;
}

/** One transaction's worth of rows: all of them are written, or none. */
export interface Batch {
  /** The expected head; the database must reject the batch where its head differs. */
  readonly base: Head;
  /** The head after. */
  readonly head: Head;
  readonly changes: readonly ChangeRow[];
  /** Revisions of change rows to delete. */
  readonly superseded: readonly number[];
  readonly audit: readonly AuditRecord[];
  readonly subtrees: readonly SubtreeRow[];
  readonly leases: readonly LeaseState[];
  readonly facts: readonly FactRow[];
}

/** The first rows of a batch, in its order. */
export type FirstRows = Pick<Batch, 'changes' | 'audit'>;

/**
 * All changes of other replicas since the last call, in order. So a shared
 * database may only delete changes that all replicas have seen.
 */
export interface Foreign {
  readonly head: Head;
  readonly changes: readonly ChangeRow[];
  readonly leases: readonly LeaseState[];
}

export interface Base {
  /** Milliseconds since the Unix epoch by the database's clock: leases expire by it. */
  readonly nowMs: number;
  readonly foreign?: Foreign;
  /**
   * Begins to write the first rows of the batch while `build` plans the others. `build` may call it once,
   * and its batch contains these rows too. Absent where the driver cannot.
   */
  readonly writeFirst?: (rows: FirstRows) => void;
}

export interface Opened {
  readonly head: Head;
  readonly leases: readonly LeaseState[];
  readonly facts: readonly FactRow[];
  /**
   * The hashes on the right edge of the tree: element 0 holds the leaf hashes after the last
   * complete subtree of 256 leaves, element k those of the complete subtrees of 256^k leaves after
   * the last one of 256^(k+1). The frontier must follow from them.
   */
  readonly edges: readonly Buffer[];
}

/** Reads of the audit log may run concurrently with `transact`, and see every batch whose `transact` has resolved. */
export interface Driver {
  /**
   * How many calls of `transact` may overlap right now. 1 for a database that others write to.
   * Where it is more, batches are written in the order in which they were built, and a batch whose
   * base is not in the database fails with outcome 'none': after a failure, all later ones fail.
   */
  readonly maxInFlight: number;
  /** Brings the schema up to date and reads everything but the changes. Called once, first. */
  open(): Promise<Opened>;
  /** The next page of change rows above `after`, in ascending order; empty at the end. */
  readChanges(after: number): Promise<readonly ChangeRow[]>;
  /**
   * Begins a transaction, calls `build` once, and writes the result; undefined writes
   * nothing. Durable when it resolves. Rejects with `TransactionFailed` and nothing else.
   */
  transact(build: (base: Base) => Batch | undefined): Promise<void>;
  /**
   * After a failure of unknown outcome: whether the database holds the batch. Rejects while
   * this is unknown; the caller may retry. The database may also hold later batches.
   */
  holds(batch: Batch): Promise<boolean>;
  /** See AuditLog in store.ts; the bounds are checked already. */
  readAudit(from: number, limit: number, maxBytes: number): Promise<readonly Buffer[]>;
  readLeafHashes(from: number, count: number): Promise<Buffer>;
  readSubtreeHashes(level: number, from: number, count: number): Promise<Buffer>;
  /** Frees files and threads. Idempotent. */
  close(): Promise<void>;
}

export class TransactionFailed extends Error {
  override readonly name = 'TransactionFailed';
  /** The error for the callers whose commits were in the batch. */
  readonly error: HansaError;
  /** 'none': nothing was written. 'unknown': the batch may or may not be there. */
  readonly outcome: 'none' | 'unknown';

  constructor(error: HansaError, outcome: 'none' | 'unknown') {
    super(error.message, { cause: error });
    this.error = error;
    this.outcome = outcome;
  }
}
