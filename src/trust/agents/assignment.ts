// Decides which agents an entry is assigned to: those that it names, or those whose labels match its
// selector. Without either, the entry belongs to the machine of the site. Pure.

import { siteAgentName } from '../../api/values/agent-name.ts';

export type Labels = Readonly<Record<string, string>>;

/** The part of a WorkloadEntry that decides. */
export interface AssignedEntry {
  readonly spec: {
    readonly agents?: {
      readonly names?: readonly string[];
      readonly selector?: { readonly matchLabels: Labels };
    };
  };
}

/** The part of an Agent that decides. */
export interface LabelledAgent {
  readonly name: string;
  readonly labels?: Labels | undefined;
  /** False if entries that name it do not apply (former-agents.ts). */
  readonly entriesByName?: boolean | undefined;
}

/** Machines cannot join under the name of the site's machine, so it never has another owner. */
function takesByName({ name, entriesByName }: LabelledAgent): boolean {
  return name === siteAgentName || entriesByName !== false;
}

type Assignment =
  | { readonly names: readonly string[] }
  | {
      /** Label pairs (`pairOf`), at least one. */
      readonly pairs: readonly string[];
    };

const onSite: Assignment = { names: [siteAgentName] };
const nowhere: Assignment = { names: [] };

function assignmentOf({ spec: { agents } }: AssignedEntry): Assignment {
  if (agents === undefined) return onSite;
  if (agents.names !== undefined) return { names: agents.names };
  const pairs = pairsOf(agents.selector?.matchLabels);
  // The schema rejects an empty selector. It would match every agent.
  return pairs.length === 0 ? nowhere : { pairs };
}

/** A label as one text. Neither part contains `=`. */
function pairsOf(labels: Labels | undefined): readonly string[] {
  return Object.entries(labels ?? {}).map(([key, value]) => `${key}=${value}`);
}

export function assignedTo(entry: AssignedEntry, agent: LabelledAgent): boolean {
  const assignment = assignmentOf(entry);
  if ('names' in assignment) return takesByName(agent) && assignment.names.includes(agent.name);
  const held = new Set(pairsOf(agent.labels));
  return assignment.pairs.every((pair) => held.has(pair));
}

interface IndexedEntry {
  readonly assignment: Assignment;
  /** Where a selector stands in `#byPair`. */
  readonly pair: string | undefined;
}

/**
 * All entries and agents of a site. A change of one of them costs the number of its names or labels, and
 * a question the number of candidates that share a name or a label. It never compares all pairs.
 */
export class AssignmentIndex {
  readonly #entries = new Map<string, IndexedEntry>();
  /** The label pairs of each agent. */
  readonly #agents = new Map<string, ReadonlySet<string>>();
  /** Agents that do not get the entries that name them. */
  readonly #withoutNamed = new Set<string>();
  /** The number of entries of each agent. */
  readonly #counts = new Map<string, number>();
  /** Entries by the name of an agent. */
  readonly #byAgent = new Map<string, Set<string>>();
  /** Entries with a selector, each under one of its label pairs. */
  readonly #byPair = new Map<string, Set<string>>();
  /** Agents by each of their label pairs. */
  readonly #holders = new Map<string, Set<string>>();

