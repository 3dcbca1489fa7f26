// The usable entries that are assigned to an agent, always as of the current store. The state of agents
// and the signing for them both use it, so they cannot disagree.

import { agentKind } from '../../api/kinds/agent.ts';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import type { TrustDomain } from '../../api/values/trust-domain.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Entry, Store } from '../../core/store/store.ts';
import { type UsableEntry, usableEntry } from '../workload/entries/matching-entries.ts';

const entriesReader = kindReader(workloadEntryKind);
const { collection } = entriesReader;

/** By uid, in order of names. */
export type EntriesOfAgent = ReadonlyMap<string, UsableEntry>;

export interface AgentEntriesOptions {
  readonly store: Pick<Store, 'get' | 'list' | 'count'>;
  readonly trustDomain: TrustDomain;
  /** DNS names of the site itself, which no SVID of a workload gets. */
  readonly siteNames: readonly string[];
  /** Always current. */
  readonly assignments: { entriesOf(agent: string): readonly string[] };
}

interface Known {
  readonly entry: Entry;
  readonly uid: string;
  readonly generation: number | undefined;
  /** Undefined if it cannot be used, or is being deleted. */
  readonly usable: UsableEntry | undefined;
}

interface Found {
  readonly listings: readonly (readonly Entry[])[];
  readonly entries: EntriesOfAgent;
}

/** Most agents whose entries are kept. The one that was computed first makes room. */
const maxAgents = 4096;

export class AgentEntries {
  readonly #options: AgentEntriesOptions;
  readonly #known = new Map<string, Known>();
  readonly #found = new Map<string, Found>();

  constructor(options: AgentEntriesOptions) {
    this.#options = options;
  }

  /** Quick where neither entries nor agents changed. Returns the same map and entries until they change. */
  of(agent: string): EntriesOfAgent {
    const { store, assignments } = this.#options;
    const listings = [store.list(collection).entries, store.list(agentKind.plural).entries];
    const before = this.#found.get(agent);
    if (before?.listings.every((entries, at) => entries === listings[at]) === true) {
      return before.entries;
    }
    const now = new Map<string, UsableEntry>();
    for (const name of assignments.entriesOf(agent)) {
      const usable = this.#usable(name);
      if (usable !== undefined) now.set(usable.uid, usable);
    }
    const entries = before !== undefined && isSame(before.entries, now) ? before.entries : now;
    this.#found.set(agent, { listings, entries });
    if (this.#found.size > maxAgents) {
      this.#found.delete(this.#found.keys().next().value as string);
    }
    return entries;
  }

  #usable(name: string): UsableEntry | undefined {
    const entry = this.#options.store.get(collection, name);
    if (entry === undefined) return undefined;
    const known = this.#known.get(name);
    if (known?.entry === entry) return known.usable;
    const read = this.#read(entry, known);
    this.#known.set(name, read);
    this.#prune();
    return read.usable;
  }

  #read(entry: Entry, before: Known | undefined): Known {
    // Not kept: the usable entry holds what matters of it.
    const object = entriesReader.once(entry);
    const { uid, generation, deletionTimestamp } = object.metadata;
    if (deletionTimestamp !== undefined) return { entry, uid, generation, usable: undefined };
    // A commit that changes only the status leaves the same usable entry.
    if (before?.uid === uid && generation !== undefined && before.generation === generation) {
      return { ...before, entry };
    }
    const { trustDomain, siteNames } = this.#options;
    const found = usableEntry(object, trustDomain, siteNames);
    return { entry, uid, generation, usable: 'problem' in found ? undefined : found.entry };
  }

  /** Forgets deleted entries, now and then. */
  #prune(): void {
    const { store } = this.#options;
    if (this.#known.size <= 2 * store.count(collection) + 64) return;
    for (const [name, { entry }] of this.#known) {
      if (store.get(collection, name) !== entry) this.#known.delete(name);
    }
  }
}

function isSame(one: EntriesOfAgent, other: EntriesOfAgent): boolean {
  if (one.size !== other.size) return false;
  for (const [uid, entry] of one) if (other.get(uid) !== entry) return false;
  return true;
}
