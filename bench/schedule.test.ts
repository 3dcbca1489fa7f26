// Runs small programs as the parts of `make bench`.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, suite, test } from 'node:test';
import type { Part } from './parts.ts';
import { confirmMisses, runParts } from './schedule.ts';

const quiet = JSON.stringify(join(import.meta.dirname, 'quiet.ts'));
const works = { long: 1, quick: 1 };
const idles = { long: 1, quick: 1 };

suite('the schedule of make bench', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'hansa-schedule-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const nothing = (): void => undefined;
  const scheduled = (size: 'quick' | 'small') => ({ folder, size, print: nothing, note: nothing });
  const log = (): readonly string[] => readFileSync(join(folder, 'log'), 'utf8').trim().split('\n');

  /** A program that logs each of its steps twice, so that steps that overlap show. */
  function part(name: string, source: string, how: Partial<Part> = {}): Part {
    writeFileSync(
      join(folder, `${name}.ts`),
      `import { appendFileSync, readFileSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { whileQuiet } from ${quiet};
const log = ${JSON.stringify(join(folder, 'log'))};
const say = (text: string) => appendFileSync(log, '${name} ' + text + '\\n');
const step = async (what: string) => {
  say(what + ' begins');
  for (let i = 0; i < 100; i++) await setImmediate();
  say(what + ' ends');
};
const print = (figure: object) => console.log(JSON.stringify({ unit: 'ms', ...figure }));
${source}`,
    );
    return { name, works, ...how };
  }

  /** Waits until two programs are idle at once. */
  const idling = `await step('start');
await whileQuiet(async () => {
  say('idles');
  while (readFileSync(log, 'utf8').match(/ idles$/gm)?.length !== 2) await setImmediate();
});
await step('rest');`;

  test('one part works at a time, and idle processes are measured side by side', async () => {
    const parts = [
      part('plain', `await step('all');`),
      part('agents', idling, { idles }),
      part('idle', idling, { idles }),
    ];
    await runParts(parts, scheduled('small'));
    assert.deepEqual(log().slice(0, 4), [
      'agents start begins',
      'agents start ends',
      'idle start begins',
      'idle start ends',
    ]);
    assert.deepEqual(log().slice(4, 6).toSorted(), ['agents idles', 'idle idles']);
    assert.deepEqual(log().slice(6), [
      'idle rest begins',
      'idle rest ends',
      'agents rest begins',
      'agents rest ends',
      'plain all begins',
      'plain all ends',
    ]);
  });

  test('a part that fails does not keep the others from their figures', async () => {
    const parts = [
      part('agents', `await whileQuiet(() => Promise.reject(new Error('broken')));`, { idles }),
      part('idle', `await whileQuiet(async () => print({ bench: 'a', value: 1 }));`, { idles }),
      part('plain', `process.exit(3);`),
    ];
    const [agents, idle, plain] = await runParts(parts, scheduled('small'));
    assert.match(agents?.failure ?? '', /ended with 1/);
    assert.deepEqual([idle?.failure, idle?.figures.length], [undefined, 1]);
    assert.match(plain?.failure ?? '', /ended with 3/);
  });

  test('a part whose quick figures miss a promise runs again in its long form, which decides', async () => {
    const value = `process.env['BENCH_LONG'] === '1' ? 1 : 3`;
    const parts = [
      part('noisy', `print({ bench: 'noisy', value: ${value}, atMost: 2 }); say('ran');`),
      part('slow', `print({ bench: 'slow', value: 3, atMost: 2 }); say('ran');`),
      part('fine', `print({ bench: 'fine', value: 1, atMost: 2 }); say('ran');`),
    ];
    const quick = await runParts(parts, scheduled('quick'));
    const outcomes = await confirmMisses(quick, scheduled('quick'));
    assert.deepEqual(
      outcomes.map(({ figures }) => figures.map(({ value: measured }) => measured)),
      [[1], [3], [1]],
    );
    assert.deepEqual(log().toSorted(), [
      'fine ran',
      'noisy ran',
      'noisy ran',
      'slow ran',
      'slow ran',
    ]);
  });

  test('a small run confirms nothing', async () => {
    const slow = part('slow', `print({ bench: 'slow', value: 3, atMost: 2 }); say('ran');`);
    const outcomes = await runParts([slow], scheduled('small'));
    await confirmMisses(outcomes, scheduled('small'));
    assert.deepEqual(log(), ['slow ran']);
  });
});
