// Watches everything in the store that decides what workloads get: entries, the published bundle, the
// labels of this machine's Agent, federations, peers, grants and offers.

import { agentKind } from '../../api/kinds/agent.ts';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import type { Clock } from '../../core/clock/clock.ts';
import type { BundleSource } from '../../core/identity/bundle/bundle.ts';
import { publishedCollection } from '../../core/identity/bundle/published-bundle.ts';
import type { Log } from '../../core/log/log.ts';
import { type RunningSource, StoreSource } from '../../core/reconcile/source.ts';
import type { Store } from '../../core/store/store.ts';
import { watchFederationState } from '../authorization/federation-state-changes.ts';

export interface DeliveryInputsOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly bundles: BundleSource;
  /** The Agent of this machine; undefined: none decides which entries apply here. */
  readonly agent: string | undefined;
  /** Called at every change, and at the start for every existing object. Must not throw. */
  readonly changed: () => void;
}

/** Returns how to stop. Throws HANSA_STORE_CORRUPT where an object is damaged, and leaves nothing running. */
export function watchDeliveryInputs(options: DeliveryInputsOptions): () => void {
  const { store, clock, log, bundles, agent, changed } = options;
  const running: (() => void)[] = [];
  const stop = (): void => {
    for (const one of running) one();
  };
  const ended = (error: unknown, collection: string): void =>
    log.warn('the watch for workload changes ended', { error, collection });
  const watch = (collection: string, add: (name: string) => void): RunningSource =>
    new StoreSource({ store, clock, collection }).start({
      add,
      ended: (error) => ended(error, collection),
    });
  try {
    for (const collection of [workloadEntryKind.plural, publishedCollection]) {
      const source = watch(collection, changed);
      running.push(() => source.stop());
    }
    if (agent !== undefined) {
      // Its labels decide which entries apply here.
      const source = watch(agentKind.plural, (name) => {
        if (name === agent) changed();
      });
      running.push(() => source.stop());
    }
    running.push(watchFederationState({ store, clock, bundles, changed, ended }));
  } catch (error) {
    stop();
    throw error;
  }
  return stop;
}
