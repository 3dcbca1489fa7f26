// The state that a site sends to an agent: a set of items with a version. Pure: computes hashes and
// differences, so that both ends agree on what the agent holds.

import { hash } from 'node:crypto';

export interface ItemName {
  /** Who interprets the item, such as `identities`. */
  readonly section: string;
  readonly collection: string;
  readonly name: string;
}

/** Immutable: the same object stands in the states of many agents, and its digest is computed once. */
export class AgentItem implements ItemName {
  readonly section: string;
  readonly collection: string;
  readonly name: string;
  readonly value: Buffer;
  #digest: Buffer | undefined;
  #key: string | undefined;

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
}

/** What an agent says of an item that it holds. */
export interface HeldItem extends ItemName {
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
  const rows = Array.from(items, (item) => ({ key: keyOf(item), digest: item.digest }));
  rows.sort((a, b) => (a.key < b.key ? -1 : 1));
  const size = rows.reduce(
    (sum, { key, digest }) => sum + 4 + Buffer.byteLength(key) + digest.byteLength,
    0,
  );
  const bytes = Buffer.allocUnsafe(size);
  let at = 0;
  for (const { key, digest } of rows) {
    const length = bytes.write(key, at + 4);
    at = bytes.writeUInt32BE(length, at) + length;
    at += digest.copy(bytes, at);
  }
  return hash('sha256', bytes, 'buffer');
}

export interface Difference {
  readonly put: readonly AgentItem[];
  readonly delete: readonly ItemName[];
}

/** What turns the held items into the wanted ones. Linear in both. */
export function difference(held: Iterable<HeldItem>, wanted: readonly AgentItem[]): Difference {
  const remaining = new Map([...held].map((item) => [keyOf(item), item]));
  const put: AgentItem[] = [];
  for (const item of wanted) {
    const key = keyOf(item);
    const before = remaining.get(key);
    remaining.delete(key);
    if (before === item) continue;
    if (before === undefined || !item.digest.equals(before.digest)) put.push(item);
  }
  return { put, delete: [...remaining.values()] };
}
