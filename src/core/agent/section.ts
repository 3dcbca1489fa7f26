// The contract of a section: the part of the agents' state that one plane provides.

import type { AgentItem } from './state.ts';

/** Undefined: all agents. */
type ChangedAgents = readonly string[] | undefined;

/** Methods are quick and without I/O. */
export interface AgentSection {
  /** Unique. Agents that do not know the section ignore it. */
  readonly name: string;
  /** The items of this agent, as of the current store. Returns the same array until they change, and never changes an array. */
  itemsOf(agent: string): readonly AgentItem[];
  /** Calls `listener` after items may have changed: with the agents, or undefined for all. Returns how to stop. */
  onChange(listener: (agents: readonly string[] | undefined) => void): () => void;
}

/** The sections of this process. Planes register theirs when they start. */
export class AgentSections {
  readonly #sections = new Map<string, AgentSection>();
  readonly #listeners = new Set<(agents: ChangedAgents) => void>();
  #sorted: readonly AgentSection[] = [];

  /** Returns how to unregister. */
  register(section: AgentSection): () => void {
    if (this.#sections.has(section.name)) {
      throw new Error(`two sections of the agents' state are called ${section.name}`);
    }
    const stop = section.onChange((agents) => this.#tell(agents));
    this.#sections.set(section.name, section);
    this.#sort();
    return () => {
      stop();
      this.#sections.delete(section.name);
      this.#sort();
    };
  }

  /** The items of all sections. */
  itemsOf(agent: string): readonly AgentItem[] {
    const [first, ...others] = this.#sorted;
    if (first === undefined) return [];
    const items = first.itemsOf(agent);
    return others.length === 0 ? items : items.concat(...others.map((one) => one.itemsOf(agent)));
  }

  /** Like `onChange` of a section, for all sections, also those that are registered later. */
  onChange(listener: (agents: readonly string[] | undefined) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #sort(): void {
    this.#sorted = [...this.#sections.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
    this.#tell(undefined);
  }

  #tell(agents: ChangedAgents): void {
    for (const listener of this.#listeners) listener(agents);
  }
}
