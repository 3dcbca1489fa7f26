// Refuses work beyond a number of running tasks, for operations that operators start by hand. Unlike the
// ConcurrencyLimiter it lets nothing wait.

import { HansaError } from '../errors/error.ts';

/**
 * Runs a task, or throws HANSA_TOO_MANY_REQUESTS. Per process, because it limits the connections of this
 * process. `busy` says what the site is doing: "examining 4 clusters".
 */
export function fewAtOnce(atOnce: number, busy: string): <T>(task: () => Promise<T>) => Promise<T> {
  let underWay = 0;
  return async (task) => {
    if (underWay >= atOnce) {
      throw new HansaError(
        'HANSA_TOO_MANY_REQUESTS',
        `The site is already ${busy}. Try again in a few seconds.`,
        { details: { retryAfterSeconds: 5 } },
      );
    }
    underWay += 1;
    try {
      return await task();
    } finally {
      underWay -= 1;
    }
  };
}
