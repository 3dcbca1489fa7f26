import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import { Coverage, coverageTable, FileLines } from './coverage.ts';

const source = [
  '// A comment.',
  'import type { T } from "t";',
  '',
  'export interface A {',
  '  readonly b: string;',
  '}',
  'export function yes(a: A): string {',
  '  return a.b;',
  '}',
  'export function no(): string {',
  '  return `no`;',
  '}',
].join('\n');
/** Two function heads and two returns. */
const lines = 4;

const range = (text: string, count: number) => {
  const startOffset = source.indexOf(text);
  return { startOffset, endOffset: startOffset + text.length, count };
};
const whole = { ranges: [range(source, 1)] };
const neverRan = { ranges: [range('export function no(): string {\n  return `no`;\n}', 0)] };

suite('the lines of a file', () => {
  test('are those with code: no comments, types, imports of types or lone brackets', () => {
    assert.equal(new FileLines(source).count, lines);
    assert.equal(new FileLines('').count, 0);
  });

  test('are covered by no process at first', () => {
    assert.equal(new FileLines(source).covered, 0);
  });

  test('are covered where the innermost range around them ran, in whatever order ranges come', () => {
    for (const functions of [
      [whole, neverRan],
      [neverRan, whole],
    ]) {
      const file = new FileLines(source);
      file.add(functions);
      assert.equal(file.covered, 2);
    }
  });

  test('are covered where one process ran them, whatever others did', () => {
    const file = new FileLines(source);
    file.add([whole]);
    file.add([whole, neverRan]);
    assert.equal(file.covered, lines);
  });
});

suite('the coverage of a repository', () => {
  function repository(t: TestContext): string {
    const root = mkdtempSync(join(tmpdir(), 'hansa-coverage-'));
    t.after(() => rmSync(root, { recursive: true }));
    mkdirSync(join(root, 'src/part/deep'), { recursive: true });
    mkdirSync(join(root, 'written'));
    for (const path of ['src/part/a.ts', 'src/part/a.test.ts', 'src/part/deep/b.ts']) {
      writeFileSync(join(root, path), source);
    }
    return root;
  }
  const urlOf = (root: string, path: string): string => pathToFileURL(join(root, path)).href;

  test('sums folders with what is below them, also files that no test loads', (t) => {
    const root = repository(t);
    const coverage = new Coverage(root);
    coverage.add([
      { url: urlOf(root, 'src/part/a.ts'), functions: [whole, neverRan] },
      { url: urlOf(root, 'src/part/a.test.ts'), functions: [whole] },
      { url: 'node:fs', functions: [whole] },
      { url: urlOf(root, '../elsewhere.ts'), functions: [whole] },
    ]);
    assert.deepEqual(coverage.byFolder(), [
      { folder: 'src', lines: 8, covered: 2 },
      { folder: 'src/part', lines: 8, covered: 2 },
      { folder: 'src/part/deep', lines: 4, covered: 0 },
    ]);
  });

  test('is taken from the files of processes, which are removed; half a file is left', (t) => {
    const root = repository(t);
    const folder = join(root, 'written');
    const result = [{ url: urlOf(root, 'src/part/deep/b.ts'), functions: [whole] }];
    writeFileSync(join(folder, 'coverage-1.json'), JSON.stringify({ result }));
    writeFileSync(join(folder, 'coverage-2.json'), '{"result":[');
    const coverage = new Coverage(root);
    coverage.collect(folder);
    assert.equal(coverage.byFolder().at(-1)?.covered, lines);
    assert.deepEqual(readdirSync(folder), ['coverage-2.json']);
  });
});

test('the table has a line for each folder', () => {
  const table = coverageTable([
    { folder: 'src', lines: 8, covered: 2 },
    { folder: 'src/empty', lines: 0, covered: 0 },
  ]);
  assert.deepEqual(table.split('\n'), [
    'folder     covered    lines    share',
    'src              2        8   25.0 %',
    'src/empty        0        0        -',
  ]);
});
