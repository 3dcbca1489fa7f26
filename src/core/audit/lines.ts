// Splits a stream of byte chunks into lines of bounded length, to read exports of the audit log.

import { HansaError } from '../errors/error.ts';

/** The complete lines of each piece together, without their newlines. A last line without one is `rest`. */
export class LineSplitter {
  readonly #longest: number;
  #held: Buffer[] = [];
  #heldBytes = 0;

  constructor(longestBytes: number) {
    this.#longest = longestBytes;
  }

  /** Lines share memory with `piece`. */
  push(piece: Buffer): Buffer[] {
    const lines: Buffer[] = [];
    let start = 0;
    for (let end = piece.indexOf(10); end !== -1; end = piece.indexOf(10, start)) {
      const tail = piece.subarray(start, end);
      if (this.#heldBytes > 0) {
        lines.push(Buffer.concat([...this.#held, tail]));
        this.#held = [];
        this.#heldBytes = 0;
      } else {
        lines.push(tail);
      }
      start = end + 1;
    }
    if (start < piece.length) {
      this.#held.push(piece.subarray(start));
      this.#heldBytes += piece.length - start;
      if (this.#heldBytes > this.#longest) {
        throw new HansaError(
          'HANSA_AUDIT_INVALID',
          `Cannot verify the audit log: a line is longer than ${this.#longest} bytes, so this is not an export.`,
        );
      }
    }
    return lines;
  }

  get rest(): Buffer {
    return Buffer.concat(this.#held);
  }
}
