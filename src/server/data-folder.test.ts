import assert from 'node:assert/strict';
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { hasCode } from '../core/errors/error.ts';
import { prepareDataFolder } from './data-folder.ts';

const base = mkdtempSync(join(tmpdir(), 'hansa-folder-'));
after(() => rmSync(base, { recursive: true, force: true }));

const refused = (error: unknown): boolean => hasCode(error, 'HANSA_CONFIG_INVALID');
const modeOf = (path: string): number => statSync(path).mode & 0o777;

test('everyone may pass through the folder, and nobody else sees its secrets', () => {
  const { path } = prepareDataFolder(join(base, 'plain'));
  assert.equal(modeOf(path), 0o711);
  assert.equal(modeOf(join(path, 'secrets')), 0o700);
  assert.doesNotThrow(() => prepareDataFolder(path));
});

test('secrets are not put where a link leads', () => {
  const path = join(base, 'linked');
  const elsewhere = join(base, 'elsewhere');
  mkdirSync(path);
  mkdirSync(elsewhere, { mode: 0o755 });
  symlinkSync(elsewhere, join(path, 'secrets'));
  assert.throws(() => prepareDataFolder(path), refused);
  assert.equal(modeOf(elsewhere), 0o755);
});

test('a folder of another user is refused', {
  skip: process.getuid?.() !== 0 && 'needs root',
}, () => {
  const path = join(base, 'foreign');
  mkdirSync(path, { mode: 0o777 });
  chownSync(path, 65_534, 65_534);
  assert.throws(() => prepareDataFolder(path), refused);
  assert.equal(existsSync(join(path, 'secrets')), false);
});

test('a site does not start in the data folder of an agent', () => {
  for (const file of ['secrets/identity/join.json', 'agent-status.json']) {
    const path = mkdtempSync(join(base, 'agent-'));
    mkdirSync(dirname(join(path, file)), { recursive: true });
    writeFileSync(join(path, file), '{}');
    assert.throws(() => prepareDataFolder(path), {
      code: 'HANSA_CONFIG_INVALID',
      message: /is the data folder of an agent.*hansa agent run --data-dir/,
    });
    assert.ok(!existsSync(join(path, 'secrets', 'store.db')));
  }
});
