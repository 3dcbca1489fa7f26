// The messages between the SQLite driver and its threads. Bytes travel in one block that is
// transferred, not copied; a Buffer that is a view of a larger block would transfer all of it.

import type { CoreErrorCode } from '../../errors/error.ts';
import { unpooledCopy } from '../../memory/unpooled-copy.ts';
import type { Batch, ChangeRow, FactRow, FirstRows, Head } from '../driver.ts';
import type { LeaseState } from '../store.ts';

/** Byte strings back to back; a length of -1 stands for "none". */
export interface Packed {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly lengths: readonly number[];
}

export function pack(parts: readonly (Uint8Array | undefined)[]): Packed {
  const lengths = parts.map((part) => part?.byteLength ?? -1);
  let total = 0;
  for (const length of lengths) total += Math.max(0, length);
  const bytes = new Uint8Array(new ArrayBuffer(total));
  let at = 0;
  for (const part of parts) {
    if (part === undefined) continue;
    bytes.set(part, at);
    at += part.byteLength;
  }
  return { bytes, lengths };
}

/** Views of the packed bytes, in order. */
export function* unpack({ bytes, lengths }: Packed): Generator<Uint8Array | undefined, undefined> {
  let at = 0;
  for (const length of lengths) {
    if (length < 0) yield undefined;
    else yield bytes.subarray(at, at + length);
    at += Math.max(0, length);
  }
  return undefined;
}

export interface WireHead extends Omit<Head, 'frontier'> {
  readonly frontier: Uint8Array;
}

export interface WireChanges {
  readonly revisions: readonly number[];
  readonly collections: readonly string[];
  readonly names: readonly string[];
  readonly previous: readonly number[];
}

/** Rows of a batch. */
export interface WireRows {
  readonly changes: WireChanges;
  readonly auditFrom: number;
  readonly auditRows: number;
  /** Values of the changes, then leaf hash and body of each audit row. */
  readonly packed: Packed;
}

/** A batch, without the rows that `first` brought. */
export interface WireBatch extends WireRows {
  readonly baseSequence: number;
  readonly head: WireHead;
  /** Whether `first` began the transaction. */
  readonly begun: boolean;
  readonly superseded: readonly number[];
  readonly subtrees: readonly { readonly level: number; readonly number: number }[];
  readonly leases: readonly LeaseState[];
  readonly facts: readonly FactRow[];
  /** As in WireRows, then subtree hashes. */
  readonly packed: Packed;
}

/** `treeSize`: of the log before these rows. `hashes` follow the values of the rows. */
export function packRows(
  { changes, audit }: FirstRows,
  treeSize: number,
  hashes: readonly Buffer[] = [],
): WireRows {
  const parts: (Uint8Array | undefined)[] = changes.map((row) => row.value);
  for (const row of audit) parts.push(row.leafHash, row.body);
  for (const hash of hashes) parts.push(hash);
  return {
    changes: {
      revisions: changes.map((row) => row.revision),
      collections: changes.map((row) => row.collection),
      names: changes.map((row) => row.name),
      previous: changes.map((row) => row.previous),
    },
    auditFrom: treeSize,
    auditRows: audit.length,
    packed: pack(parts),
  };
}

/** `first`: what the database already has of the batch. */
export function packBatch(batch: Batch, first?: FirstRows): WireBatch {
  const { base, head } = batch;
  const rest =
    first === undefined
      ? batch
      : {
          changes: batch.changes.slice(first.changes.length),
          audit: batch.audit.slice(first.audit.length),
        };
  return {
    ...packRows(
      rest,
      base.treeSize + (first?.audit.length ?? 0),
      batch.subtrees.map((row) => row.hash),
    ),
    baseSequence: base.sequence,
    begun: first !== undefined,
    // A copy, because the frontier may be a view of a larger block.
    head: { ...head, frontier: new Uint8Array(head.frontier) },
    superseded: batch.superseded,
    subtrees: batch.subtrees.map(({ level, number }) => ({ level, number })),
    leases: batch.leases,
    facts: batch.facts,
  };
}

export interface WireChangePage extends WireChanges {
  readonly packed: Packed;
}

export function unpackChanges(page: WireChangePage): ChangeRow[] {
  const values = unpack(page.packed);
  return page.revisions.map((revision, at) => {
    const value = values.next().value;
    return {
      revision,
      collection: page.collections[at] as string,
      name: page.names[at] as string,
      previous: page.previous[at] as number,
      // A copy, so that one long-lived record does not keep its whole page in memory.
      value: value === undefined ? undefined : unpooledCopy(value),
    };
  });
}

export interface WireOpened {
  readonly head: WireHead;
  readonly leases: readonly LeaseState[];
  readonly facts: readonly FactRow[];
  readonly edges: Packed;
}

export interface Written {
  /** Duration of COMMIT: roughly the fixed cost of a transaction. */
  readonly commitMs: number;
}

/** The response type of each request. */
export interface Answers {
  open: WireOpened;
  openReader: undefined;
  changes: WireChangePage;
  /** Never sent: a failure is the answer to the `write` that follows. */
  first: undefined;
  write: Written;
  audit: Packed;
  leafHashes: Packed;
  subtreeHashes: Packed;
  close: undefined;
}

export interface Questions {
  open: { readonly path: string };
  /** Opens a database that the writer has upgraded; only reads of the audit log may follow. */
  openReader: { readonly path: string };
  changes: { readonly after: number };
  /** Begins a transaction with its first rows. `write` follows. */
  first: WireRows;
  write: WireBatch;
  audit: { readonly from: number; readonly limit: number; readonly maxBytes: number };
  leafHashes: { readonly from: number; readonly count: number };
  subtreeHashes: { readonly level: number; readonly from: number; readonly count: number };
  close: undefined;
}

export type RequestKind = keyof Questions;

export interface Request<Kind extends RequestKind = RequestKind> {
  readonly id: number;
  readonly kind: Kind;
  readonly question: Questions[Kind];
}

export interface WireError {
  readonly code: CoreErrorCode;
  readonly message: string;
  /** The result of the database. */
  readonly cause: string;
  readonly outcome: 'none' | 'unknown';
}

export type Answer =
  | { readonly id: number; readonly answer: Answers[RequestKind] }
  | { readonly id: number; readonly error: WireError };
