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

/** Of an object that was parsed from JSON, as it is kept. O(size). */
export function costOf(object: unknown): ObjectCost {
  let { bytes, values } = entryCost;
  const rest: unknown[] = [object];
  while (rest.length > 0) {
    const value = rest.pop();
    if (typeof value === 'string') bytes += value.length + 2;
    else if (typeof value !== 'object' || value === null) bytes += 5;
    else {
      // An empty one has a size too.
      values++;
      for (const [key, item] of Object.entries(value)) {
        values++;
        bytes += key.length + 4;
        rest.push(item);
      }
    }
  }
  return { bytes, values };
}
