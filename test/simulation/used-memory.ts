// The memory that a process still uses after a collection of garbage.

import { setImmediate as turn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Of JavaScript objects and their buffers. */
export async function usedBytes(): Promise<number> {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  // Finalizers of one collection free objects for the next one.
  for (let round = 0; round < 3; round++) {
    collectGarbage();
    await turn();
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
