import assert from 'node:assert/strict';
import { sign } from 'node:crypto';
import { describe, test } from 'node:test';
import { sleep } from '../../src/core/clock/clock.ts';
import { SeededRandom } from '../../src/core/clock/seeded-random.ts';
import { seededKey } from './seeded-key.ts';
import { play, type Scenario, seedsOf } from './seeds.ts';
import { Simulation } from './simulation.ts';

describe('a simulation', () => {
  test('fails with the first error of a task, and not for what died', async () => {
    const simulation = new Simulation(1);
    const node = simulation.node('a', (process) =>
      process.spawn(async () => {
        await sleep(process.clock, 100);
        throw new Error(`life ${process.life}`);
      }),
    );
    await simulation.run(50);
    node.crash();
    node.start();
    await simulation.run(90);
    await assert.rejects(simulation.run(1000), /life 2/);
  });

  test('gives every life of a node other randomness, and the same in the next run', () => {
    const draw = (): string[] => {
      const drawn: string[] = [];
      const simulation = new Simulation(7);
      const node = simulation.node('a', ({ random }) => drawn.push(random.uuid()));
      node.crash();
      node.start();
      return drawn;
    };
    const [one, two] = draw();
    assert.notEqual(one, two);
    assert.deepEqual(draw(), [one, two]);
  });

  test('makes the same keys and signatures from the same seed', () => {
    const signature = (seed: number): string =>
      sign(null, Buffer.from('x'), seededKey(new SeededRandom(seed))).toString('hex');
    assert.equal(signature(1), signature(1));
    assert.notEqual(signature(1), signature(2));
  });
});

describe('seeds', () => {
  const scenario: Scenario = {
    name: 'coin',
    run: async (simulation) => {
      simulation.event(`draws ${simulation.random.unit()}`);
      await simulation.run(10);
      if (simulation.random.chance(0.5)) throw new Error('tails');
    },
  };

  test('name themselves when they fail, with what happened last', async () => {
    const failed: string[] = [];
    for (let seed = 1; seed <= 20; seed++) {
      await play(scenario, String(seed)).catch((error: unknown) => failed.push(String(error)));
    }
    assert.ok(failed.length > 2 && failed.length < 18);
    assert.match(failed[0] ?? '', /seed \d+ of "coin" fails at 10 ms: Error: tails/);
    assert.match(failed[0] ?? '', /replay it with HANSA_SEED=\d+/);
    assert.match(failed[0] ?? '', /0\.000 draws 0\./);
  });

  test('come from the environment', () => {
    assert.deepEqual(seedsOf({ HANSA_SEED: '17', HANSA_SEEDS: '3' }, 9), ['17']);
    assert.deepEqual(seedsOf({ HANSA_SEEDS: '3' }, 9), ['1', '2', '3']);
    assert.equal(seedsOf({ HANSA_SEED: '', HANSA_SEEDS: '' }, 9).length, 9);
    assert.throws(() => seedsOf({ HANSA_SEEDS: 'many' }, 9), /HANSA_SEEDS must be/);
  });
});
