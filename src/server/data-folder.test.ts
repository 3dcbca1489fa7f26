import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { prepareDataFolder, replaceFile } from './data-folder.ts';

const scratch = mkdtempSync(join(tmpdir(), 'hansa-folder-'));
after(() => rmSync(scratch, { recursive: true }));

const modeOf = (path: string): number => statSync(path).mode & 0o777;

test('a new data folder lets others pass through, but not into the secrets', () => {
  const folder = prepareDataFolder(join(scratch, 'deep', 'er', 'lubeck'));
  assert.equal(modeOf(folder.path), 0o711);
  assert.equal(modeOf(join(folder.path, 'secrets')), 0o700);
});

test('modes that somebody loosened are mended', () => {
  const path = join(scratch, 'loose');
  prepareDataFolder(path);
  prepareDataFolder(path);
  assert.equal(modeOf(join(path, 'secrets')), 0o700);
});

test('a file is refused, and so is a place where the system lets nobody make a folder', () => {
  const file = join(scratch, 'file');
  writeFileSync(file, '');
  assert.throws(() => prepareDataFolder(file), /it is a file/);
  assert.throws(
    () => prepareDataFolder('/proc/hansa/lubeck'),
    /Cannot use \/proc\/hansa\/lubeck as data folder/,
  );
});

test('a file is replaced as a whole, with the mode that was asked for', () => {
  const path = join(scratch, 'ca.pem');
  replaceFile(path, 'one', 0o600);
  replaceFile(path, 'two', 0o644);
  assert.equal(modeOf(path), 0o644);
});
