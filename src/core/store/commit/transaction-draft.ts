// A transaction before it is written. It decides commits and leases one after another, against the
// current state plus earlier pending transactions plus its own changes. It changes nothing outside
// before the database has it, so a failed draft is dropped together with the drafts that build on it.

import { HansaError } from '../../errors/error.ts';
import { unpooledCopy } from '../../memory/unpooled-copy.ts';
import { Frontier, leafHash } from '../../merkle/tree.ts';
import type { Collections } from '../current/collections.ts';
import type {
  AuditRecord,
  Batch,
  ChangeRow,
  FactRow,
  FirstRows,
  Head,
  SubtreeRow,
} from '../driver.ts';
import { acquireLease, releaseLease, renewLease } from './lease-rules.ts';
import type { Change, Commit, Committed, Entry, LeaseState, Put } from '../store.ts';
import { maxValueBytes } from '../store.ts';
import { storedLevel } from './subtree-hashes.ts';

export interface Current {
  /** After the drafts ahead. */
  readonly head: Head;
  readonly collections: Collections;
  readonly leases: ReadonlyMap<string, LeaseState>;
  /** Drafts that are being written, oldest first. */
  readonly ahead: readonly TransactionDraft[];
}

export class TransactionDraft {
  readonly changes: Change[] = [];
  readonly leases = new Map<string, LeaseState>();
  /** Size of all values and audit rows so far. */
  bytes = 0;
  /** The head before this draft, and after it once `batch` was called. */
  head: Head;

  #current: Current;
  readonly #nowMs: number;
  readonly #overlay = new Map<string, Map<string, Entry | undefined>>();
  readonly #frontier: Frontier;
  readonly #audit: AuditRecord[] = [];
  readonly #subtrees: SubtreeRow[] = [];
  #facts: readonly FactRow[] = [];
  #superseded: readonly number[] = [];
  #compactedRevision: number;

  constructor(current: Current, nowMs: number) {
    this.#current = current;
    this.head = current.head;
    this.#nowMs = nowMs;
    this.#frontier = Frontier.decode(current.head.treeSize, current.head.frontier);
    this.#compactedRevision = current.head.compactedRevision;
  }

  get revision(): number {
    return this.#current.head.revision + this.changes.length;
  }

  /** How many rows the transaction has to write. */
  get rows(): number {
    return this.changes.length + this.#audit.length + this.#superseded.length;
  }

  /** All of the commit becomes part of the draft, or it throws and the draft is as before. */
  commit(commit: Commit): Committed {
    this.#checkFence(commit);
    this.#checkExpectations(commit);
    const mark = this.changes.length;
    const bytes = this.bytes;
    try {
      const entries = (commit.put ?? []).map((put) => this.#put(put));
      for (const { collection, name } of commit.delete ?? []) {
        const previous = this.#get(collection, name);
        if (previous !== undefined) this.#change(collection, name, undefined, previous);
      }
      this.#appendAudit(commit);
      return { entries, revision: this.revision };
    } catch (error) {
      for (const change of this.changes.splice(mark).toReversed()) {
        this.#setOverlay(change.collection, change.name, change.previous);
      }
      this.bytes = bytes;
      throw error;
    }
  }

  acquire(name: string, holder: string, durationMs: number): LeaseState | undefined {
    return this.#setLease(acquireLease(this.#lease(name), name, holder, durationMs, this.#nowMs));
  }

  renew(name: string, holder: string, epoch: number, durationMs: number): LeaseState | undefined {
    return this.#setLease(renewLease(this.#lease(name), holder, epoch, durationMs, this.#nowMs));
  }

  release(name: string, holder: string, epoch: number): void {
    this.#setLease(releaseLease(this.#lease(name), holder, epoch));
  }

  setFacts(facts: readonly FactRow[]): void {
    this.#facts = facts;
  }

  compact(revision: number, superseded: readonly number[]): void {
    this.#compactedRevision = revision;
    this.#superseded = superseded;
  }

  /** The rows so far. Later commits only add to them. */
  first(): FirstRows {
    return { changes: this.changes.map(toRow), audit: this.#audit.slice() };
  }

  /** Ends the planning. The rows to write; undefined where nothing changes. */
  batch(): Batch | undefined {
    const { head } = this.#current;
    // The next draft references this one. Clearing the reference avoids a chain of all earlier drafts.
    this.#current = { ...this.#current, ahead: [] };
    const still =
      this.changes.length === 0 &&
      this.#audit.length === 0 &&
      this.leases.size === 0 &&
      this.#facts.length === 0 &&
      this.#compactedRevision === head.compactedRevision;
    if (still) return undefined;
    this.head = {
      sequence: head.sequence + 1,
      revision: this.revision,
      compactedRevision: this.#compactedRevision,
      treeSize: this.#frontier.size,
      frontier: this.#audit.length === 0 ? head.frontier : this.#frontier.encode(),
    };
    return {
      base: head,
      head: this.head,
      changes: this.changes.map(toRow),
      superseded: this.#superseded,
      audit: this.#audit,
      subtrees: this.#subtrees,
      leases: [...this.leases.values()],
      facts: this.#facts,
    };
  }

  #checkFence({ fence }: Commit): void {
    if (fence === undefined) return;
    const lease = this.#lease(fence.lease);
    if (lease?.epoch === fence.epoch) return;
    throw new HansaError(
      'HANSA_FENCED',
      `Cannot write under lease ${fence.lease} with epoch ${fence.epoch}: ${
        lease === undefined ? 'it was never held' : `it is at epoch ${lease.epoch}`
      }.`,
    );
  }

  #checkExpectations(commit: Commit): void {
    for (const expectation of commit.expect ?? []) {
      const { collection } = expectation;
      if ('below' in expectation) {
        const count = this.#count(collection);
        if (count < expectation.below) continue;
        throw new HansaError(
          'HANSA_CONFLICT',
          `Cannot add to ${collection}: it contains ${count} records, but must contain fewer than ${expectation.below}.`,
        );
      }
      const { name, at } = expectation;
      const found = this.#get(collection, name)?.revision ?? 'absent';
      if (found === at) continue;
      throw new HansaError(
        'HANSA_CONFLICT',
        `Cannot change ${collection}/${name}: expected it ${place(at)}, but it is ${place(found)}. Read it again and repeat the change.`,
      );
    }
  }

