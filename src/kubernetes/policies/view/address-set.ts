// Addresses that are asked about by range. A question costs a binary search, because thousands of policies ask about
// tens of thousands of addresses.

import { type AddressRange, addressRange } from '../../../api/values/prefix.ts';

export class AddressSet {
  /** By the bits of the family, in ascending order. */
  readonly #sorted: ReadonlyMap<number, readonly bigint[]>;

  /** What is no address is left out. */
  constructor(addresses: Iterable<string>) {
    const found = new Map<number, bigint[]>([
      [32, []],
      [128, []],
    ]);
    for (const address of addresses) {
      const range = addressRange(address);
      if (range?.first === range?.last && range !== undefined) {
        found.get(range.bits)?.push(range.first);
      }
    }
    for (const values of found.values()) values.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
    this.#sorted = found;
  }

  /** Whether an address is in the range and in none of the exceptions. A range that cannot be read has none. */
  hasIn(cidr: string, except: readonly string[] = []): boolean {
    const range = addressRange(cidr);
    if (range === undefined) return false;
    const values = this.#sorted.get(range.bits) ?? [];
    const holes = except
      .map(addressRange)
      .filter((hole): hole is AddressRange => hole?.bits === range.bits)
      .toSorted((a, b) => (a.first < b.first ? -1 : 1));
    let from = range.first;
    for (const hole of holes) {
      const found = atLeast(values, from);
      if (found === undefined || found > range.last) return false;
      if (found < hole.first) return true;
      if (hole.last >= from) from = hole.last + 1n;
    }
    const found = atLeast(values, from);
    return found !== undefined && found <= range.last;
  }
}

/** The smallest one that is not below the limit. */
function atLeast(sorted: readonly bigint[], limit: bigint): bigint | undefined {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as bigint) < limit) low = middle + 1;
    else high = middle;
  }
  return sorted[low];
}
