// Counts the work between two turns of the event loop, for tests.

import { yieldToEventLoop } from '../clock/yield-to-event-loop.ts';

/** The most that is counted between two turns of the event loop, until the work is done. */
export async function mostPerTurn(
  start: () => Promise<unknown>,
  counted: { readonly count: number },
): Promise<number> {
  const state = { isDone: false };
  let most = 0;
  await yieldToEventLoop();
  // Before the work starts, so that this loop runs first in each turn.
  let next = yieldToEventLoop();
  const done = start().finally(() => (state.isDone = true));
  for (let before = 0; !state.isDone; before = counted.count) {
    await next;
    next = yieldToEventLoop();
    most = Math.max(most, counted.count - before);
  }
  await done;
  return most;
}
