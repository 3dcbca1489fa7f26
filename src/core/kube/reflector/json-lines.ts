// Splits the body of a watch into lines. A line may arrive in any number of chunks, cut anywhere.

const newline = 0x0a;
/** A buffer for split lines that grew beyond this is not kept. */
const keptBytes = 64 * 1024;

export class LineTooLongError extends Error {
  override readonly name = 'LineTooLongError';
}

export class JsonLines {
  readonly #maxBytes: number;
  #buffer: Buffer = Buffer.alloc(0);
  #length = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Whether a line has begun and not ended. */
  get hasRest(): boolean {
    return this.#length > 0;
  }

  /**
   * The lines that end in this chunk, without empty ones. A line is valid until the next one is taken.
   * Throws a LineTooLongError.
   */
  *push(chunk: Buffer): Generator<Buffer, void> {
    let from = 0;
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, from)) {
      const line = this.#complete(chunk.subarray(from, end));
      from = end + 1;
      if (line.length > 0) yield line;
    }
    if (from < chunk.length) this.#keep(chunk.subarray(from));
  }

  #complete(piece: Buffer): Buffer {
    if (this.#length === 0 && piece.length <= this.#maxBytes) return piece;
    this.#keep(piece);
    const line = this.#buffer.subarray(0, this.#length);
    this.#length = 0;
    if (this.#buffer.length > keptBytes) this.#buffer = Buffer.alloc(0);
    return line;
  }

  /** The buffer doubles, so that many small chunks cost no more than one large one. */
  #keep(piece: Buffer): void {
    const length = this.#length + piece.length;
    if (length > this.#maxBytes) {
      throw new LineTooLongError(`an event has more than ${this.#maxBytes} bytes`);
    }
    if (length > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(length, 2 * this.#buffer.length));
      this.#buffer.copy(larger, 0, 0, this.#length);
      this.#buffer = larger;
    }
    piece.copy(this.#buffer, this.#length);
    this.#length = length;
  }
}
