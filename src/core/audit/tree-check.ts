// Rebuilds the tree of a log record by record, and compares it with the signed one. If they differ, it says
// which record was changed, or that the log was rewritten.

import type { HansaError } from '../errors/error.ts';
import { Frontier, hashBytes, leafHash } from '../merkle/tree.ts';
import { parseEvent } from './event.ts';
import {
  type EarlierTree,
  invalid,
  rewritten,
  type SignedHead,
  type Verified,
} from './signed-head.ts';

/** Rows between two lists of their hashes: about 4 ms of hashing. */
export const mostRowsAtOnce = 1024;

export class TreeCheck {
  readonly #head: SignedHead;
  readonly #rows = Frontier.empty();
  /** Leaf hashes of the rows that wait for the hashes that were stored with them. */
  #waiting: Buffer[] = [];
  /** The first record that differs from its hash, how many do, and the tree of the stored hashes. */
  #changed: { readonly first: number; count: number; readonly stored: Frontier } | undefined;
  /** The first tree that the rows do not extend. */
  #broken: EarlierTree | undefined;

  constructor(head: SignedHead) {
    this.#head = head;
    this.#compareEarlier();
  }

  get size(): number {
    return this.#rows.size + this.#waiting.length;
  }

  add(row: Buffer): void {
    const index = this.size;
    const { size } = this.#head.claim;
    if (index >= size) {
      throw invalid(
        `there are records beyond the ${size} that the checkpoint signs: they were added`,
      );
    }
    checkIndex(row, index);
    if (this.#waiting.length >= mostRowsAtOnce) {
      throw invalid(
        `the hashes of the records ${this.#rows.size} to ${index - 1} are missing: they were removed`,
      );
    }
    this.#waiting.push(leafHash(row));
  }

  /** The hashes that the log holds of all rows that were added since the last call. */
  compare(stored: Buffer): void {
    const from = this.#rows.size;
    if (stored.length !== this.#waiting.length * hashBytes) {
      throw invalid(
        `from record ${from} on, there are ${this.#waiting.length} records with ${stored.length / hashBytes} hashes: records were removed or inserted`,
      );
    }
    this.#waiting.forEach((leaf, i) => {
      const expected = stored.subarray(i * hashBytes, (i + 1) * hashBytes);
      if (!expected.equals(leaf)) {
        this.#changed ??= { first: from + i, count: 0, stored: this.#rows.clone() };
        this.#changed.count++;
      }
      this.#changed?.stored.append(expected);
      this.#rows.append(leaf);
      this.#compareEarlier();
    });
    this.#waiting = [];
    this.#head.progress?.(this.#rows.size, this.#head.claim.size);
  }

  finish(what: string): Verified {
    const { claim } = this.#head;
    const { size } = claim;
    if (this.size < size) {
      throw invalid(
        `${what} ends after ${this.size} records, but its checkpoint signs ${size}: it was truncated or records were removed`,
      );
    }
    if (this.#waiting.length > 0) {
      throw invalid(`${what} ends without the hashes of its last ${this.#waiting.length} records`);
    }
    const problem = this.#problem();
    if (problem !== undefined) throw problem;
    return claim;
  }

  /** A record that was changed comes first: the trees that it is in differ from what anybody saw too. */
  #problem(): HansaError | undefined {
    const { size, rootHash } = this.#head.claim;
    const isSigned = this.#rows.root().equals(rootHash);
    if (this.#changed !== undefined) {
      const { first, count, stored } = this.#changed;
      if (isSigned) {
        return invalid(
          `the hash of record ${first} was changed. The ${size} records are those that the checkpoint signs`,
        );
      }
      const others = count === 1 ? '' : `, and so were ${count - 1} later records`;
      const hashes = stored.root().equals(rootHash)
        ? 'The checkpoint signs the stored hashes, so nothing else was changed'
        : 'The stored hashes do not add up to the signed tree head, so hashes were changed too';
      return invalid(
        `record ${first} was changed: it no longer has the hash that was stored with it${others}. ${hashes}`,
      );
    }
    if (!isSigned) {
      return invalid(
        `the ${size} records have the hashes that were stored with them, but do not add up to the signed tree head: at least one was changed together with its hash, and the log was not signed again`,
      );
    }
    return this.#broken === undefined ? undefined : rewritten(this.#broken);
  }

  #compareEarlier(): void {
    for (const earlier of this.#head.earlierTrees) {
      if (earlier.size !== this.#rows.size) continue;
      if (!this.#rows.root().equals(earlier.rootHash)) this.#broken ??= earlier;
    }
  }
}

/** Canonical records carry their index at a known place: `{"time":"…24 characters…","index":N,` */
function checkIndex(row: Buffer, index: number): void {
  const expected = `,"index":${index},`;
  if (row.toString('latin1', 34, 34 + expected.length) === expected) return;
  const found = parseEvent(row).index;
  throw invalid(
    found > index
      ? `record ${index} is missing: record ${found} is in its place, so records were removed or reordered`
      : `record ${found} is in the place of record ${index}: records were inserted or reordered`,
  );
}
