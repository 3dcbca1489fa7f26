// Seeded random numbers for the transcripts: the same seed gives the same numbers on every machine.

export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** Uniform in [0, 1). Mulberry32: 32 bits of state are plenty for choosing test steps. */
  unit(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  below(bound: number): number {
    return Math.floor(this.unit() * bound);
  }

  chance(probability: number): boolean {
    return this.unit() < probability;
  }

  pick<T>(from: readonly [T, ...T[]] | readonly T[]): T {
    const chosen = from[this.below(from.length)];
    if (chosen === undefined && from.length === 0) throw new RangeError('nothing to pick from');
    return chosen as T;
  }

  /** Each item with the given probability, in order. */
  some<T>(from: readonly T[], probability: number): T[] {
    return from.filter(() => this.chance(probability));
  }

  /** One of the alternatives, each as often as its weight says. */
  weighted<T>(alternatives: readonly (readonly [number, T])[]): T {
    const total = alternatives.reduce((sum, [weight]) => sum + weight, 0);
    let rest = this.unit() * total;
    for (const [weight, value] of alternatives) {
      rest -= weight;
      if (rest < 0) return value;
    }
    return (alternatives.at(-1) as readonly [number, T])[1];
  }
}
