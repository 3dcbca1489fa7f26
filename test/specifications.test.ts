// docs/specifications.md lists the rules of SPIFFE and the tests for them. This test keeps the
// table correct: every test that it names exists, and every row names a test or says why there is
// none.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';
import { hasTest, namedTests, type Row, rowsOf, samplesOf } from './specification-table.ts';

const root = join(import.meta.dirname, '..');
const rows = rowsOf(readFileSync(join(root, 'docs', 'specifications.md'), 'utf8'));

suite('the table of specifications', () => {
  const specifications = [
    'SPIFFE ID',
    'X.509-SVID',
    'JWT-SVID',
    'SPIFFE Trust Domain and Bundle',
    'SPIFFE Federation',
    'SPIFFE Workload Endpoint',
    'SPIFFE Workload API',
  ];
  test('has every specification', () => {
    const found = new Set(rows.map(({ specification }) => specification));
    assert.deepEqual([...found], specifications);
  });

  test('names a test, or a reason why there is none, in every row', () => {
    const bare = rows.filter(
      (row) => namedTests(row).length === 0 && !row.shownBy.startsWith('none: '),
    );
    assert.deepEqual(bare.map(where), []);
  });

  test('names no test that is not there', () => {
    const missing: string[] = [];
    for (const row of rows) {
      for (const { file, name } of namedTests(row)) {
        const { text, samples } = read(file);
        if (!hasTest(text, name, samples)) missing.push(`${where(row)}: ${file} › ${name}`);
      }
    }
    assert.deepEqual(missing, []);
  });
});

suite('a test is found', () => {
  const text = [
    "test('a plain one', () => {});",
    'it("another \\"quoted\\" one", () => {});',
    "for (const what of ['with this']) test(`a made one ${what} (${1})`, () => {});",
    "const wrong = { 'by its key': 1 };",
    'for (const [what] of Object.entries(wrong)) test(what, () => {});',
    "// test('only ' + 'talked about')",
  ].join('\n');
  for (const name of [
    'a plain one',
    'another "quoted" one',
    'a made one with this (1)',
    'by its key',
  ]) {
    test(`by ${name}`, () => assert(hasTest(text, name)));
  }
  test('by what it imports', () => {
    assert(!hasTest(text, 'a made one from afar (1)'));
    assert(hasTest(text, 'a made one from afar (1)', "'from afar'"));
  });
  for (const name of ['a plain', 'a made one with that (1)', 'nowhere', 'only talked about']) {
    test(`but not by ${name}`, () => assert(!hasTest(text, name)));
  }
});

const texts = new Map<string, { readonly text: string; readonly samples: string }>();

/** Empty where there is no such file. */
function read(file: string): { readonly text: string; readonly samples: string } {
  const known = texts.get(file);
  if (known !== undefined) return known;
  const path = join(root, file);
  const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
  const samples = samplesOf(text).map((each) => readFileSync(join(dirname(path), each), 'utf8'));
  const made = { text, samples: samples.join('\n') };
  texts.set(file, made);
  return made;
}

function where({ specification, section, says }: Row): string {
  return `${specification} §${section} (${says.slice(0, 60)})`;
}
