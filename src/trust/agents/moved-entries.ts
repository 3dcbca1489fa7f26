// A source of entries whose agents changed, for the controller of entries. One agent may have thousands
// of entries and a thousand agents may join at once, so it collects them for a second.

import { agentKind } from '../../api/kinds/agent.ts';
import type { Clock, Timer } from '../../core/clock/clock.ts';
import {
  type RunningSource,
  type Source,
  type SourceSink,
  StoreSource,
} from '../../core/reconcile/source.ts';
import type { Store } from '../../core/store/store.ts';
import type { StoreAssignments } from './store-assignments.ts';

export interface MovedEntriesParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly assignments: StoreAssignments;
}

const collectMs = 1000;

export class MovedEntries implements Source {
  readonly #parts: MovedEntriesParts;

  constructor(parts: MovedEntriesParts) {
    this.#parts = parts;
  }

  start(sink: SourceSink): RunningSource {
    const { store, clock, assignments } = this.#parts;
    const due = new Set<string>();
    let timer: Timer | undefined;
    const soon = (): void => {
      timer ??= clock.timer(collectMs, () => {
        timer = undefined;
        assignments.follow();
        for (const entry of due) sink.add(entry);
        due.clear();
      });
    };
    const unhook = assignments.onEntriesMoved((entries) => {
      for (const entry of entries) due.add(entry);
      soon();
    });
    const agents = new StoreSource({ store, clock, collection: agentKind.plural }).start({
      add: soon,
      ended: (error) => sink.ended(error),
    });
    return {
      // The source of the entries themselves adds them all.
      resync: () => undefined,
      stop: () => {
        unhook();
        timer?.cancel();
        agents.stop();
      },
    };
  }
}
