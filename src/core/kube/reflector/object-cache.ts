// The objects that a reflector knows, with secondary indexes that follow each change.

import type { CacheUsage } from './cache-budget.ts';
import type { ObjectCost } from './object-cost.ts';

/**
 * The values under which an index finds an object. Must be pure: it is called again when the object goes.
 * If it throws for an object, the cache keeps what it had.
 */
export type IndexFunction<T> = (object: T) => readonly string[];

export interface VersionedObject<T> {
  /** NAMESPACE/NAME, or NAME. */
  readonly key: string;
  readonly version: string;
  readonly object: T;
}

export interface CacheEntry<T> extends VersionedObject<T> {
  /** Of the object as it is kept. */
  readonly cost: ObjectCost;
}

export interface ObjectChange<T> {
  readonly key: string;
  readonly old: T | undefined;
  /** Undefined where it was deleted. */
  readonly new: T | undefined;
}

interface Index<T> {
  readonly valuesOf: IndexFunction<T>;
  /** A set where a value finds several objects. Most find one, and a set for each would take more memory. */
  readonly keys: Map<string, string | Set<string>>;
}

/** Changes cost O(indexes), look-ups O(results). */
export class ObjectCache<T, I extends string> {
  readonly #indexes: ReadonlyMap<string, Index<T>>;
  #entries = new Map<string, CacheEntry<T>>();
  #bytes = 0;
  #values = 0;

  constructor(indexes: Readonly<Record<I, IndexFunction<T>>>) {
    this.#indexes = new Map(
      Object.entries<IndexFunction<T>>(indexes).map(([name, valuesOf]) => [
        name,
        { valuesOf, keys: new Map<string, string | Set<string>>() },
      ]),
    );
  }

  get size(): number {
    return this.#entries.size;
  }

  get usage(): CacheUsage {
    return { objects: this.#entries.size, bytes: this.#bytes, values: this.#values };
  }

  get(key: string): T | undefined {
    return this.#entries.get(key)?.object;
  }

  versionOf(key: string): string | undefined {
    return this.#entries.get(key)?.version;
  }

  keys(): IterableIterator<string> {
    return this.#entries.keys();
  }

  *values(): Generator<T, void> {
    for (const { object } of this.#entries.values()) yield object;
  }

  byIndex(name: I, value: string): readonly T[] {
    const keys = this.#indexes.get(name)?.keys.get(value) ?? [];
    return (typeof keys === 'string' ? [keys] : [...keys]).map((key) => this.get(key) as T);
  }

  set(entry: CacheEntry<T>): ObjectChange<T> {
    const old = this.#entries.get(entry.key);
    const values = this.#indexValues(entry.object);
    if (old !== undefined) this.#remove(old);
    this.#entries.set(entry.key, entry);
    this.#bytes += entry.cost.bytes;
    this.#values += entry.cost.values;
    let at = 0;
    for (const { keys } of this.#indexes.values()) {
      for (const value of values[at++] ?? []) {
        const found = keys.get(value);
        if (found === undefined) keys.set(value, entry.key);
        else if (typeof found !== 'string') found.add(entry.key);
        else if (found !== entry.key) keys.set(value, new Set([found, entry.key]));
      }
    }
    return { key: entry.key, old: old?.object, new: entry.object };
  }

  /** Undefined where it is not there. */
  delete(key: string): ObjectChange<T> | undefined {
    const old = this.#entries.get(key);
    if (old === undefined) return undefined;
    this.#remove(old);
    return { key, old: old.object, new: undefined };
  }

  /**
   * Makes these the only entries and returns the difference, deletions first. An entry whose version did
   * not change is no change, unless `isRestart`: then the same version may mean something else.
   */
  replace(
    entries: ReadonlyMap<string, CacheEntry<T>>,
    isRestart: boolean,
  ): readonly ObjectChange<T>[] {
    const changed = [...entries.values()].filter(
      ({ key, version }) => isRestart || this.versionOf(key) !== version,
    );
    // All before the first change, so that a function that throws leaves no half of a difference.
    for (const { object } of changed) this.#indexValues(object);
    const changes: ObjectChange<T>[] = [];
    for (const key of this.#entries.keys()) {
      const gone = entries.has(key) ? undefined : this.delete(key);
      if (gone !== undefined) changes.push(gone);
    }
    for (const entry of changed) changes.push(this.set(entry));
    return changes;
  }

  clear(): void {
    this.#entries.clear();
    this.#bytes = 0;
    this.#values = 0;
    for (const { keys } of this.#indexes.values()) keys.clear();
  }

  #indexValues(object: T): readonly (readonly string[])[] {
    return [...this.#indexes.values()].map(({ valuesOf }) => valuesOf(object));
  }

  #remove({ key, object, cost }: CacheEntry<T>): void {
    this.#entries.delete(key);
    this.#bytes -= cost.bytes;
    this.#values -= cost.values;
    for (const { valuesOf, keys } of this.#indexes.values()) {
      for (const value of valuesOf(object)) {
        const found = keys.get(value);
        if (found === key) keys.delete(value);
        else if (typeof found === 'object' && found.delete(key) && found.size === 0) {
          keys.delete(value);
        }
      }
    }
  }
}
