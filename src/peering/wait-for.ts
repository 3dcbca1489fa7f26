// Waits until a predicate over the store holds, with watches instead of polling.

import type { Clock } from '../core/clock/clock.ts';
import type { Store, Watch } from '../core/store/store.ts';

/** Resolves when `holds()` is true or after `timeoutMs`. Checks after every change of the collections. */
export function waitFor(
  store: Store,
  clock: Clock,
  collections: readonly string[],
  timeoutMs: number,
  holds: () => boolean,
): Promise<void> {
  return new Promise((resolve) => {
    const watches: Watch[] = [];
    const end = (): void => {
      timer.cancel();
      for (const watch of watches) watch.stop();
      resolve();
    };
    const timer = clock.timer(timeoutMs, end);
    const { revision } = store;
    for (const collection of collections) {
      watches.push(
        store.watch(collection, revision, {
          changes: () => {
            if (holds()) end();
          },
          ended: end,
        }),
      );
    }
    if (holds()) end();
  });
}
