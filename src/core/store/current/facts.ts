// Live facts: written to memory at once and to the database about once a second, many in one
// transaction.

import type { FactRow } from '../driver.ts';
import type { Facts } from '../store.ts';

type Values = Readonly<Record<string, unknown>>;

export class FactTable implements Facts {
  readonly #facts = new Map<string, Map<string, Values>>();
  /** Names whose facts the database does not have yet, by collection. */
  readonly #dirty = new Map<string, Set<string>>();
  readonly #computed = new Map<string, Map<string, () => Values | undefined>>();
  readonly #onDirty: () => void;

  constructor(rows: readonly FactRow[], onDirty: () => void) {
    this.#onDirty = onDirty;
    for (const { collection, name, value } of rows) {
      if (value !== undefined) this.#set(collection, name, JSON.parse(value) as Values);
    }
  }

  get dirty(): boolean {
    return this.#dirty.size > 0;
  }

  get(collection: string, name: string): Values | undefined {
    const compute = this.#computed.get(collection)?.get(name);
    return compute === undefined ? this.#facts.get(collection)?.get(name) : compute();
  }

  compute(collection: string, name: string, compute: () => Values | undefined): void {
    const ofCollection = this.#computed.get(collection) ?? new Map();
    this.#computed.set(collection, ofCollection.set(name, compute));
  }

  merge(collection: string, name: string, facts: Values): void {
    const merged: Record<string, unknown> = { ...this.get(collection, name), ...facts };
    for (const [key, value] of Object.entries(facts)) if (value === undefined) delete merged[key];
    this.#set(collection, name, Object.freeze(merged));
    this.#touch(collection, name);
  }

  delete(collection: string, name: string): void {
    const facts = this.#facts.get(collection);
    if (!facts?.delete(name)) return;
    if (facts.size === 0) this.#facts.delete(collection);
    this.#touch(collection, name);
  }

  /** Unwritten facts, at most `limit` rows. The caller returns them if it cannot write them. */
  take(limit: number): FactRow[] {
    const rows: FactRow[] = [];
    for (const [collection, names] of this.#dirty) {
      for (const name of names) {
        if (rows.length === limit) return rows;
        const values = this.get(collection, name);
        rows.push({
          collection,
          name,
          value: values === undefined ? undefined : JSON.stringify(values),
        });
        names.delete(name);
      }
      this.#dirty.delete(collection);
    }
    return rows;
  }

  giveBack(rows: readonly FactRow[]): void {
    for (const { collection, name } of rows) this.#touch(collection, name);
  }

  #set(collection: string, name: string, values: Values): void {
    let facts = this.#facts.get(collection);
    if (facts === undefined) {
      facts = new Map();
      this.#facts.set(collection, facts);
    }
    facts.set(name, values);
  }

  #touch(collection: string, name: string): void {
    let names = this.#dirty.get(collection);
    if (names === undefined) {
      names = new Set();
      this.#dirty.set(collection, names);
    }
    names.add(name);
    this.#onDirty();
  }
}
