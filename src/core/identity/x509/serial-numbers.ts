// Random serial numbers, so that an attacker cannot predict what an authority will sign (RFC 5280
// §4.1.2.2). The site draws 2,048 at once, because one call for randomness costs as much as a
// signature.

import type { Random } from '../../clock/clock.ts';

const serialBytes = 16;
/** 32 KiB. */
const serialsPerPage = 2048;

export class SerialNumbers {
  readonly #random: Random;
  #page = Buffer.alloc(0);
  #at = 0;
  #drawing: Promise<void> | undefined;

  constructor(random: Random) {
    this.#random = random;
  }

  /** Undefined where the page is used up. Then call `draw`. */
  take(): Buffer | undefined {
    if (this.#at === this.#page.length) return undefined;
    const serial = this.#page.subarray(this.#at, (this.#at += serialBytes));
    // Positive and always of the same length, with 126 random bits.
    serial[0] = ((serial[0] as number) & 0x3f) | 0x40;
    return serial;
  }

  /** Concurrent callers wait for the same page. */
  async draw(): Promise<Buffer> {
    for (;;) {
      this.#drawing ??= this.#turnPage();
      await this.#drawing;
      const serial = this.take();
      if (serial !== undefined) return serial;
    }
  }

  async #turnPage(): Promise<void> {
    try {
      this.#page = Buffer.from(await this.#random.bytes(serialBytes * serialsPerPage));
      this.#at = 0;
    } finally {
      this.#drawing = undefined;
    }
  }
}
