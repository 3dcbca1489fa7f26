// Thousands of seeds play in one process: what a seed used must be free when it is over.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { leaseScenario } from './lease-scenario.ts';
import { reconcileScenario } from './reconcile-scenario.ts';
import { rotationScenario } from './rotation-scenario.ts';
import { play, type Scenario } from './seeds.ts';
import { storeScenario } from './store-scenario.ts';
import { threadScenario } from './thread-scenario.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

async function usedBytes(): Promise<number> {
  // Finalizers of one collection free what the next one finds.
  for (let round = 0; round < 3; round++) {
    collectGarbage();
    await turn();
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

/**
 * Caches of the product that hold a fixed number of entries fill up over the first seeds, so a few
 * percent of a simulation may stay. A simulation that is kept takes 200 KB to 6 MB.
 */
const allowedBytesPerSeed = 150_000;

const scenarios: readonly (readonly [Scenario, warmUps: number, seeds: number])[] = [
  [storeScenario, 5, 10],
  [leaseScenario, 5, 20],
  [reconcileScenario, 5, 20],
  [threadScenario, 10, 20],
  [rotationScenario, 4, 8],
];

suite('the memory of simulations', () => {
  for (const [scenario, warmUps, seeds] of scenarios) {
    test(`a seed of "${scenario.name}" leaves nothing behind`, async () => {
      let seed = 0;
      while (seed < warmUps) await play(scenario, String(++seed));
      const before = await usedBytes();
      while (seed < warmUps + seeds) await play(scenario, String(++seed));
      const each = ((await usedBytes()) - before) / seeds;
      assert.ok(each < allowedBytesPerSeed, `each seed leaves ${Math.round(each / 1000)} KB`);
    });
  }
});
