// All current records of all collections, in memory.

import { compareUtf8, sortUtf8 } from '../utf8.ts';
import type { Change, Entry } from '../store.ts';

const none: readonly Entry[] = Object.freeze([]);

class Collection {
  readonly entries = new Map<string, Entry>();
  /** The listing as of the last call of `sorted`; never written to, readers hold it. */
  #sorted: readonly Entry[] = none;
  /** Names that changed since. */
  readonly #touched = new Set<string>();

  apply(name: string, entry: Entry | undefined): void {
    if (entry === undefined) this.entries.delete(name);
    else this.entries.set(name, entry);
    this.#touched.add(name);
  }

  /** O(1) where nothing was touched; else O(n) to copy and O(k log n) comparisons for k touched. */
  sorted(): readonly Entry[] {
    if (this.#touched.size === 0) return this.#sorted;
    const old = this.#sorted;
    const touched = sortUtf8([...this.#touched]);
    const merged: Entry[] = [];
    let from = 0;
    for (const name of touched) {
      const at = lowerBound(old, name, from);
      for (let i = from; i < at; i++) merged.push(old[i] as Entry);
      const entry = this.entries.get(name);
      if (entry !== undefined) merged.push(entry);
      from = old[at]?.name === name ? at + 1 : at;
    }
    for (let i = from; i < old.length; i++) merged.push(old[i] as Entry);
    this.#touched.clear();
    this.#sorted = Object.freeze(merged);
    return this.#sorted;
  }
}

/** The index of the first entry whose name is not below `name`. */
function lowerBound(entries: readonly Entry[], name: string, from: number): number {
  let low = from;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (compareUtf8((entries[middle] as Entry).name, name) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class Collections {
  readonly #collections = new Map<string, Collection>();

  get(collection: string, name: string): Entry | undefined {
    return this.#collections.get(collection)?.entries.get(name);
  }

  count(collection: string): number {
    return this.#collections.get(collection)?.entries.size ?? 0;
  }

  list(collection: string): readonly Entry[] {
    return this.#collections.get(collection)?.sorted() ?? none;
  }

  apply(change: Pick<Change, 'collection' | 'name' | 'entry'>): void {
    let collection = this.#collections.get(change.collection);
    if (collection === undefined) {
      collection = new Collection();
      this.#collections.set(change.collection, collection);
    }
    collection.apply(change.name, change.entry);
  }

  /** How many records there are in all. */
  get size(): number {
    let size = 0;
    for (const collection of this.#collections.values()) size += collection.entries.size;
    return size;
  }
}
