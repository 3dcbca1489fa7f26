import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { open, realpath } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { VirtualClock } from '../../clock/virtual.ts';
import { withErrorCode } from '../../store/conformance/harness.ts';
import { CredentialFiles, type FileAccess } from './credential-files.ts';

const unavailable = withErrorCode('HANSA_UNAVAILABLE');

function scene(t: TestContext, access?: FileAccess) {
  const base = mkdtempSync(join(tmpdir(), 'hansa-credentials-'));
  t.after(() => rmSync(base, { recursive: true, force: true }));
  const folder = join(base, 'clusters');
  mkdirSync(join(folder, 'app1'), { recursive: true });
  writeFileSync(join(base, 'secret'), 'a file of the daemon');
  const clock = new VirtualClock();
  return { base, folder, clock, files: new CredentialFiles(folder, clock, access) };
}

suite('a file below the folder', () => {
  test('is read', async (t) => {
    const { folder, files } = scene(t);
    writeFileSync(join(folder, 'app1/token'), 'one');
    assert.equal(await files.at('app1/token').text(), 'one');
  });

  test('is used without a look for 5 seconds, and read again after a change', async (t) => {
    const { folder, clock, files } = scene(t);
    const path = join(folder, 'app1/token');
    writeFileSync(path, 'one');
    const file = files.at('app1/token');
    assert.equal(await file.text(), 'one');
    writeFileSync(`${path}.new`, 'two');
    renameSync(`${path}.new`, path);
    assert.equal(file.text(), 'one');
    await clock.advance(5_000);
    assert.equal(await file.text(), 'two');
    // Now without a promise.
    assert.equal(file.text(), 'two');
  });

  test('is looked at after a second if its content was rejected', async (t) => {
    const { folder, clock, files } = scene(t);
    const path = join(folder, 'app1/token');
    writeFileSync(path, 'one');
    const file = files.at('app1/token');
    await file.text();
    writeFileSync(path, 'other');
    file.doubt();
    assert.equal(file.text(), 'one');
    await clock.advance(1_000);
    assert.equal(await file.text(), 'other');
  });

  test('ends when it is removed, and works again when it is back', async (t) => {
    const { folder, clock, files } = scene(t);
    const path = join(folder, 'app1/token');
    writeFileSync(path, 'one');
    const file = files.at('app1/token');
    await file.text();
    rmSync(path);
    await clock.advance(5_000);
    await assert.rejects(async () => file.text(), unavailable);
    writeFileSync(path, 'two');
    await clock.advance(1_000);
    assert.equal(await file.text(), 'two');
  });

  test('is read through the links of a projected volume, which are swapped', async (t) => {
    const { folder, clock, files } = scene(t);
    const volume = join(folder, 'app1');
    for (const [name, token] of [
      ['..2026_01', 'one'],
      ['..2026_02', 'two'],
    ] as const) {
      mkdirSync(join(volume, name));
      writeFileSync(join(volume, name, 'token'), token);
    }
    symlinkSync('..2026_01', join(volume, '..data'));
    symlinkSync('..data/token', join(volume, 'token'));
    const file = files.at('app1/token');
    assert.equal(await file.text(), 'one');
    symlinkSync('..2026_02', join(volume, '..new'));
    renameSync(join(volume, '..new'), join(volume, '..data'));
    rmSync(join(volume, '..2026_01'), { recursive: true });
    await clock.advance(5_000);
    assert.equal(await file.text(), 'two');
  });

  test('may be in a folder that is itself a link', async (t) => {
    const { base, folder, clock } = scene(t);
    writeFileSync(join(folder, 'app1/token'), 'one');
    symlinkSync(folder, join(base, 'link'));
    const files = new CredentialFiles(join(base, 'link'), clock);
    assert.equal(await files.at('app1/token').text(), 'one');
  });
});

