// Runs `make bench` with tiny sizes, to show that every benchmark works and produces its figures.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, suite, test } from 'node:test';
import type { Figure } from '../../bench/figure.ts';
import { benchTools } from '../../bench/parts.ts';
import { execute, type Ran, repository } from '../e2e/daemon.ts';
import { whyNoBind } from './bind.ts';
import { missingTools } from './tool.ts';

const skip = missingWrk() ?? (whyNoBind() || (await missingTools(...benchTools)));

function missingWrk(): string | undefined {
  return spawnSync('wrk', ['--version']).error === undefined
    ? undefined
    : 'SKIPPED: there is no wrk on the PATH';
}

const bench = (...args: readonly string[]): Promise<Ran> =>
  execute(process.execPath, [join(repository, 'bench', 'run.ts'), ...args], {
    env: { BENCH_SMALL: '1' },
  });

/** Sizes and counts differ between a small run and a whole one. */
const nameOf = (row: string): string =>
  row.replace(/ \(\d+ bytes\)$/, '').replace(/\d[\d,]*/g, '#');

suite('make bench, with as little as shows that it works', { skip }, () => {
  let ran: Ran;
  let figures: readonly Figure[];
  before(async () => {
    ran = await bench();
    figures = ran.stdout
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Figure);
  });

  test('every benchmark ends well', () => {
    assert.equal(ran.code, 0, ran.stderr);
  });

  test('every figure has a value, and every anchor too', () => {
    for (const figure of figures) {
      assert.ok(Number.isFinite(figure.value), JSON.stringify(figure));
      if (figure.anchor !== undefined) assert.ok(Number.isFinite(figure.anchorValue), figure.bench);
    }
  });

  test('no anchor is left out', () => {
    assert.doesNotMatch(ran.stderr, /left out/);
  });

  test('every row of docs/benchmarks.md is measured', () => {
    const page = readFileSync(join(repository, 'docs', 'benchmarks.md'), 'utf8');
    const rows = [...page.matchAll(/^\| (?!figure |-)([^|]+) \|/gm)].map(([, row = '']) =>
      nameOf(row),
    );
    const measured = new Set(figures.map((figure) => nameOf(figure.bench)));
    assert.deepEqual(
      rows.filter((row) => !measured.has(row)),
      [],
    );
  });
});

test('a page of only some figures is not written', async () => {
  const { code, stderr } = await bench('--write', 'store');
  assert.equal(code, 2);
  assert.match(stderr, /--write needs a whole run/);
});

test('a part that does not exist is named, beside those that do', async () => {
  const { code, stderr } = await bench('store,shop');
  assert.equal(code, 2);
  assert.match(stderr, /no part shop\. The parts are: watchers, .*store/);
});

test('only the parts that are asked for run', async () => {
  const { code, stdout, stderr } = await bench('store,members');
  assert.equal(code, 0, stderr);
  const names = stdout.match(/"bench":"\w+/g);
  assert.deepEqual([...new Set(names)], ['"bench":"store', '"bench":"league']);
});
