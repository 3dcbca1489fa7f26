// The state that a site sends to an agent: a set of items with a version. Pure: computes hashes and
// differences, so that both ends agree on what the agent holds.

import { hash } from 'node:crypto';

export interface ItemName {
  /** Who interprets the item, such as `identities`. */
  readonly section: string;
  readonly collection: string;
  readonly name: string;
}

/** Immutable: the same object stands in the states of many agents, and what is computed of it is kept. */
export class AgentItem implements ItemName {
  readonly section: string;
  readonly collection: string;
  readonly name: string;
  readonly value: Buffer;
  #digest: Buffer | undefined;
  #key: string | undefined;
  #row: Buffer | undefined;

  constructor(section: string, collection: string, name: string, value: Buffer) {
    this.section = section;
    this.collection = collection;
    this.name = name;
    this.value = value;
  }

  /** SHA-256 of the value. */
  get digest(): Buffer {
    this.#digest ??= hash('sha256', this.value, 'buffer');
    return this.#digest;
  }

  get key(): string {
    this.#key ??= joined(this);
    return this.#key;
  }

  /** Its part of the hash of a state. */
  get row(): Buffer {
    this.#row ??= rowOf(this);
    return this.#row;
  }
}

/** What an end knows of an item that the agent holds. */
export interface HeldItem extends ItemName {
  /** As of `keyOf`. */
  readonly key: string;
  readonly digest: Buffer;
}

export interface StateVersion {
  /** Identifies the database. */
  readonly incarnation: string;
  readonly revision: number;
  /** The lease epoch of the site. */
  readonly epoch: number;
  readonly hash: Buffer;
}

/** Unique for an item, and sorts by section, collection and name. None of them contains a NUL. */
export function keyOf(item: ItemName): string {
  return item instanceof AgentItem ? item.key : joined(item);
}

function joined({ section, collection, name }: ItemName): string {
  return `${section}\0${collection}\0${name}`;
}

/** SHA-256 over the keys and digests of all items, in order of keys. Each key follows its length in four bytes. */
export function hashState(items: Iterable<HeldItem>): Buffer {
  const sorted = [...items].toSorted((a, b) => (a.key < b.key ? -1 : 1));
  const rows = sorted.map((item) => (item instanceof AgentItem ? item.row : rowOf(item)));
  return hash('sha256', Buffer.concat(rows), 'buffer');
}

function rowOf({ key, digest }: HeldItem): Buffer {
  const length = Buffer.byteLength(key);
  const row = Buffer.allocUnsafe(4 + length + digest.byteLength);
  row.writeUInt32BE(length);
  row.write(key, 4);
  digest.copy(row, 4 + length);
  return row;
}

const listHashes = new WeakMap<readonly AgentItem[], Buffer>();

/** As hashState, once for each array: it must never change. */
export function hashOfList(items: readonly AgentItem[]): Buffer {
  let known = listHashes.get(items);
  if (known === undefined) {
    known = hashState(items);
    listHashes.set(items, known);
  }
  return known;
}

export interface Difference {
  readonly put: readonly AgentItem[];
  readonly delete: readonly ItemName[];
}

/** What turns the held items into the wanted ones. Linear in both, and quick where they share most items. */
export function difference(held: Iterable<HeldItem>, wanted: readonly AgentItem[]): Difference {
  const old = new Set(held);
  const added = wanted.filter((item) => !old.delete(item));
  const remaining = new Map(Array.from(old, (item) => [item.key, item]));
  const put: AgentItem[] = [];
  for (const item of added) {
    const before = remaining.get(item.key);
    remaining.delete(item.key);
    if (before === undefined || !item.digest.equals(before.digest)) put.push(item);
  }
  return { put, delete: [...remaining.values()] };
}
