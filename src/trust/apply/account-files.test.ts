import assert from 'node:assert/strict';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { AccountFile } from './account-files.ts';

test('a file of accounts is read again when it changed, and not before a second is over', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-accounts-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'passwd');
  let nowMs = 0;
  const file = new AccountFile(path, { monotonic: () => nowMs });
  assert.equal(file.nameOf(1000), undefined, 'there is no file');
  writeFileSync(path, 'web:x:1000:1000::/:\n');
  assert.equal(file.nameOf(1000), undefined);
  nowMs += 1000;
  assert.equal(file.nameOf(1000), 'web');
  assert.equal(file.nameOf(1001), undefined);
  // As passwd(1) does it.
  writeFileSync(`${path}.new`, 'db:x:1000:1000::/:\n');
  renameSync(`${path}.new`, path);
  nowMs += 1000;
  assert.equal(file.nameOf(1000), 'db');
  rmSync(path);
  nowMs += 1000;
  assert.equal(file.nameOf(1000), undefined);
});
