import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, type TestContext, test } from 'node:test';
import { systemRandom } from '../../core/clock/system.ts';
import { JoinFolder } from './join-folder.ts';
import { writeSvidFiles } from './svid-files.ts';

const minted = { certificate: 'CERTIFICATE', privateKey: 'KEY', bundle: 'BUNDLE' };

function folderOf(context: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-svid-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

suite('an SVID that is written into a folder', () => {
  test('replaces the one before it, and makes the folder', (context) => {
    const folder = join(folderOf(context), 'deep', 'tls');
    writeSvidFiles(folder, minted);
    writeSvidFiles(folder, { ...minted, certificate: 'ANOTHER' });
    assert.equal(readFileSync(join(folder, 'svid.pem'), 'utf8'), 'ANOTHER');
    assert.equal(statSync(join(folder, 'svid.key')).mode % 0o1000, 0o600);
    assert.deepEqual(readdirSync(folder).toSorted(), ['bundle.pem', 'svid.key', 'svid.pem']);
  });

  test('by hand leaves every other file, also bundles of other trust domains', (context) => {
    const folder = folderOf(context);
    writeFileSync(join(folder, 'federated.bruges.example.pem'), 'theirs');
    writeFileSync(join(folder, 'notes'), 'mine');
    writeSvidFiles(folder, minted);
    assert.equal(readFileSync(join(folder, 'federated.bruges.example.pem'), 'utf8'), 'theirs');
    assert.equal(readFileSync(join(folder, 'notes'), 'utf8'), 'mine');
  });

  test('that follows a workload removes bundles that the site trusts no more', (context) => {
    const folder = folderOf(context);
    const federated = new Map([['spiffe://bruges.example', 'BRUGES']]);
    writeSvidFiles(folder, { ...minted, federated });
    assert.ok(existsSync(join(folder, 'federated.bruges.example.pem')));
    writeSvidFiles(folder, { ...minted, federated: new Map() });
    assert.equal(existsSync(join(folder, 'federated.bruges.example.pem')), false);
  });

  test('leaves no file and no folder where it fails', (context) => {
    const base = folderOf(context);
    const bad = { ...minted, federated: new Map([['spiffe://a/b', 'slash']]) };
    assert.throws(() => writeSvidFiles(join(base, 'new', 'tls'), bad), /Cannot write the SVID/);
    assert.deepEqual(readdirSync(base), []);
  });

  test('leaves what was there where it fails', (context) => {
    const folder = folderOf(context);
    writeSvidFiles(folder, minted);
    rmSync(join(folder, 'bundle.pem'));
    mkdirSync(join(folder, 'bundle.pem'));
    assert.throws(() => writeSvidFiles(folder, { ...minted, privateKey: 'NEW' }), /is a folder/);
    assert.equal(readFileSync(join(folder, 'svid.key'), 'utf8'), 'KEY');
    assert.deepEqual(readdirSync(folder).toSorted(), ['bundle.pem', 'svid.key', 'svid.pem']);
  });

  test('does not take the folder of a member', (context) => {
    const folder = folderOf(context);
    writeFileSync(join(folder, 'join.json'), '{}');
    assert.throws(() => writeSvidFiles(folder, minted), /belongs to hansa join/);
    assert.deepEqual(readdirSync(folder), ['join.json']);
  });
});

suite('the folder of a member', () => {
  test('is made with its first file, and goes again with a refusal', async (context) => {
    const path = join(folderOf(context), 'a', 'identity');
    const folder = new JoinFolder(path);
    assert.equal(folder.membership, undefined);
    assert.equal(existsSync(path), false);
    await folder.nextKey(systemRandom);
    assert.deepEqual(readdirSync(path), ['svid.key.next']);
    folder.abandonKey();
    assert.equal(existsSync(join(path, '..')), false);
  });

  test('keeps the key of an earlier attempt, whose answer may have been lost', async (context) => {
    const path = join(folderOf(context), 'identity');
    await new JoinFolder(path).nextKey(systemRandom);
    const again = new JoinFolder(path);
    await again.nextKey(systemRandom);
    again.abandonKey();
    assert.deepEqual(readdirSync(path), ['svid.key.next']);
  });
});
