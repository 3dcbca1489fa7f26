// The body of a whole collection, for all clients that list it. While it is current, its pieces are put
// together once. A client that still reads an older one gets its pieces put together from the stored
// objects, so that slow readers do not keep a copy of the collection for each revision.

import type { Entry } from '../../core/store/store.ts';
import type { AnswerBody } from '../http/answers.ts';
import { maxWriteBytes } from '../http/unread-output.ts';
import { listEnd } from './list-body.ts';

/** A client that reads slowly keeps at most one piece. */
const pieceBytes = 128 * 1024;

export class WholeList {
  readonly entries: readonly Entry[];
  /** Of the body without its head, which has the revision of the store. */
  readonly #length: number;
  /** The index of the first entry of each piece. */
  readonly #starts: readonly number[];
  /** Those that were put together. */
  #pieces: (Buffer | undefined)[] = [];
  #isCurrent = true;
  #short: { readonly revision: number; readonly body: Buffer } | undefined;

  /** O(entries). */
  constructor(entries: readonly Entry[]) {
    this.entries = entries;
    const starts = [0];
    let length = 0;
    let ofPiece = 0;
    for (const [at, { value }] of entries.entries()) {
      length += value.length;
      ofPiece += value.length;
      if (ofPiece < pieceBytes || at + 1 === entries.length) continue;
      starts.push(at + 1);
      ofPiece = 0;
    }
    this.#length = length + Math.max(0, entries.length - 1) + listEnd.length;
    // One write sends a short list.
    this.#starts = this.#length <= maxWriteBytes ? [0] : starts;
  }

  /** The body at this revision of the store, for one client. A short one is whole. */
  body(revision: number, headAt: () => string): Buffer | AnswerBody {
    if (this.#starts.length > 1) return this.#read(Buffer.from(headAt()));
    if (this.#short?.revision !== revision) {
      const body = Buffer.concat([Buffer.from(headAt()), this.#piece(0)]);
      this.#short = { revision, body };
    }
    return this.#short.body;
  }

  /** From now on, pieces are no longer kept. */
  retire(): void {
    this.#isCurrent = false;
    this.#pieces = [];
  }

  #read(head: Buffer): AnswerBody {
    let at = -1;
    let offset = 0;
    return {
      keptBytes: 0,
      length: head.length + this.#length,
      next: (bytes) => {
        if (at === this.#starts.length) return undefined;
        if (at === -1) {
          at = 0;
          return head;
        }
        const piece = this.#piece(at);
        const part = piece.subarray(offset, offset + bytes);
        offset += part.length;
        if (offset === piece.length) {
          at += 1;
          offset = 0;
        }
        return part;
      },
    };
  }

  #piece(at: number): Buffer {
    const known = this.#pieces[at];
    if (known !== undefined) return known;
    const parts: Buffer[] = [];
    const end = this.#starts[at + 1] ?? this.entries.length;
    for (let index = this.#starts[at] as number; index < end; index += 1) {
      if (index > 0) parts.push(comma);
      parts.push((this.entries[index] as Entry).value);
    }
    if (end === this.entries.length) parts.push(listEnd);
    const piece = Buffer.concat(parts);
    if (this.#isCurrent && this.#starts.length > 1) this.#pieces[at] = piece;
    return piece;
  }
}

const comma = Buffer.from(',');
