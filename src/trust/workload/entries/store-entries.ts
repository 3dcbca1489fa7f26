// An always-current index of the entries that this machine serves: each read sees the last commit. It processes only
// changed entries, so that one change among ten thousand entries is cheap.

import { isDeepStrictEqual } from 'node:util';
import { agentKind } from '../../../api/kinds/agent.ts';
import { workloadEntryKind } from '../../../api/kinds/workload-entry.ts';
import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import { followListing } from '../../../core/store/listing-changes.ts';
import { kindReader } from '../../../core/store/reader.ts';
import type { Entry, Store } from '../../../core/store/store.ts';
import { assignedTo, type Labels } from '../../agents/assignment.ts';
import { EntryIndex, type UsableEntry, usableEntry } from './matching-entries.ts';

const entriesReader = kindReader(workloadEntryKind);
const { collection } = entriesReader;
const labelsReader = kindReader(agentKind).derive(({ metadata }) => metadata.labels);

export interface StoreEntriesOptions {
  readonly store: Pick<Store, 'get' | 'list'>;
  readonly trustDomain: TrustDomain;
  /** DNS names that no SVID may contain. */
  readonly siteNames?: readonly string[] | undefined;
  /** The Agent of this machine: only entries that are assigned to it. Undefined: all entries of the store. */
  readonly agent?: string | undefined;
}

export class StoreEntries {
  readonly #store: Pick<Store, 'get' | 'list'>;
  readonly #trustDomain: TrustDomain;
  readonly #siteNames: readonly string[];
  readonly #agent: string | undefined;
  /** The labels of the Agent that the index was made with. */
  #labels: Labels | undefined;
  readonly #index = new EntryIndex();
  /** What stands in the index, by what it was read from. */
  readonly #usable = new Map<Entry, UsableEntry>();
  #listed: readonly Entry[] = [];

  constructor({ store, trustDomain, siteNames = [], agent }: StoreEntriesOptions) {
    this.#store = store;
    this.#trustDomain = trustDomain;
    this.#siteNames = siteNames;
    this.#agent = agent;
  }

  get index(): EntryIndex {
    this.#followLabels();
    const { entries } = this.#store.list(collection);
    if (entries !== this.#listed) this.#follow(entries);
    return this.#index;
  }

  /** The first usable entries, in order of names. */
  first(count: number): readonly UsableEntry[] {
    void this.index;
    const found: UsableEntry[] = [];
    for (const entry of this.#listed) {
      if (found.length >= count) break;
      const usable = this.#usable.get(entry);
      if (usable !== undefined) found.push(usable);
    }
    return found;
  }

  /** Whether this machine serves the entry. */
  has(name: string): boolean {
    void this.index;
    const entry = this.#store.get(collection, name);
    return entry !== undefined && this.#usable.has(entry);
  }

  /** Other labels of the Agent mean other entries. That is rare, so it looks at all of them again. */
  #followLabels(): void {
    if (this.#agent === undefined) return;
    const labels = labelsReader.get(this.#store, this.#agent);
    if (isDeepStrictEqual(labels, this.#labels)) return;
    this.#follow([]);
    this.#labels = labels;
  }

  #follow(entries: readonly Entry[]): void {
    followListing(this.#listed, entries, {
      added: (entry) => this.#add(entry),
      removed: (entry) => this.#remove(entry),
    });
    this.#listed = entries;
  }

  #add(entry: Entry): void {
    // Not kept: the index holds what matters of it.
    const object = entriesReader.once(entry);
    if (object.metadata.deletionTimestamp !== undefined) return;
    const name = this.#agent;
    if (name !== undefined && !assignedTo(object, { name, labels: this.#labels })) return;
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
