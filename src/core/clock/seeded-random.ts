// Reproducible randomness for tests and simulation: the seed determines every value that a run draws.

import { hash } from 'node:crypto';
import type { Random } from './clock.ts';

/**
 * SHA-256 in counter mode under a key made from the seed. Good enough to replace real
 * randomness in tests, but not secret: a failing test prints the seed.
 */
export class SeededRandom implements Random {
  readonly #key: Buffer;
  readonly #input = Buffer.alloc(40);
  #counter = 0n;
  #block: Buffer = Buffer.alloc(0);
  #used = 0;

  constructor(seed: string | number | Uint8Array) {
    this.#key = hash('sha256', typeof seed === 'number' ? String(seed) : seed, 'buffer');
    this.#key.copy(this.#input);
  }

  /**
   * An independent source for one part of the run. It depends only on the seed and the label, not
   * on earlier values, so that a change in one part does not disturb the others. The same
   * label gives the same source.
   */
  fork(label: string): SeededRandom {
    return new SeededRandom(Buffer.concat([this.#key, Buffer.from(`/${label}`)]));
  }

  bytes(count: number): Promise<Uint8Array> {
    return Promise.resolve(this.take(count));
  }

  /** `bytes` at once. */
  take(count: number): Buffer {
    const out = Buffer.alloc(count);
    for (let filled = 0; filled < count; ) {
      if (this.#used === this.#block.length) this.#refill();
      const copied = this.#block.copy(out, filled, this.#used);
      filled += copied;
      this.#used += copied;
    }
    return out;
  }

  unit(): number {
    // 53 bits, as many as a double has.
    const bytes = this.take(7);
    return (bytes.readUIntBE(0, 6) * 32 + ((bytes[6] as number) & 31)) / 2 ** 53;
  }

  uuid(): string {
    const bytes = this.take(16);
    bytes[6] = ((bytes[6] as number) & 0x0f) | 0x40;
    bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
    const hex = bytes.toString('hex');
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  }

  /** A whole number from `min` to `max`, both included. */
  integer(min: number, max: number): number {
    return min + Math.floor(this.unit() * (max - min + 1));
  }

  chance(probability: number): boolean {
    return this.unit() < probability;
  }

  pick<T>(items: readonly T[]): T {
    if (items.length === 0) throw new RangeError('nothing to pick from');
    return items[this.integer(0, items.length - 1)] as T;
  }

  #refill(): void {
    this.#input.writeBigUInt64BE(this.#counter++, 32);
    this.#block = hash('sha256', this.#input, 'buffer');
    this.#used = 0;
  }
}
