// An always-current index of which entries of the store are assigned to which agents: each read sees the
// last commit. It processes only changed objects, and reports the agents that a change concerns.

import { agentKind } from '../../api/kinds/agent.ts';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import { followListing } from '../../core/store/listing-changes.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Entry, Store } from '../../core/store/store.ts';
import { AssignmentIndex, type Labels } from './assignment.ts';

const entriesReader = kindReader(workloadEntryKind);
const agentsReader = kindReader(agentKind);

/** Must be quick, and must not throw. */
type Listener = (names: ReadonlySet<string>) => void;

export class StoreAssignments {
  readonly #store: Pick<Store, 'list'>;
  readonly #index = new AssignmentIndex();
  readonly #agentListeners = new Set<Listener>();
  readonly #entryListeners = new Set<Listener>();
  readonly #entries = new Followed();
  readonly #agents = new Followed();

  constructor(store: Pick<Store, 'list'>) {
    this.#store = store;
  }

  /** The names of the entries of an agent, sorted. Empty if there is no such agent, or it is being deleted. */
  entriesOf(agent: string): readonly string[] {
    this.follow();
    return this.#index.entriesOf(agent);
  }

  /** The names of the agents of an entry, sorted. */
  agentsOf(entry: string): readonly string[] {
    this.follow();
    return this.#index.agentsOf(entry);
  }

  /**
   * Calls `listener` with the agents whose spec, labels or entries changed, when a read or `follow` finds
   * the change. The listener's owner watches the store and calls `follow`. Returns how to stop.
   */
  onChange(listener: Listener): () => void {
    this.#agentListeners.add(listener);
    return () => this.#agentListeners.delete(listener);
  }

  /** The same with the entries whose agents changed, where the entry itself did not. */
  onEntriesMoved(listener: Listener): () => void {
    this.#entryListeners.add(listener);
    return () => this.#entryListeners.delete(listener);
  }

  /** Processes the changes since the last call. O(1) without changes. */
  follow(): void {
    const entries = this.#store.list(entriesReader.collection).entries;
    const agents = this.#store.list(agentsReader.collection).entries;
    if (entries === this.#entries.listed && agents === this.#agents.listed) return;
    const index = this.#index;
    const concerned = new Set<string>();
    const moved = new Set<string>();
    this.#agents.follow(agents, {
      versionOf: (entry) => {
        const { metadata } = agentsReader.once(entry);
        return isDeleted(metadata) ? undefined : versionOf(metadata, metadata.labels);
      },
      changed: (name, entry) => {
        concerned.add(name);
        if (this.#entryListeners.size > 0) note(moved, index.entriesOf(name));
        if (entry === undefined) index.deleteAgent(name);
        else index.putAgent(agentsReader.once(entry).metadata);
        if (this.#entryListeners.size > 0) note(moved, index.entriesOf(name));
      },
    });
    this.#entries.follow(entries, {
      versionOf: (entry) => {
        const { metadata } = entriesReader.once(entry);
        return isDeleted(metadata) ? undefined : versionOf(metadata);
      },
      changed: (name, entry) => {
        note(concerned, index.agentsOf(name));
        if (entry === undefined) index.deleteEntry(name);
        else index.putEntry(name, entriesReader.once(entry));
        note(concerned, index.agentsOf(name));
      },
    });
    if (concerned.size > 0) for (const listener of this.#agentListeners) listener(concerned);
    if (moved.size > 0) for (const listener of this.#entryListeners) listener(moved);
  }
}

/** Follows one collection, and skips changes that do not concern assignments, such as those of a status. */
class Followed {
  listed: readonly Entry[] = [];
  readonly #versions = new Map<string, string>();

  follow(
    now: readonly Entry[],
    handler: {
      /** Undefined for an object that does not count. */
      versionOf(entry: Entry): string | undefined;
      /** `entry` is undefined where it no longer counts. */
      changed(name: string, entry: Entry | undefined): void;
    },
  ): void {
    const old = this.listed;
    // First, because listeners may read.
    this.listed = now;
    const gone = new Set<string>();
    followListing(old, now, {
      removed: ({ name }) => gone.add(name),
      added: (entry) => {
        const version = handler.versionOf(entry);
        if (version === undefined) {
          gone.add(entry.name);
          return;
        }
        gone.delete(entry.name);
        if (this.#versions.get(entry.name) === version) return;
        this.#versions.set(entry.name, version);
        handler.changed(entry.name, entry);
      },
    });
    for (const name of gone) {
      if (this.#versions.delete(name)) handler.changed(name, undefined);
    }
  }
}

interface Meta {
  readonly uid: string;
  readonly generation: number;
  readonly deletionTimestamp?: string;
}

function isDeleted({ deletionTimestamp }: Meta): boolean {
  return deletionTimestamp !== undefined;
}

/** The generation grows with every change of the spec. */
function versionOf({ uid, generation }: Meta, labels: Labels = {}): string {
  return JSON.stringify([uid, generation, labels]);
}

function note(set: Set<string>, names: readonly string[]): void {
  for (const name of names) set.add(name);
}
