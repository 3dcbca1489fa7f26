// The recent changes, from which a watch can resume. Every revision above `compactedRevision` is
// exactly one change, so a revision maps to an index.

import { withoutSealedValues } from '../sealing/sealed-collections.ts';
import type { Change } from '../store.ts';

export interface HistoryLimits {
  readonly maxChanges: number;
  /** Bytes that only the history keeps in memory: replaced or deleted values. */
  readonly maxBytes: number;
}

/**
 * etcd keeps five minutes or 10,000 revisions for a watch cache of this kind; a reader that is
 * further behind lists again.
 */
export const defaultHistoryLimits: HistoryLimits = {
  maxChanges: 10_000,
  maxBytes: 64 * 1024 * 1024,
};

/** Overhead of a change besides its value: objects in memory and a row on disk. */
const overheadBytes = 256;

function weight(change: Change): number {
  return overheadBytes + (change.previous?.value.byteLength ?? 0);
}

export class History {
  #compactedRevision: number;
  #changes: Change[] = [];
  /** Index of the oldest change still kept; earlier ones are removed from time to time. */
  #start = 0;
  #bytes = 0;

  constructor(compactedRevision: number) {
    this.#compactedRevision = compactedRevision;
  }

  get compactedRevision(): number {
    return this.#compactedRevision;
  }

  get length(): number {
    return this.#changes.length - this.#start;
  }

  push(told: Change): void {
    const change = withoutSealedValues(told);
    this.#changes.push(change);
    this.#bytes += weight(change);
  }

  /** The changes of one collection above revision `after`, which must not be compacted. */
  since(collection: string, after: number): Change[] {
    const found: Change[] = [];
    const first = this.#start + (after - this.#compactedRevision);
    for (let at = first; at < this.#changes.length; at++) {
      const change = this.#changes[at] as Change;
      if (change.collection === collection) found.push(change);
    }
    return found;
  }

  /**
   * The revision to compact to where history has outgrown its limits. It leaves a tenth of slack,
   * so that rows are removed a thousand at a time and not with every commit.
   */
  overdue(limits: HistoryLimits): number | undefined {
    if (this.length <= limits.maxChanges && this.#bytes <= limits.maxBytes) return undefined;
    let count = this.length;
    let bytes = this.#bytes;
    let at = this.#start;
    while (
      at < this.#changes.length &&
      (count > limits.maxChanges * 0.9 || bytes > limits.maxBytes * 0.9)
    ) {
      bytes -= weight(this.#changes[at] as Change);
      count--;
      at++;
    }
    return this.#compactedRevision + (at - this.#start);
  }

  /** Revisions of the rows that can be deleted when history is compacted to `revision`. */
  supersededBy(revision: number): number[] {
    const revisions: number[] = [];
    const end = this.#start + (revision - this.#compactedRevision);
    for (let at = this.#start; at < end; at++) {
      const change = this.#changes[at] as Change;
      if (change.previous !== undefined) revisions.push(change.previous.revision);
      if (change.entry === undefined) revisions.push(change.revision);
    }
    return revisions;
  }

  /** Forgets the changes up to and including `revision`. */
  compact(revision: number): void {
    const end = this.#start + (revision - this.#compactedRevision);
    for (let at = this.#start; at < end; at++) this.#bytes -= weight(this.#changes[at] as Change);
    this.#start = end;
    this.#compactedRevision = revision;
    // Copying is amortised: what is cut off was pushed since the last cut.
    if (this.#start > 1024 || this.#start === this.#changes.length) {
      this.#changes = this.#changes.slice(this.#start);
      this.#start = 0;
    }
  }
}
