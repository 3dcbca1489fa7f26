// An always-current index of which entries of the store are assigned to which agents: each read sees the
// last commit. It processes only changed objects, and reports the agents that a change concerns.

import { type Agent, agentKind } from '../../api/kinds/agent.ts';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import { followListing } from '../../core/store/listing-changes.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Entry, Store } from '../../core/store/store.ts';
import {
  type AssignedEntry,
  AssignmentIndex,
  type LabelledAgent,
  type Labels,
} from './assignment.ts';

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

  /** The number of entries of an agent. */
  countOf(agent: string): number {
    this.follow();
    return this.#index.countOf(agent);
  }

  /** The names of the agents of an entry, sorted. */
  agentsOf(entry: string): readonly string[] {
    this.follow();
    return this.#index.agentsOf(entry);
  }

  /** The same for an entry that the caller has read. The cost does not depend on the number of entries. */
  agentsFor(entry: AssignedEntry): readonly string[] {
    this.#followAgents();
    return this.#index.agentsFor(entry);
  }

  /** The agents that the entry names and that it does not apply on, because their consent is missing. */
  newcomersOf(entry: AssignedEntry): readonly string[] {
    this.#followAgents();
    return this.#index.newcomersOf(entry);
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

  /** Processes the changes since the last call. Without changes it is O(1). */
  follow(): void {
    this.#followAgents();
    this.#followEntries();
  }

  #followAgents(): void {
    const { entries: now } = this.#store.list(agentsReader.collection);
    if (now === this.#agents.listed) return;
    // An agent may be newer than an entry that was not processed yet: it moves that entry.
    this.#followEntries();
    const index = this.#index;
    const concerned = new Set<string>();
    const moved = new Set<string>();
    const noteMoved = (name: string): void => {
      if (this.#entryListeners.size === 0) return;
      note(moved, index.anyOrderOf(name));
      // Their status says why they do not apply.
      note(moved, index.naming(name));
    };
    this.#agents.follow(now, {
      versionOf: (entry) => {
        const { metadata } = agentsReader.once(entry);
        return isDeleted(metadata) ? undefined : versionOf(metadata, metadata.labels);
      },
      changed: (name, entry) => {
        concerned.add(name);
        noteMoved(name);
        if (entry === undefined) index.deleteAgent(name);
        else index.putAgent(labelledAgent(agentsReader.once(entry)));
        noteMoved(name);
      },
    });
    tell(this.#agentListeners, concerned);
    tell(this.#entryListeners, moved);
  }

  #followEntries(): void {
    const { entries: now } = this.#store.list(entriesReader.collection);
    if (now === this.#entries.listed) return;
    const index = this.#index;
    const concerned = new Set<string>();
    this.#entries.follow(now, {
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
    tell(this.#agentListeners, concerned);
  }
}

function labelledAgent({ metadata: { name, labels }, spec }: Agent): LabelledAgent {
  return { name, labels, entriesByName: spec?.entriesByName };
}

function tell(listeners: ReadonlySet<Listener>, names: ReadonlySet<string>): void {
  if (names.size > 0) for (const listener of listeners) listener(names);
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