suite('refused', () => {
  const bad = [
    '../secret',
    'app1/../../secret',
    '/etc/passwd',
    '',
    '.',
    'app1/',
    'app1//x',
    'a\0b',
  ];
  for (const path of bad) {
    test(`is the path ${JSON.stringify(path)}`, async (t) => {
      const { files } = scene(t);
      await assert.rejects(async () => files.at(path).text(), unavailable);
    });
  }

  test('is every path without a folder', async () => {
    const files = new CredentialFiles(undefined, new VirtualClock());
    await assert.rejects(async () => files.at('token').text(), /auth\.credentialsDir/);
  });

  test('is a link that leaves the folder, to a file or to a folder', async (t) => {
    const { base, folder, files } = scene(t);
    symlinkSync('../../secret', join(folder, 'app1/token'));
    symlinkSync(base, join(folder, 'out'));
    for (const path of ['app1/token', 'out/secret']) {
      await assert.rejects(async () => files.at(path).text(), /leads out of the folder/);
    }
  });

  test('is a folder beside that begins with the same name', async (t) => {
    const { base, folder, files } = scene(t);
    mkdirSync(`${folder}-other`);
    writeFileSync(join(base, 'clusters-other/token'), 'not mine');
    symlinkSync(`${folder}-other`, join(folder, 'other'));
    await assert.rejects(async () => files.at('other/token').text(), /leads out of the folder/);
  });

  test('is a circle of links', async (t) => {
    const { folder, files } = scene(t);
    symlinkSync('b', join(folder, 'a'));
    symlinkSync('a', join(folder, 'b'));
    await assert.rejects(async () => files.at('a').text(), unavailable);
  });

  test('is a folder, and a FIFO without waiting for a writer', async (t) => {
    const { folder, files } = scene(t);
    execFileSync('mkfifo', [join(folder, 'fifo')]);
    for (const path of ['app1', 'fifo']) {
      await assert.rejects(async () => files.at(path).text(), /not a regular file/);
    }
  });

  test('is a device', async (t) => {
    const { folder, files } = scene(t);
    symlinkSync('/dev/zero', join(folder, 'zero'));
    await assert.rejects(async () => files.at('zero').text(), /leads out of the folder/);
  });

  test('is a huge file', async (t) => {
    const { folder, files } = scene(t);
    writeFileSync(join(folder, 'huge'), Buffer.alloc(1024 * 1024 + 1, 97));
    await assert.rejects(async () => files.at('huge').text(), /more than 1048576 bytes/);
  });

  test('is a file that does not exist', async (t) => {
    const { files } = scene(t);
    await assert.rejects(async () => files.at('app1/token').text(), /there is no such file/);
  });
});

suite('between the check and the opening', () => {
  test('the file becomes a link that leaves the folder', async (t) => {
    const raced = scene(t, {
      realpath,
      open: (path, flags) => {
        if (path.endsWith('token')) {
          rmSync(path);
          symlinkSync(join(raced.base, 'secret'), path);
        }
        return open(path, flags);
      },
    });
    writeFileSync(join(raced.folder, 'app1/token'), 'one');
    await assert.rejects(async () => raced.files.at('app1/token').text(), unavailable);
  });

  test('a folder of the path becomes a link that leaves the folder', async (t) => {
    const raced = scene(t, {
      realpath,
      open: (path, flags) => {
        mkdirSync(join(raced.base, 'elsewhere'));
        writeFileSync(join(raced.base, 'elsewhere/token'), 'a file of the daemon');
        rmSync(join(raced.folder, 'app1'), { recursive: true });
        symlinkSync(join(raced.base, 'elsewhere'), join(raced.folder, 'app1'));
        return open(path, flags);
      },
    });
    writeFileSync(join(raced.folder, 'app1/token'), 'one');
    await assert.rejects(
      async () => raced.files.at('app1/token').text(),
      /leads out of the folder/,
    );
  });

  test('the file is replaced: the new one is read', async (t) => {
    let isFirst = true;
    const raced = scene(t, {
      realpath,
      open: async (path, flags) => {
        const file = await open(path, flags);
        if (isFirst) {
          isFirst = false;
          rmSync(path);
          writeFileSync(path, 'two');
        }
        return file;
      },
    });
    writeFileSync(join(raced.folder, 'app1/token'), 'one');
    assert.equal(await raced.files.at('app1/token').text(), 'two');
  });
});
