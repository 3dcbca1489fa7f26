// Waits for a condition that another process or another part of this process brings about.

import { setTimeout as sleep } from 'node:timers/promises';

/** Far more than anything takes, also on a machine that does much else: for what will never be. */
const withinMs = 120_000;

export async function until(
  holds: () => boolean | Promise<boolean>,
  what: string | (() => string) = 'it did not come true',
): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await holds())) {
    if (performance.now() > deadline) {
      throw new Error(`not within ${withinMs} ms: ${typeof what === 'string' ? what : what()}`);
    }
    await sleep(50);
  }
}
