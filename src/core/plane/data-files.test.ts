import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { hasCode } from '../errors/error.ts';
import { checkDataFile, makePrivateFile, readDataFile, replaceFile } from './data-files.ts';
import { prepareFolders, refuseOpenFolder, unsafeInFolder } from './data-folders.ts';

const base = mkdtempSync(join(tmpdir(), 'hansa-files-'));
after(() => rmSync(base, { recursive: true, force: true }));

const stranger = 65_534;
const needsRoot = process.getuid?.() !== 0 && 'needs root';
const modeOf = (path: string): number => statSync(path).mode & 0o777;
const newFolder = (): string => mkdtempSync(join(base, 'folder-'));

function put(path: string, mode = 0o644, owner?: number): string {
  writeFileSync(path, 'text');
  chmodSync(path, mode);
  if (owner !== undefined) chownSync(path, owner, owner);
  return path;
}

const refused = (why: RegExp) => (error: unknown) =>
  hasCode(error, 'HANSA_CONFIG_INVALID') && why.test(error.message);

describe('a file of a data folder', () => {
  test('is read where only its owner can change it, and is undefined where there is none', () => {
    const path = put(join(newFolder(), 'config.yaml'));
    assert.equal(readDataFile(path, 4)?.toString(), 'text');
    assert.equal(readDataFile(`${path}.other`, 4), undefined);
    assert.equal(readDataFile(join(path, 'below-a-file'), 4), undefined);
    assert.equal(checkDataFile(path), true);
    assert.equal(checkDataFile(`${path}.other`), false);
  });

  test('is refused by every way in where others can change it, or it is no file', () => {
    const folder = newFolder();
    const target = put(join(folder, 'target'));
    const link = join(folder, 'link');
    symlinkSync(target, link);
    const bad: [string, RegExp][] = [
      [put(join(folder, 'group'), 0o664), /group: other users can write to it \(mode 0664\)/],
      [put(join(folder, 'all'), 0o646), /all: other users can write to it \(mode 0646\)/],
      [link, /link: it is a symbolic link/],
      [folder, /it is not a file/],
      ['/dev/zero', /it is not a file/],
    ];
    for (const [path, why] of bad) {
      assert.throws(() => readDataFile(path, 100), refused(why), path);
      assert.throws(() => checkDataFile(path), refused(why), path);
      assert.throws(() => makePrivateFile(path), refused(why), path);
    }
    assert.throws(() => readDataFile(target, 3), refused(/larger than 3 bytes/));
  });

  test('is refused where it belongs to another user than its folder', { skip: needsRoot }, () => {
    const path = put(join(newFolder(), 'config.yaml'), 0o644, stranger);
    assert.throws(() => readDataFile(path, 100), refused(/it belongs to user 65534, and its/));
  });

  test('is replaced as a whole, and never written through a link', () => {
    const folder = newFolder();
    const path = join(folder, 'ca.pem');
    const victim = put(join(folder, 'victim'));
    symlinkSync(victim, `${path}.next`);
    replaceFile(path, 'new', 0o644);
    assert.equal(readFileSync(path, 'utf8'), 'new');
    assert.equal(readFileSync(victim, 'utf8'), 'text');
    assert.equal(modeOf(path), 0o644);
  });
});

describe('a data folder that others could write to', () => {
  test('is used and closed where it is empty', () => {
    const path = newFolder();
    chmodSync(path, 0o777);
    prepareFolders(path);
    assert.equal(modeOf(path), 0o711);
    assert.deepEqual(unsafeInFolder(path), []);
  });

  test('is refused by name with what is in it, and stays as it is', () => {
    const path = newFolder();
    for (const name of ['a', 'b', 'c', 'd']) put(join(path, name));
    chmodSync(path, 0o775);
    const why = /can write to it \(mode 0775\), and it contains a, b, c, and 1 more\..*chmod go-w/;
    assert.throws(() => prepareFolders(path), refused(why));
    assert.throws(() => refuseOpenFolder(path), refused(why));
    assert.equal(modeOf(path), 0o775);
    assert.deepEqual(unsafeInFolder(path), [`${path}: other users can write to it (mode 0775)`]);
  });

  test('is refused where it is the folder of secrets', () => {
    const path = newFolder();
    const secrets = join(path, 'secrets');
    mkdirSync(secrets);
    put(join(secrets, 'store.db'), 0o600);
    chmodSync(secrets, 0o770);
    assert.throws(() => prepareFolders(path), refused(/secrets as data folder: .*store\.db/));
    assert.equal(modeOf(secrets), 0o770);
  });
});

test('all that others planted in a data folder is listed', { skip: needsRoot }, () => {
  const path = newFolder();
  prepareFolders(path);
  put(join(path, 'config.yaml'), 0o644, stranger);
  symlinkSync('/dev/null', join(path, 'ca.pem'));
  put(join(path, 'secrets', 'store.db'), 0o666);
  put(join(path, 'endpoints.json'));
  assert.deepEqual(unsafeInFolder(path).toSorted(), [
    `${path}/ca.pem: it is a symbolic link`,
    `${path}/config.yaml: it belongs to user 65534, and its folder to user 0`,
    `${path}/secrets/store.db: other users can write to it (mode 0666)`,
  ]);
});
