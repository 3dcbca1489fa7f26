// The store of an agent: the memory driver, filled with the items that the site sent. The services of
// the agent read it as they read the store of a site. Unchanged objects keep their entries, so that
// caches of parsed values stay valid.

import type { Clock } from '../clock/clock.ts';
import { commitUnfenced } from '../lease/current-fence.ts';
import { openStore } from '../store/open.ts';
import type { Store } from '../store/store.ts';
import type { NextState } from './held-state.ts';
import type { AgentItem, ItemName } from './state.ts';

export class ReplicaStore {
  readonly store: Store;
  readonly #sections: ReadonlySet<string>;

  private constructor(store: Store, sections: ReadonlySet<string>) {
    this.store = store;
    this.#sections = sections;
  }

  /** `sections`: those that this agent knows. Items of others are not stored. */
  static async open(
    clock: Clock,
    sections: Iterable<string>,
    items: Iterable<AgentItem> = [],
  ): Promise<ReplicaStore> {
    const store = await openStore({ driver: 'memory' }, { clock });
    const replica = new ReplicaStore(store, new Set(sections));
    await replica.apply({ put: [...items], delete: [] });
    return replica;
  }

  /** One commit: readers see all of the step or nothing. */
  async apply({ put, delete: gone }: Pick<NextState, 'put' | 'delete'>): Promise<void> {
    const isKnown = ({ section }: ItemName): boolean => this.#sections.has(section);
    const commit = {
      put: put.filter(isKnown).map(({ collection, name, value }) => ({
        collection,
        name,
        encode: () => value,
      })),
      delete: gone.filter(isKnown).map(({ collection, name }) => ({ collection, name })),
    };
    if (commit.put.length + commit.delete.length > 0) await commitUnfenced(this.store, commit);
  }
}
