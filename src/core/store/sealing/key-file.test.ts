import assert from 'node:assert/strict';
import { chmod, chown, mkdtemp, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { systemRandom } from '../../clock/system.ts';
import { withErrorCode } from '../conformance/harness.ts';
import { loadOrCreateKey } from './key-file.ts';

describe('the key file', () => {
  let folder: string;
  let path: string;
  let count = 0;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hansa-key-'));
  });
  beforeEach(() => {
    path = join(folder, `key-${count++}`);
  });
  after(() => rm(folder, { recursive: true }));

  async function refusal(pattern: RegExp): Promise<void> {
    await assert.rejects(loadOrCreateKey(path, systemRandom, undefined), (error: unknown) => {
      assert.match(String(error), pattern);
      return withErrorCode('HANSA_CONFIG_INVALID')(error);
    });
  }

  test('is made for its owner only, and read again', async () => {
    const made = await loadOrCreateKey(path, systemRandom, undefined);
    assert.equal(made.byteLength, 32);
    assert.equal((await stat(path)).mode & 0o777, 0o600);
    assert.deepEqual(await loadOrCreateKey(path, systemRandom, undefined), made);
    const leftOver = (await readdir(folder)).filter((name) => name.endsWith('.new'));
    assert.deepEqual(leftOver, []);
  });

  test('is not made where something is sealed with one already, which the error names', async () => {
    await assert.rejects(loadOrCreateKey(path, systemRandom, 'the store'), (error: unknown) => {
      assert.match(String(error), /does not exist, and the store is sealed with it/);
      return withErrorCode('HANSA_SEAL_BROKEN')(error);
    });
    assert.ok(!(await readdir(folder)).some((name) => path.endsWith(name)));
    const made = await loadOrCreateKey(path, systemRandom, undefined);
    assert.deepEqual(await loadOrCreateKey(path, systemRandom, 'the store'), made);
  });

  test('is the same for all who make it at once', async () => {
    const keys = await Promise.all(
      Array.from({ length: 8 }, () => loadOrCreateKey(path, systemRandom, undefined)),
    );
    for (const key of keys) assert.deepEqual(key, keys[0]);
  });

  test('is refused where others may read it, with the command that mends it', async () => {
    await loadOrCreateKey(path, systemRandom, undefined);
    for (const mode of [0o640, 0o604, 0o620, 0o644]) {
      await chmod(path, mode);
      await refusal(/chmod 600/);
    }
    await chmod(path, 0o400);
    await loadOrCreateKey(path, systemRandom, undefined);
  });

  test('is refused where it belongs to another user', async (context) => {
    if (process.getuid?.() !== 0) {
      context.skip('only root can give a file away');
      return;
    }
    await loadOrCreateKey(path, systemRandom, undefined);
    await chown(path, 1, 1);
    await refusal(/belongs to user 1/);
  });

  test('is refused where it holds something else', async () => {
    for (const text of [
      '',
      'hansa-key-1 short\n',
      'x'.repeat(5000),
      `hansa-key-2 ${'A'.repeat(43)}\n`,
    ]) {
      await writeFile(path, text, { mode: 0o600 });
      await refusal(/Cannot use the key file/);
    }
  });

  test('is refused where it is a folder, or a link to nowhere in a missing folder', async () => {
    path = folder;
    await refusal(/not a regular file|Cannot use/);
    path = join(folder, 'missing', 'key');
    await refusal(/Cannot create the key file/);
    path = join(folder, 'link');
    await symlink(join(folder, 'missing', 'key'), path);
    await refusal(/vanished|Cannot/);
  });
});
