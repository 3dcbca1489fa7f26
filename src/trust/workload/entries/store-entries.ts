// An always-current index of the entries in the store: each read sees the last commit. It processes only
// changed entries, so that one change among ten thousand entries is cheap.

import { workloadEntryKind } from '../../../api/kinds/workload-entry.ts';
import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import { kindReader } from '../../../core/store/reader.ts';
import type { Entry, Store } from '../../../core/store/store.ts';
import { EntryIndex, type UsableEntry, usableEntry } from './matching-entries.ts';

const entriesReader = kindReader(workloadEntryKind);
const { collection } = entriesReader;

export class StoreEntries {
  readonly #store: Pick<Store, 'get' | 'list'>;
  readonly #trustDomain: TrustDomain;
  readonly #siteNames: readonly string[];
  readonly #index = new EntryIndex();
  /** What stands in the index, by what it was read from. */
  readonly #usable = new Map<Entry, UsableEntry>();
  #listed: readonly Entry[] = [];

  constructor(
    store: Pick<Store, 'get' | 'list'>,
    trustDomain: TrustDomain,
    siteNames: readonly string[] = [],
  ) {
    this.#store = store;
    this.#trustDomain = trustDomain;
    this.#siteNames = siteNames;
  }

  get index(): EntryIndex {
    const { entries } = this.#store.list(collection);
    if (entries !== this.#listed) {
      this.#follow(this.#listed, entries);
      this.#listed = entries;
    }
    return this.#index;
  }

  has(name: string): boolean {
    return this.#store.get(collection, name) !== undefined;
  }

  /** Both are in order of names, which are ASCII, and share the entries that did not change. */
  #follow(old: readonly Entry[], now: readonly Entry[]): void {
    let at = 0;
    for (const entry of now) {
      if (old[at] === entry) {
        at++;
        continue;
      }
      while (at < old.length && (old[at] as Entry).name < entry.name)
        this.#remove(old[at++] as Entry);
      const before = old[at]?.name === entry.name ? old[at++] : undefined;
      if (before === entry) continue;
      if (before !== undefined) this.#remove(before);
      this.#add(entry);
    }
    while (at < old.length) this.#remove(old[at++] as Entry);
  }

  #add(entry: Entry): void {
    // Not kept: the index holds what matters of it.
    const object = entriesReader.once(entry);
    if (object.metadata.deletionTimestamp !== undefined) return;
    const found = usableEntry(object, this.#trustDomain, this.#siteNames);
    if ('problem' in found) return;
    this.#usable.set(entry, found.entry);
    this.#index.add(found.entry);
  }

  #remove(entry: Entry): void {
    const usable = this.#usable.get(entry);
    if (usable === undefined) return;
    this.#usable.delete(entry);
    this.#index.remove(usable);
  }
}
