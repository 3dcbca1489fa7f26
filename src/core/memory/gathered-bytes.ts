// Gathers the parts of a body from the network. Its sender chooses their sizes. A list of parts of one byte
// would take a hundred times the memory of the body, so all parts but the first are copied together.

export class GatheredBytes {
  /** The first part itself, or memory of our own with room for more. */
  #bytes: Buffer | undefined;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  add(part: Buffer): void {
    const at = this.#length;
    this.#length += part.length;
    if (this.#bytes === undefined) {
      this.#bytes = part;
      return;
    }
    if (this.#length > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(2 * this.#length);
      this.#bytes.copy(larger);
      this.#bytes = larger;
    }
    part.copy(this.#bytes, at);
  }

  /** All bytes. A single part is not copied. */
  take(): Buffer {
    return this.#bytes?.subarray(0, this.#length) ?? Buffer.alloc(0);
  }
}
