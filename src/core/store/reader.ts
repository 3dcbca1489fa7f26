// Typed readers of stored values: the only place that parses them. An entry is immutable, so a parsed
// value stays valid as long as its entry, and no cache needs invalidation.
//
// A reader belongs to a kind or a collection, not to a store, so it is a constant of the file that
// uses it. How much of a value stays in memory depends on the method:
// - `get`, `list` and `of` keep the whole value with its entry, one copy for all readers;
// - `once` keeps nothing;
// - `derive` keeps only a computed result: for kinds with thousands of large objects.

import type { Kind, ResourceOf } from '../../api/kind.ts';
import { HansaError } from '../errors/error.ts';
import type { SealedPlace, Sealer } from './sealing/sealer.ts';
import type { Entry, Store } from './store.ts';

/**
 * All callers share the values, so they must not change them. Throws HANSA_STORE_CORRUPT where
 * a stored value is damaged.
 */
export abstract class Reader<T> {
  readonly collection: string;

  constructor(collection: string) {
    this.collection = collection;
  }

  /** Kept as long as the entry. */
  abstract of(entry: Entry): T;
  /** Parses for this call, unless the value is already cached. */
  abstract once(entry: Entry): T;

  get(store: Pick<Store, 'get'>, name: string): T | undefined {
    const entry = store.get(this.collection, name);
    return entry && this.of(entry);
  }

  /** In order of names. O(entries). */
  list(store: Pick<Store, 'list'>): readonly T[] {
    return store.list(this.collection).entries.map((entry) => this.of(entry));
  }

  /** A reader of the result of `compute`, which runs once per entry and must be pure. */
  derive<D>(compute: (value: T, entry: Entry) => D): DerivedReader<T, D> {
    return new DerivedReader(this, compute);
  }
}

class ValueReader<T> extends Reader<T> {
  of(entry: Entry): T {
    return valueOf(entry) as T;
  }

  once(entry: Entry): T {
    return (keptValue(entry) ?? parse(entry)) as T;
  }
}

export class DerivedReader<T, D> extends Reader<D> {
  readonly #values: Reader<T>;
  readonly #compute: (value: T, entry: Entry) => D;
  readonly #derived = new WeakMap<Entry, D>();

  constructor(values: Reader<T>, compute: (value: T, entry: Entry) => D) {
    super(values.collection);
    this.#values = values;
    this.#compute = compute;
    const others = derivedReaders.get(values.collection) ?? [];
    derivedReaders.set(values.collection, [...others, this]);
  }

  forget(entry: Entry): void {
    this.#derived.delete(entry);
  }

  /** `value` is that of the entry, where the caller has read it already. */
  of(entry: Entry, value?: T): D {
    const known = this.#derived.get(entry);
    // What was computed may be undefined.
    if (known !== undefined || this.#derived.has(entry)) return known as D;
    const derived = this.#compute(value ?? this.#values.once(entry), entry);
    if (kept.get(entry) !== replaced) this.#derived.set(entry, derived);
    return derived;
  }

  once(entry: Entry): D {
    return this.of(entry);
  }
}

/** The objects of a kind. */
export function kindReader<K extends Kind>(kind: K): Reader<ResourceOf<K>> {
  return new ValueReader(kind.plural);
}

/** The records of a collection that is not a kind. */
export function recordReader<T>(collection: string): Reader<T> {
  return new ValueReader(collection);
}

const kept = new WeakMap<Entry, object>();

/** Stands in `kept` for the value of a replaced entry. */
const replaced = {};

/** By collection. Readers are constants of their files, so there are only a few. */
const derivedReaders = new Map<string, readonly { forget(entry: Entry): void }[]>();

/** The whole value, whatever its kind is; kept with its entry. */
export function valueOf(entry: Entry): object {
  const known = kept.get(entry);
  if (known !== undefined && known !== replaced) return known;
  const value = parse(entry);
  if (known === undefined) kept.set(entry, value);
  return value;
}

function keptValue(entry: Entry): object | undefined {
  const known = kept.get(entry);
  return known === replaced ? undefined : known;
}

/**
 * For a replaced or deleted entry: history keeps its bytes for long, so nothing else of it stays in
 * memory. A later reader, such as the response to a DELETE, parses it for itself.
 */
export function forgetValue(entry: Entry): void {
  kept.set(entry, replaced);
  for (const reader of derivedReaders.get(entry.collection) ?? []) reader.forget(entry);
}

function parse({ collection, name, value }: Entry): object {
  return parseObject(value) ?? refuse(collection, name);
}

/** Reads a sealed record. Caches nothing and erases the decrypted bytes. */
export async function readSealed(
  sealer: Pick<Sealer, 'open'>,
  place: SealedPlace,
  entry: Entry,
): Promise<Readonly<Record<string, unknown>>> {
  const plain = await sealer.open(place, entry.value);
  try {
    const value = parseObject(plain) ?? refuse(entry.collection, entry.name);
    return value as Readonly<Record<string, unknown>>;
  } finally {
    plain.fill(0);
  }
}

function parseObject(bytes: Buffer): object | undefined {
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8'));
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    // The parser's message would quote the value, which may be a secret.
    return undefined;
  }
}

function refuse(collection: string, name: string): never {
  throw new HansaError(
    'HANSA_STORE_CORRUPT',
    `Cannot read ${collection}/${name}: the stored value is damaged. Restore the data folder from a backup.`,
  );
}
