// Which entries were assigned to which agents at each revision, computed from what was written to the
// database, without the indexes of the site.

import { agentKind } from '../../src/api/kinds/agent.ts';
import { workloadEntryKind } from '../../src/api/kinds/workload-entry.ts';
import { type AssignedEntry, assignedTo, type Labels } from '../../src/trust/agents/assignment.ts';
import type { SimulatedDatabase } from './disk.ts';

interface Snapshot {
  readonly revision: number;
  readonly entries: ReadonlyMap<string, AssignedEntry>;
  readonly agents: ReadonlyMap<string, HistoricAgent>;
}

interface HistoricAgent {
  readonly labels?: Labels | undefined;
  readonly entriesByName?: boolean | undefined;
}

export class AssignmentHistory {
  readonly #database: SimulatedDatabase;
  readonly #snapshots: Snapshot[] = [{ revision: 0, entries: new Map(), agents: new Map() }];
  #read = 0;

  constructor(database: SimulatedDatabase) {
    this.#database = database;
  }

  /** In order of names; empty where there was no such agent. */
  entriesOf(name: string, revision: number): readonly string[] {
    const { entries, agents } = this.#at(revision);
    const agent = agents.get(name);
    if (agent === undefined) return [];
    return [...entries]
      .filter(([, entry]) => assignedTo(entry, { name, ...agent }))
      .map(([entry]) => entry)
      .toSorted();
  }

  agentExists(name: string): boolean {
    return this.#at(Number.POSITIVE_INFINITY).agents.has(name);
  }

  #at(revision: number): Snapshot {
    this.#follow();
    return this.#snapshots.findLast((one) => one.revision <= revision) as Snapshot;
  }

  #follow(): void {
    const { written } = this.#database;
    for (; this.#read < written.length; this.#read++) {
      for (const { collection, name, value, revision } of written[this.#read]?.changes ?? []) {
        const isEntry = collection === workloadEntryKind.plural;
        if (!isEntry && collection !== agentKind.plural) continue;
        const last = this.#snapshots.at(-1) as Snapshot;
        const entries = new Map(last.entries);
        const agents = new Map(last.agents);
        const object = value && (JSON.parse(value.toString('utf8')) as Stored);
        if (isEntry) replace(entries, name, object);
        else replace(agents, name, object && historic(object));
        this.#snapshots.push({ revision, entries, agents });
      }
    }
  }
}

interface Stored {
  readonly metadata: { readonly labels?: Labels };
  readonly spec: AssignedEntry['spec'] & { readonly entriesByName?: boolean };
}

function historic({ metadata: { labels }, spec: { entriesByName } }: Stored): HistoricAgent {
  return { labels, entriesByName };
}

function replace<T>(map: Map<string, T>, name: string, value: T | undefined): void {
  if (value === undefined) map.delete(name);
  else map.set(name, value);
}
