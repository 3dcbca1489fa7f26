import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import fs, {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import { systemRandom } from '../clock/system.ts';
import { JoinFolder } from '../../trust/client/join-folder.ts';
import { readOwnFile, writeNewFile } from './new-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'hansa-files-'));
after(() => rmSync(folder, { recursive: true }));
const at = (name: string) => join(folder, name);

suite('a file that is laid into a folder of somebody else', () => {
  test('takes the place of a link, and leaves alone what the link led to', () => {
    writeFileSync(at('victim'), 'the shadow file', { mode: 0o600 });
    symlinkSync(at('victim'), at('svid.pem.next'));
    writeNewFile(at('svid.pem.next'), 'a certificate', 0o644);
    assert.equal(readFileSync(at('victim'), 'utf8'), 'the shadow file');
    assert.equal(statSync(at('victim')).mode & 0o777, 0o600);
    assert.equal(readFileSync(at('svid.pem.next'), 'utf8'), 'a certificate');
    assert.equal(statSync(at('svid.pem.next')).mode & 0o777, 0o644);
  });

  test('is on the disk before it can take the place of another', () => {
    const synced: unknown[] = [];
    const { fsyncSync: fsync } = fs;
    fs.fsyncSync = (fd) => {
      synced.push(readFileSync(`/proc/self/fd/${fd}`, 'utf8'));
      fsync(fd);
    };
    syncBuiltinESMExports();
    try {
      writeNewFile(at('svid.key.next'), 'a key', 0o600);
      assert.deepEqual(synced, ['a key']);
    } finally {
      fs.fsyncSync = fsync;
      syncBuiltinESMExports();
    }
  });

  test('gets its mode without its path being followed again, where a link could lie by now', async () => {
    const followed: unknown[] = [];
    const { chmodSync: chmod } = fs;
    fs.chmodSync = (path) => void followed.push(path);
    syncBuiltinESMExports();
    try {
      const kept = new JoinFolder(at('identity'));
      await kept.nextKey(systemRandom);
      assert.deepEqual(followed, []);
    } finally {
      fs.chmodSync = chmod;
      syncBuiltinESMExports();
    }
    assert.equal(statSync(at('identity/svid.key.next')).mode & 0o777, 0o600);
  });
});

suite('a key that waits to be certified', () => {
  const planted = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
  const pem = planted.export({ format: 'pem', type: 'pkcs8' }) as string;
  const path = () => at('join/svid.key.next');
  const isUsed = async (plant: () => void): Promise<boolean> => {
    mkdirSync(at('join'), { recursive: true });
    const kept = new JoinFolder(at('join'));
    rmSync(path(), { force: true });
    plant();
    return createPublicKey(await kept.nextKey(systemRandom)).equals(createPublicKey(planted));
  };

  test('is used again where we wrote it', async () => {
    assert.equal(await isUsed(() => writeNewFile(path(), pem, 0o600)), true);
  });

  test('is not used where somebody else could have laid it there', async () => {
    const open = () => {
      writeFileSync(path(), pem);
      chmodSync(path(), 0o640);
    };
    assert.equal(await isUsed(open), false);
    writeNewFile(at('elsewhere'), pem, 0o600);
    assert.equal(await isUsed(() => symlinkSync(at('elsewhere'), path())), false);
    assert.equal(await isUsed(() => linkSync(at('elsewhere'), path())), false);
    assert.ok(existsSync(at('elsewhere')));
  });

  test('is not used where it belongs to another user', async (context) => {
    if (process.geteuid?.() !== 0) {
      context.skip('only root can give files away');
      return;
    }
    const foreign = () => {
      writeNewFile(path(), pem, 0o600);
      chownSync(path(), 12_345, 12_345);
    };
    assert.equal(await isUsed(foreign), false);
  });

  test('is nothing where there is nothing', () => {
    assert.equal(readOwnFile(at('nothing')), undefined);
    assert.equal(readOwnFile(folder), undefined);
  });
});
