// How much reflectors may hold. Several reflectors can share a budget, such as all those of one cluster, so
// that a hostile cluster cannot fill the memory with many collections.

import type { ObjectCost } from './object-cost.ts';
import { ReflectorError } from './reflector-failure.ts';

export interface CacheLimits {
  readonly maxObjects: number;
  /** Of all objects, about as JSON, as they are kept. */
  readonly maxBytes: number;
  /** Fields and items of all objects, as they are kept. A hostile server can make each cost 100 bytes. */
  readonly maxValues: number;
}

export interface CacheUsage extends ObjectCost {
  readonly objects: number;
}

const nothing: CacheUsage = { objects: 0, bytes: 0, values: 0 };

/** Throws where there is more than that. `what` is what the limits are for. */
export function checkUsage(
  { maxObjects, maxBytes, maxValues }: CacheLimits,
  { objects, bytes, values }: CacheUsage,
  what: string,
): void {
  if (objects <= maxObjects && bytes <= maxBytes && values <= maxValues) return;
  throw new ReflectorError(
    'over-limit',
    `${what} more than ${maxObjects} objects, ${maxBytes} bytes or ${maxValues} fields and items`,
  );
}

export class CacheBudget {
  readonly #limits: CacheLimits;
  #used = nothing;

  constructor(limits: CacheLimits) {
    this.#limits = limits;
  }

  /** Of all its shares together. */
  get used(): CacheUsage {
    return this.#used;
  }

  /** For one reflector. */
  share(): BudgetShare {
    let own = nothing;
    const together = (usage: CacheUsage): CacheUsage => ({
      objects: this.#used.objects + usage.objects - own.objects,
      bytes: this.#used.bytes + usage.bytes - own.bytes,
      values: this.#used.values + usage.values - own.values,
    });
    return {
      set: (usage) => {
        this.#used = together(usage);
        own = usage;
      },
      check: (usage) =>
        checkUsage(this.#limits, together(usage), 'all collections of the cluster together have'),
    };
  }
}

export interface BudgetShare {
  /** What the reflector holds now. Never throws: what is held, is held. */
  set(usage: CacheUsage): void;
  /** Throws where this and all other shares together would be beyond the budget. */
  check(usage: CacheUsage): void;
}

/** While a list replaces a cache, both are there. The larger one counts, so a budget can be exceeded twofold. */
export function largerOf(a: CacheUsage, b: CacheUsage): CacheUsage {
  return {
    objects: Math.max(a.objects, b.objects),
    bytes: Math.max(a.bytes, b.bytes),
    values: Math.max(a.values, b.values),
  };
}

export const emptyUsage = nothing;
