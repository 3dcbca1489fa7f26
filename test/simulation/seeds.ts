// Runs a scenario with many seeds. HANSA_SEED=n runs that one alone, HANSA_SEEDS=n so many.

import { test } from 'node:test';
import { Simulation } from './simulation.ts';

export interface Scenario {
  readonly name: string;
  /** Plays the scenario and throws where an invariant does not hold. */
  run(simulation: Simulation): Promise<void>;
}

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

/** A test that plays many seeds, and a few of them twice. */
export function simulationTest(scenario: Scenario, seedCount: number): void {
  const seeds = seedsOf(process.env, seedCount);
  test(`${scenario.name}: holds for ${seeds.length} seeds`, async () => {
    for (const seed of seeds) await play(scenario, seed);
  });
  test(`${scenario.name}: the same seed plays the same way`, async (t) => {
    const hashes = new Set<string>();
    const some = seeds.slice(0, 5);
    for (const seed of some) {
      const hash = await play(scenario, seed);
      t.assert.equal(await play(scenario, seed), hash);
      hashes.add(hash);
    }
    t.assert.equal(hashes.size, some.length);
  });
}