  putEntry(name: string, entry: AssignedEntry): void {
    this.deleteEntry(name);
    const assignment = assignmentOf(entry);
    const pair = 'pairs' in assignment ? this.#rarest(assignment.pairs) : undefined;
    this.#entries.set(name, { assignment, pair });
    if (pair !== undefined) add(this.#byPair, pair, name);
    if ('names' in assignment) {
      for (const agent of assignment.names) add(this.#byAgent, agent, name);
    }
    this.#count(assignment, 1);
  }

  deleteEntry(name: string): void {
    const known = this.#entries.get(name);
    if (known === undefined) return;
    this.#entries.delete(name);
    const { assignment, pair } = known;
    this.#count(assignment, -1);
    if (pair !== undefined) remove(this.#byPair, pair, name);
    if ('names' in assignment) {
      for (const agent of assignment.names) remove(this.#byAgent, agent, name);
    }
  }

  putAgent(agent: LabelledAgent): void {
    const { name, labels } = agent;
    this.deleteAgent(name);
    const pairs = new Set(pairsOf(labels));
    this.#agents.set(name, pairs);
    if (!takesByName(agent)) this.#withoutNamed.add(name);
    for (const pair of pairs) add(this.#holders, pair, name);
    this.#counts.set(name, this.anyOrderOf(name).length);
  }

  deleteAgent(name: string): void {
    for (const pair of this.#agents.get(name) ?? []) remove(this.#holders, pair, name);
    this.#agents.delete(name);
    this.#withoutNamed.delete(name);
    this.#counts.delete(name);
  }

  /** The number of entries of an agent. O(1). */
  countOf(agent: string): number {
    return this.#counts.get(agent) ?? 0;
  }

  /** The names of the entries of an agent, sorted. Empty if there is no such agent. */
  entriesOf(agent: string): readonly string[] {
    return this.anyOrderOf(agent).toSorted(byCodeUnits);
  }

  /** The same in any order: sorting is most of the cost. */
  anyOrderOf(agent: string): readonly string[] {
    const held = this.#agents.get(agent);
    if (held === undefined) return [];
    const found = this.#withoutNamed.has(agent) ? [] : [...this.naming(agent)];
    for (const pair of held) {
      for (const entry of this.#byPair.get(pair) ?? []) {
        const { assignment } = this.#entries.get(entry) as IndexedEntry;
        if ('pairs' in assignment && assignment.pairs.every((one) => held.has(one))) {
          found.push(entry);
        }
      }
    }
    return found;
  }

  /** The entries that name the agent, whether they apply or not, in any order. */
  naming(agent: string): readonly string[] {
    return [...(this.#byAgent.get(agent) ?? [])];
  }

  /** The names of the agents of an entry that exist, sorted. */
  agentsOf(entry: string): readonly string[] {
    const assignment = this.#entries.get(entry)?.assignment ?? nowhere;
    return this.#holdersOf(assignment).toSorted(byCodeUnits);
  }

  /** The same for an entry that need not be in the index. */
  agentsFor(entry: AssignedEntry): readonly string[] {
    return this.#holdersOf(assignmentOf(entry)).toSorted(byCodeUnits);
  }

  /** The agents that the entry names, that exist, and that it does not apply on, sorted. */
  newcomersOf(entry: AssignedEntry): readonly string[] {
    const assignment = assignmentOf(entry);
    if (!('names' in assignment)) return [];
    return assignment.names.filter((name) => this.#withoutNamed.has(name)).toSorted(byCodeUnits);
  }

  #count(assignment: Assignment, by: number): void {
    for (const agent of this.#holdersOf(assignment)) {
      this.#counts.set(agent, (this.#counts.get(agent) ?? 0) + by);
    }
  }

  #holdersOf(assignment: Assignment): readonly string[] {
    if ('names' in assignment) {
      return assignment.names.filter(
        (name) => this.#agents.has(name) && !this.#withoutNamed.has(name),
      );
    }
    const { pairs } = assignment;
    const holders = pairs.map((pair) => this.#holders.get(pair) ?? none);
    const fewest = holders.reduce((a, b) => (b.size < a.size ? b : a));
    return [...fewest].filter((name) =>
      pairs.every((pair) => this.#agents.get(name)?.has(pair) === true),
    );
  }

  /** Spreads entries over their labels: many may share `zone=harbour`, and few share `host=crane-1`. */
  #rarest(pairs: readonly string[]): string {
    const size = (pair: string): number => this.#byPair.get(pair)?.size ?? 0;
    return pairs.reduce((a, b) => (size(b) < size(a) ? b : a));
  }
}

const none: ReadonlySet<string> = new Set();

function byCodeUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function add(sets: Map<string, Set<string>>, key: string, value: string): void {
  const known = sets.get(key);
  if (known === undefined) sets.set(key, new Set([value]));
  else known.add(value);
}

function remove(sets: Map<string, Set<string>>, key: string, value: string): void {
  const known = sets.get(key);
  if (known?.delete(value) === true && known.size === 0) sets.delete(key);
}
