// Keeps the number of entries of each Agent as a fact for its status. One change of an entry may concern
// a thousand agents, so the numbers are written together, and without commits.

import { agentKind } from '../../api/kinds/agent.ts';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import type { Clock, Timer } from '../../core/clock/clock.ts';
import type { Log } from '../../core/log/log.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';
import { keepFacts } from './live-facts.ts';
import type { StoreAssignments } from './store-assignments.ts';

export interface EntryCountsParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly assignments: StoreAssignments;
}

const agentsReader = kindReader(agentKind);
const writeEveryMs = 1000;

/** Returns how to stop. */
export function countEntries({ store, clock, log, assignments }: EntryCountsParts): () => void {
  const due = new Set<string>();
  let timer: Timer | undefined;
  const write = (): void => {
    timer = undefined;
    assignments.follow();
    for (const name of due) {
      const entry = store.get(agentsReader.collection, name);
      if (entry === undefined) continue;
      keepFacts(store, agentsReader.once(entry), { entries: assignments.countOf(name) });
    }
    due.clear();
  };
  const soon = (): void => {
    timer ??= clock.timer(writeEveryMs, write);
  };
  const unhook = assignments.onChange((agents) => {
    for (const agent of agents) due.add(agent);
    soon();
  });
  const sources = [workloadEntryKind.plural, agentKind.plural].map((collection) =>
    new StoreSource({ store, clock, collection }).start({
      add: soon,
      ended: (error) => log.warn('the watch for assigned entries ended', { error, collection }),
    }),
  );
  return () => {
    unhook();
    timer?.cancel();
    for (const source of sources) source.stop();
  };
}