  #put({ collection, name, encode }: Put): Entry {
    const revision = this.revision + 1;
    const value = ownBytes(encode(revision));
    checkSize(value, `${collection}/${name}`);
    const entry: Entry = { collection, name, revision, value };
    this.bytes += value.byteLength;
    this.#change(collection, name, entry, this.#get(collection, name));
    return entry;
  }

  #change(
    collection: string,
    name: string,
    entry: Entry | undefined,
    previous: Entry | undefined,
  ): void {
    this.changes.push({ collection, name, revision: this.revision + 1, entry, previous });
    this.#setOverlay(collection, name, entry);
  }

  /** Runs last in a commit: after the rows are encoded nothing can fail, so no hash must be undone. */
  #appendAudit(commit: Commit): void {
    if (commit.audit === undefined) return;
    const revision = this.revision;
    const bodies = commit.audit.map((row, offset) => {
      const body = row.encode({ index: this.#frontier.size + offset, revision });
      checkSize(body, 'an audit record');
      return body;
    });
    for (const body of bodies) {
      const leaf = leafHash(body);
      this.#audit.push({ index: this.#frontier.size, leafHash: leaf, body });
      this.#frontier.append(leaf, this.#keepSubtree);
      this.bytes += body.byteLength;
    }
  }

  readonly #keepSubtree = (height: number, number: number, hash: Buffer): void => {
    const level = storedLevel(height);
    if (level !== undefined) this.#subtrees.push({ level, number, hash });
  };

  #get(collection: string, name: string): Entry | undefined {
    const own = this.#overlay.get(collection);
    if (own?.has(name)) return own.get(name);
    const { ahead, collections } = this.#current;
    for (let at = ahead.length - 1; at >= 0; at--) {
      const changed = (ahead[at] as TransactionDraft).#overlay.get(collection);
      if (changed?.has(name)) return changed.get(name);
    }
    return collections.get(collection, name);
  }

  /** Grows with what this transaction and those ahead change of the collection. */
  #count(collection: string): number {
    const { ahead, collections } = this.#current;
    const changed = new Set<string>();
    for (const draft of [...ahead, this]) {
      for (const name of draft.#overlay.get(collection)?.keys() ?? []) changed.add(name);
    }
    let count = collections.count(collection);
    for (const name of changed) {
      const was = collections.get(collection, name) !== undefined;
      const is = this.#get(collection, name) !== undefined;
      if (was !== is) count += was ? -1 : 1;
    }
    return count;
  }

  #setOverlay(collection: string, name: string, entry: Entry | undefined): void {
    let changed = this.#overlay.get(collection);
    if (changed === undefined) {
      changed = new Map();
      this.#overlay.set(collection, changed);
    }
    changed.set(name, entry);
  }

  #lease(name: string): LeaseState | undefined {
    const { ahead, leases } = this.#current;
    const planned = [this, ...ahead.toReversed()].find((draft) => draft.leases.has(name));
    return (planned?.leases ?? leases).get(name);
  }

  #setLease(state: LeaseState | undefined): LeaseState | undefined {
    if (state !== undefined) this.leases.set(state.name, state);
    return state;
  }
}

/** Copies views, because a view of a larger block (such as a request body) keeps all of it in memory. */
function ownBytes(value: Buffer): Buffer {
  return value.buffer.byteLength === value.byteLength ? value : unpooledCopy(value);
}

function toRow(change: Change): ChangeRow {
  return {
    revision: change.revision,
    collection: change.collection,
    name: change.name,
    value: change.entry?.value,
    previous: change.previous?.revision ?? 0,
  };
}

function place(at: number | 'absent'): string {
  return at === 'absent' ? 'absent' : `at revision ${at}`;
}

function checkSize(value: Buffer, what: string): void {
  if (value.byteLength <= maxValueBytes) return;
  throw new HansaError(
    'HANSA_TOO_LARGE',
    `Cannot store ${what}: it has ${value.byteLength} bytes, and the limit is ${maxValueBytes}.`,
  );
}
