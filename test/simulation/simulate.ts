// `make simulate`: plays every scenario with thousands of seeds and says how far it is. SEED=n replays
// one, ROUNDS=n plays so many of each, a name plays that scenario alone. Memory does not grow with
// the number of seeds.

import { leaseScenario } from './lease-scenario.ts';
import { reconcileScenario } from './reconcile-scenario.ts';
import { play, seedsOf } from './seeds.ts';
import { rotationScenario } from './rotation-scenario.ts';
import { storeScenario } from './store-scenario.ts';
import { threadScenario } from './thread-scenario.ts';

const environment = {
  HANSA_SEED: process.env['SEED'] || process.env['HANSA_SEED'],
  HANSA_SEEDS: process.env['ROUNDS'] || process.env['HANSA_SEEDS'],
};
const seeds = seedsOf(environment, 2000);
const wanted = process.argv.slice(2);
const scenarios = [
  storeScenario,
  leaseScenario,
  reconcileScenario,
  threadScenario,
  rotationScenario,
].filter(({ name }) => wanted.length === 0 || wanted.includes(name));

const progressEveryMs = 10_000;
const residentMb = (): string => `${Math.round(process.memoryUsage.rss() / 1e6)} MB`;

let failed = 0;
for (const scenario of scenarios) {
  const startedMs = performance.now();
  const seconds = (): string => `${((performance.now() - startedMs) / 1000).toFixed(1)} s`;
  let toldMs = startedMs;
  let played = 0;
  for (const seed of seeds) {
    try {
      const hash = await play(scenario, seed);
      if (seeds.length === 1) process.stdout.write(`${scenario.name} seed ${seed}: ${hash}\n`);
    } catch (error) {
      failed++;
      process.stdout.write(`${error instanceof Error ? error.message : String(error)}\n`);
    }
    played++;
    if (performance.now() - toldMs < progressEveryMs) continue;
    toldMs = performance.now();
    const progress = `${scenario.name} ${played}/${seeds.length}`;
    process.stdout.write(`${progress}  ${seconds()}  ${residentMb()}\n`);
  }
  process.stdout.write(
    `${scenario.name}: ${played} seeds in ${seconds()}, ${residentMb()} of memory\n`,
  );
}
process.stdout.write(failed === 0 ? 'all seeds hold\n' : `${failed} seeds fail\n`);
process.exitCode = failed === 0 ? 0 : 1;
