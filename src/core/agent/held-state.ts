// The state that an agent holds, and the rules by which it accepts the next one. Pure: computes what a
// step changes, and the caller stores it.

import {
  AgentItem,
  difference,
  hashState,
  type ItemName,
  keyOf,
  type StateVersion,
} from './state.ts';

/** One step of a state, complete. */
export interface StateStep {
  /** After this step. */
  readonly version: StateVersion;
  /** The hash of the state that the step changes; undefined: a whole state. */
  readonly base: Buffer | undefined;
  readonly put: readonly AgentItem[];
  readonly delete: readonly ItemName[];
}

/** The newest state that the agent has accepted. It accepts nothing older, also after a restart. */
export interface StateFloor {
  readonly incarnation: string;
  readonly revision: number;
  /** The largest epoch of all incarnations. */
  readonly epoch: number;
}

/** An accepted step, reduced to what differs from the held state. */
export interface NextState {
  readonly version: StateVersion;
  readonly items: ReadonlyMap<string, AgentItem>;
  readonly put: readonly AgentItem[];
  readonly delete: readonly ItemName[];
}

const nothing: ReadonlyMap<string, AgentItem> = new Map();

export class HeldState {
  #items: ReadonlyMap<string, AgentItem> = nothing;
  #version: StateVersion | undefined;
  #floor: StateFloor | undefined;

  /** `floor` may be newer than the items: they are from a cache. */
  constructor(kept?: {
    readonly floor: StateFloor;
    readonly state?: { readonly version: StateVersion; readonly items: readonly AgentItem[] };
  }) {
    this.#floor = kept?.floor;
    if (kept?.state === undefined) return;
    this.#version = kept.state.version;
    this.#items = new Map(kept.state.items.map((item) => [keyOf(item), item]));
  }

  /** Undefined where the agent holds none. */
  get version(): StateVersion | undefined {
    return this.#version;
  }

  get floor(): StateFloor | undefined {
    return this.#floor;
  }

  get items(): Iterable<AgentItem> {
    return this.#items.values();
  }

  get size(): number {
    return this.#items.size;
  }

  /** What the step makes of the held state, or why it is refused. Changes nothing. */
  next(step: StateStep): NextState | string {
    const older = this.#older(step.version);
    if (older !== undefined) return older;
    let changes: Pick<NextState, 'put' | 'delete'> = step;
    if (step.base === undefined) {
      changes = difference(this.#items.values(), step.put);
    } else if (!step.base.equals(this.#version?.hash ?? noHash)) {
      return 'the changes are for another state than the one that this agent holds';
    }
    const items = new Map(this.#items);
    for (const name of changes.delete) items.delete(keyOf(name));
    for (const item of changes.put) items.set(keyOf(item), item);
    if (!hashState(items.values()).equals(step.version.hash)) {
      return 'the hash of the resulting state differs from the one that the site sent';
    }
    const { put, delete: gone } = changes;
    return { version: step.version, items, put, delete: gone };
  }

  /** After the step was stored. */
  adopt({ version, items }: NextState): void {
    this.#items = items;
    this.#version = version;
    this.#floor = {
      incarnation: version.incarnation,
      revision: version.revision,
      epoch: version.epoch,
    };
  }

  /** Forgets the items, not the floor. */
  drop(): void {
    this.#items = nothing;
    this.#version = undefined;
  }

  #older({ incarnation, revision, epoch }: StateVersion): string | undefined {
    const floor = this.#floor;
    if (floor === undefined) return undefined;
    if (epoch < floor.epoch) {
      return `the state has the epoch ${epoch}, but this agent has accepted the epoch ${floor.epoch}`;
    }
    if (incarnation === floor.incarnation && revision < floor.revision) {
      return `the state has the revision ${revision}, but this agent has accepted the revision ${floor.revision}`;
    }
    return undefined;
  }
}

/** Equal to no hash. */
const noHash = Buffer.alloc(0);
