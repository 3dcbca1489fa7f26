// What objects cost in memory, for limits. Pure.

/** Of one object or of many. */
export interface ObjectCost {
  /** About the size as JSON. */
  readonly bytes: number;
  /** Objects, arrays, fields and items. */
  readonly values: number;
}

export const noCost: ObjectCost = { bytes: 0, values: 0 };

export function sumOf(a: ObjectCost, b: ObjectCost): ObjectCost {
  return { bytes: a.bytes + b.bytes, values: a.values + b.values };
}

export function differenceOf(a: ObjectCost, b: ObjectCost): ObjectCost {
  return { bytes: a.bytes - b.bytes, values: a.values - b.values };
}

/** The key, the version and the places in maps, which also an empty object has. */
const entryCost: ObjectCost = { bytes: 128, values: 4 };

/** Of an object that was parsed from JSON, and so does not nest deeply, as it is kept. O(size). */
export function costOf(object: unknown): ObjectCost {
  const cost: Mutable<ObjectCost> = { ...entryCost };
  add(object, cost);
  return cost;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** Makes no arrays on the way: it runs for each event. */
function add(value: unknown, cost: Mutable<ObjectCost>): void {
  if (typeof value === 'string') cost.bytes += value.length + 2;
  else if (typeof value !== 'object' || value === null) cost.bytes += 5;
  else {
    // An empty one has a size too.
    cost.values++;
    if (Array.isArray(value)) {
      for (const item of value) {
        cost.values++;
        cost.bytes += 5;
        add(item, cost);
      }
      return;
    }
    for (const key of Object.keys(value)) {
      cost.values++;
      cost.bytes += key.length + 4;
      add((value as Readonly<Record<string, unknown>>)[key], cost);
    }
  }
}
