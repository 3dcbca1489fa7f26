// `make simulate`: runs every scenario with thousands of seeds on all processors, and prints its
// progress. SEED=n repeats one seed, ROUNDS=n sets the number of seeds per scenario, and a name
// selects one scenario. Memory does not grow with the number of seeds.

import { fork } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { agentsScenario } from './agents-scenario.ts';
import { leagueScenario } from './league-scenario.ts';
import { leaseScenario } from './lease-scenario.ts';
import { reconcileScenario } from './reconcile-scenario.ts';
import { rotationScenario } from './rotation-scenario.ts';
import { play, type Scenario, seedsOf, usualSeeds } from './seeds.ts';
import { storeScenario } from './store-scenario.ts';
import { threadScenario } from './thread-scenario.ts';

const scenarios = [
  storeScenario,
  leaseScenario,
  reconcileScenario,
  threadScenario,
  rotationScenario,
  agentsScenario,
  leagueScenario,
];

const environment = {
  HANSA_SEED: process.env['SEED'] || process.env['HANSA_SEED'],
  HANSA_SEEDS: process.env['ROUNDS'] || process.env['HANSA_SEEDS'],
};
const seedsFor = (scenario: Scenario): readonly string[] =>
  seedsOf(environment, scenario.seeds ?? usualSeeds);
const progressEveryMs = 10_000;

/** What a player tells after each seed. */
interface Played {
  readonly hash?: string;
  readonly failure?: string;
  readonly residentBytes: number;
}

const playVariable = 'HANSA_SIMULATE_SHARE';
const share = process.env[playVariable];
if (share === undefined) await conduct(process.argv.slice(2));
else await playShare(share);

/** `NAME/FIRST/STEP`: every STEP-th seed of a scenario, from the FIRST on. */
async function playShare(text: string): Promise<void> {
  const [name, first, step] = text.split('/');
  const scenario = scenarios.find((each) => each.name === name);
  if (scenario === undefined) throw new Error(`there is no scenario ${name}`);
  const seeds = seedsFor(scenario);
  for (let at = Number(first); at < seeds.length; at += Number(step)) {
    const residentBytes = process.memoryUsage.rss();
    let played: Played;
    try {
      played = { hash: await play(scenario, seeds[at] ?? ''), residentBytes };
    } catch (error) {
      played = { failure: error instanceof Error ? error.message : String(error), residentBytes };
    }
    process.send?.(played);
  }
  process.disconnect();
}

async function conduct(wanted: readonly string[]): Promise<void> {
  const unknown = wanted.find((name) => !scenarios.some((each) => each.name === name));
  if (unknown !== undefined) {
    const names = scenarios.map(({ name }) => name).join(', ');
    process.stderr.write(`there is no scenario ${unknown}, only ${names}\n`);
    process.exitCode = 2;
    return;
  }
  let failed = 0;
  for (const scenario of scenarios) {
    const isWanted = wanted.length === 0 || wanted.includes(scenario.name);
    if (isWanted) failed += await playAll(scenario.name, seedsFor(scenario));
  }
  process.stdout.write(failed === 0 ? 'all seeds hold\n' : `${failed} seeds fail\n`);
  process.exitCode = failed === 0 ? 0 : 1;
}

/** Resolves to how many seeds failed. */
async function playAll(name: string, seeds: readonly string[]): Promise<number> {
  const startedMs = performance.now();
  const seconds = (): string => `${((performance.now() - startedMs) / 1000).toFixed(1)} s`;
  const players = Math.min(availableParallelism(), seeds.length);
  const resident = Array.from({ length: players }, () => 0);
  const megabytes = (): string => `${Math.round(Math.max(...resident) / 1e6)} MB`;
  let toldMs = startedMs;
  let played = 0;
  let failed = 0;
  const hear = (player: number, told: Played): void => {
    played += 1;
    resident[player] = told.residentBytes;
    if (told.failure !== undefined) {
      failed += 1;
      process.stdout.write(`${told.failure}\n`);
    } else if (seeds.length === 1) {
      process.stdout.write(`${name} seed ${seeds[0]}: ${told.hash}\n`);
    }
    if (performance.now() - toldMs < progressEveryMs) return;
    toldMs = performance.now();
    process.stdout.write(`${name} ${played}/${seeds.length}  ${seconds()}  ${megabytes()}\n`);
  };
  await Promise.all(
    resident.map(
      (_none, player) =>
        new Promise<void>((resolve) => {
          const child = fork(import.meta.filename, {
            env: { ...process.env, [playVariable]: `${name}/${player}/${players}` },
          });
          child.on('message', (told: Played) => hear(player, told));
          child.on('exit', (code, signal) => {
            if (code !== 0) {
              failed += 1;
              process.stdout.write(`${name}: a player ended with ${signal ?? code}\n`);
            }
            resolve();
          });
        }),
    ),
  );
  process.stdout.write(`${name}: ${played} seeds in ${seconds()}, ${megabytes()} a process\n`);
  return failed;
}
