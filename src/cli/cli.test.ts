import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { suite, test } from 'node:test';
import { Command } from 'commander';
import { createCli } from './cli.ts';
import { processIo } from './process-io.ts';
import { allPlanes } from '../test-planes.ts';
import { Interrupted, type Io } from '../core/plane/command-kit.ts';

/** Asks at a terminal, sends the keys once the question stands there, and tells what was shown. */
async function ask(keys: string): Promise<{ answered: Promise<void>; shown: () => string }> {
  const stdin = Object.assign(new PassThrough(), { isTTY: true });
  const stderr = Object.assign(new PassThrough(), { isTTY: true });
  const io = { ...processIo(), stdin, stderr };
  const cli = createCli(io, { planes: allPlanes, version: '1.2.3' });
  const answered = cli.confirm(new Command(), 'Delete it?');
  answered.catch(() => undefined);
  let shown = '';
  await new Promise<void>((resolve) => {
    stderr.on('data', (piece: Buffer) => {
      shown += piece.toString('utf8');
      if (shown.includes('[y/N] ')) resolve();
    });
  });
  stdin.write(keys);
  return { answered, shown: () => shown };
}

suite('a question at a terminal', () => {
  for (const yes of ['y', 'Y', 'yes']) {
    test(`takes ${yes} for yes`, async () => {
      const { answered, shown } = await ask(`${yes}\r`);
      await answered;
      assert.match(shown(), /Delete it\? \[y\/N\] /);
    });
  }

  for (const [name, keys] of [
    ['n', 'n\r'],
    ['nothing', '\r'],
    ['Ctrl-D', '\u0004'],
  ] as const) {
    test(`takes ${name} for no`, async () => {
      const { answered } = await ask(keys);
      await assert.rejects(answered, { code: 'HANSA_CANCELLED', message: 'Cancelled.' });
    });
  }

  test('is left with Ctrl-C', async () => {
    const { answered } = await ask('\u0003');
    await assert.rejects(answered, Interrupted);
  });
});

suite('the rest of a command', () => {
  const module = `data:text/javascript,${encodeURIComponent(
    'export const continueCommand = async ({ print, version }, input) => print(version + input.word);',
  )}`;
  const scene = (restart?: Io['restart']) => {
    const stdout = new PassThrough();
    const { restart: _, ...io } = { ...processIo(), stdout };
    const cli = createCli(restart === undefined ? io : { ...io, restart }, {
      planes: [],
      version: '1.2.3',
    });
    return { cli, printed: (): unknown => stdout.read()?.toString() };
  };

  test('runs in this process where it cannot start again', async () => {
    const { cli, printed } = scene();
    await cli.continueIn(module, { word: ' runs' });
    assert.equal(printed(), '1.2.3 runs\n');
  });

  test('is passed on to the program that replaces this one', async () => {
    const passed: [string, unknown][] = [];
    const { cli, printed } = scene((entry, argument) => {
      passed.push([entry, JSON.parse(argument)]);
      return Promise.reject(new Error('replaced'));
    });
    await assert.rejects(cli.continueIn(module, { word: ' runs' }), /replaced/);
    assert.deepEqual(passed, [
      [import.meta.resolve('./continued.ts'), { module, input: { word: ' runs' } }],
    ]);
    assert.equal(printed(), undefined);
  });
});
