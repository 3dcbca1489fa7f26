// Runs every fuzz target for a short time with a fixed seed, to catch regressions and new parsers that
// fail at once. FUZZ_SEED sets another seed.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { SeededRandom } from '../../src/core/clock/seeded-random.ts';
import { targets } from './all-targets.ts';
import { readCorpus } from './corpus.ts';
import { mutate } from './mutate.ts';
import { fuzz } from './session.ts';
import type { Target } from './target.ts';

const seed = process.env['FUZZ_SEED'] || '1';
const inputs = 300;

suite(`every parser reads or refuses what it is given (seed ${seed})`, () => {
  for (const target of targets) {
    test(target.name, async (t) => {
      const session = await fuzz(target, { seed, isOver: (count) => count >= inputs });
      t.diagnostic(`seed ${seed}: ${session.inputs} inputs, ${session.answers} different answers`);
      const { finding } = session;
      assert.equal(
        finding,
        undefined,
        `${finding?.kept ?? `make fuzz TARGET=${target.name} SEED=${seed}`}: ${finding?.input.toString('hex').slice(0, 400)}\n${finding?.problem}`,
      );
    });
  }
});

suite('the fuzzer', () => {
  test('has a target for each folder of its corpus, and a corpus for each target', () => {
    const folders = readdirSync(join(import.meta.dirname, 'corpus')).toSorted();
    assert.deepEqual(folders, targets.map(({ name }) => name).toSorted());
    for (const { name } of targets) assert(readCorpus(name).length > 1, name);
  });

  test('begins with inputs that their targets read', async () => {
    for (const { name, run } of targets) {
      let good = 0;
      for (const { input } of readCorpus(name)) {
        try {
          await run(input);
          good++;
        } catch {
          // A kept refusal.
        }
      }
      assert(good > 0, `no input of ${name} is read`);
    }
  });

  test('makes the same inputs of the same seed', () => {
    for (const target of targets) {
      const pool = readCorpus(target.name).map(({ input }) => input);
      const make = (): string[] => {
        const random = new SeededRandom(seed);
        return Array.from({ length: 50 }, () =>
          mutate(target, random.pick(pool), pool, random).toString('hex'),
        );
      };
      assert.deepEqual(make(), make());
    }
  });

  const brittle = (run: Target['run']): Target => ({
    ...(targets[0] as Target),
    dictionary: ['needle'],
    grammar: 'text',
    run,
  });

  test('finds an error that is not ours, and makes its input small', async () => {
    const target = brittle((input) => {
      if (input.includes('needle')) throw new TypeError('broken');
    });
    const { finding } = await fuzz(target, { seed, isOver: (count) => count > 5000 });
    assert.equal(finding?.input.toString(), 'needle');
    assert.match(finding.problem, /TypeError: broken/);
  });

  test('finds an input that takes too long', async () => {
    const target = brittle((input) => {
      if (!input.includes('needle')) return;
      const before = process.cpuUsage();
      for (let spent = 0; spent < 60_000; ) {
        for (let i = 0; i < 100_000; i++);
        const { user, system } = process.cpuUsage(before);
        spent = user + system;
      }
    });
    const isOver = (count: number): boolean => count > 5000;
    const { finding } = await fuzz(target, { seed, isOver, maxCpuMs: 20 });
    assert.match(finding?.problem ?? '', /processor time/);
  });
});
