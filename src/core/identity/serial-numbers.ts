// Serial numbers: random, so that nobody can foretell what an authority will sign (RFC 5280
// §4.1.2.2). Drawn by the page, because asking for randomness costs as much as a third of a signature.

import type { Random } from '../clock/clock.ts';

const serialBytes = 16;
const serialsPerPage = 512;

export class SerialNumbers {
  readonly #random: Random;
  #page = Buffer.alloc(0);
  #at = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  /** Undefined where the page is used up: then `draw`. */
  take(): Buffer | undefined {
    if (this.#at === this.#page.length) return undefined;
    const serial = this.#page.subarray(this.#at, (this.#at += serialBytes));
    // Positive, and always of the same length: 126 bits are left to chance.
    serial[0] = ((serial[0] as number) & 0x3f) | 0x40;
    return serial;
  }

  async draw(): Promise<Buffer> {
    const bytes = await this.#random.bytes(serialBytes * serialsPerPage);
    // Whoever else drew meanwhile has left a page; it is dropped, not reused.
    this.#page = Buffer.from(bytes);
    this.#at = 0;
    return this.take() as Buffer;
  }
}
