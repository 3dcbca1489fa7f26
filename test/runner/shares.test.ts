import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { sharesOf, writeShare } from './shares.ts';

const files = Array.from({ length: 20 }, (_, i) => `src/${String(i).padStart(2, '0')}.test.ts`);

test('every file is in one share', () => {
  const all = [...files, 'test/simulation/a.test.ts'];
  assert.deepEqual(sharesOf(all).flat().toSorted(), all);
  assert.deepEqual(sharesOf([]), []);
});

test('neighbours share a process, and simulations come first, each in its own', () => {
  const shares = sharesOf([...files, 'test/simulation/a.test.ts', 'test/simulation/b.test.ts']);
  assert.deepEqual(
    shares.map((share) => share.length),
    [1, 1, 16, 4],
  );
  assert.deepEqual(shares[0], ['test/simulation/a.test.ts']);
});

test('a share is a program with a suite for each file, and one file is its own program', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-shares-'));
  t.after(() => rmSync(folder, { recursive: true }));
  assert.equal(writeShare(folder, 0, ['src/a.test.ts']), 'src/a.test.ts');
  const program = readFileSync(writeShare(folder, 1, ['src/a.test.ts', 'src/b.test.ts']), 'utf8');
  assert.match(
    program,
    /suite\("src\/a\.test\.ts", \(\) => import\("file:.*\/src\/a\.test\.ts"\)\)/,
  );
  assert.match(program, /suite\("src\/b\.test\.ts"/);
});
