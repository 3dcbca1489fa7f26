// Runs a scenario with many seeds. HANSA_SEED=n runs only that seed; HANSA_SEEDS=n sets the number.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Simulation } from './simulation.ts';
import { usedBytes } from './used-memory.ts';

export interface Scenario {
  readonly name: string;
  /** How many seeds `make simulate` plays, if not `usualSeeds`. */
  readonly seeds?: number;
  /** Plays the scenario and throws where an invariant does not hold. */
  run(simulation: Simulation): Promise<void>;
}

export const usualSeeds = 2000;

/** The seeds that the environment asks for. */
export function seedsOf(environment: NodeJS.ProcessEnv, otherwise: number): readonly string[] {
  const one = environment['HANSA_SEED'];
  if (one !== undefined && one !== '') return [one];
  const given = environment['HANSA_SEEDS'];
  const count = given === undefined || given === '' ? otherwise : Number(given);
  if (!Number.isSafeInteger(count) || count < 1) {
    throw new RangeError(`HANSA_SEEDS must be a whole number of 1 or more, not "${given}"`);
  }
  return Array.from({ length: count }, (_, i) => String(i + 1));
}

/** Plays one seed and returns the hash of what happened. */
export async function play(scenario: Scenario, seed: string): Promise<string> {
  const simulation = new Simulation(`${scenario.name}/${seed}`);
  try {
    await scenario.run(simulation);
  } catch (error) {
    throw new Error(
      `seed ${seed} of "${scenario.name}" fails at ${simulation.clock.monotonic().toFixed(0)} ms: ${String(error)}\n` +
        `  replay it with HANSA_SEED=${seed}\n  the last events:\n    ${simulation.trace.last.join('\n    ')}`,
      { cause: error },
    );
  }
  return simulation.trace.hash;
}

/**
 * What a seed may leave in memory. Caches of the product fill up over the first seeds, up to their
 * fixed number of entries. A simulation that is kept as a whole takes 200 KB to 6 MB.
 */
const allowedBytesPerSeed = 150_000;
const warmUps = 10;

/** A test that plays many seeds, and a few of them twice. Thousands must fit into one process. */
export function simulationTest(scenario: Scenario, seedCount: number): void {
  const seeds = seedsOf(process.env, seedCount);
  const hashes = new Map<string, string>();
  const playAll = async (some: readonly string[]): Promise<void> => {
    for (const seed of some) hashes.set(seed, await play(scenario, seed));
  };
  let keptBytes = 0;
  test(`${scenario.name}: holds for ${seeds.length} seeds`, async () => {
    await playAll(seeds.slice(0, warmUps));
    const before = await usedBytes();
    await playAll(seeds.slice(warmUps));
    keptBytes = (await usedBytes()) - before;
  });
  test(`${scenario.name}: a seed leaves nothing behind in memory`, () => {
    const each = keptBytes / Math.max(1, seeds.length - warmUps);
    assert.ok(each < allowedBytesPerSeed, `each seed leaves ${Math.round(each / 1000)} KB`);
  });
  test(`${scenario.name}: the same seed plays the same way`, async () => {
    for (const seed of seeds.slice(0, 5)) {
      assert.equal(await play(scenario, seed), hashes.get(seed));
    }
  });
  test(`${scenario.name}: another seed plays another way`, () => {
    assert.equal(new Set(hashes.values()).size, seeds.length);
  });
}
