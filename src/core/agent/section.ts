// The contract of a section: the part of the agents' state that one plane provides.

import type { AgentItem } from './state.ts';

/** Methods are quick and without I/O. */
export interface AgentSection {
  /** Unique. Agents that do not know the section ignore it. */
  readonly name: string;
  /** The items of this agent, as of the current store. Returns the same items until they change. */
  itemsOf(agent: string): readonly AgentItem[];
  /** Calls `listener` after items may have changed: with the agents, or undefined for all. Returns how to stop. */
  onChange(listener: (agents: readonly string[] | undefined) => void): () => void;
}

/** The sections of this process. Planes register theirs when they start. */
export class AgentSections {
  readonly #sections = new Map<string, AgentSection>();

  /** Returns how to unregister. */
  register(section: AgentSection): () => void {
    if (this.#sections.has(section.name)) {
      throw new Error(`two sections of the agents' state are called ${section.name}`);
    }
    this.#sections.set(section.name, section);
    return () => this.#sections.delete(section.name);
  }

  /** In order of names. */
  get all(): readonly AgentSection[] {
    return [...this.#sections.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }
}
