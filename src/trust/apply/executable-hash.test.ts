import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, type TestContext, test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { systemClock } from '../../core/clock/system.ts';
import { ExecutableHashes, maxProgramBytes } from './executable-hash.ts';

const folder = mkdtempSync(join(tmpdir(), 'hansa-hash-'));
const children: ChildProcess[] = [];
after(() => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

async function running(name: string): Promise<{ readonly pid: number; readonly path: string }> {
  const path = join(folder, name);
  copyFileSync('/bin/sleep', path);
  chmodSync(path, 0o755);
  const child = spawn(path, ['600'], { stdio: 'ignore' });
  children.push(child);
  await once(child, 'spawn');
  return { pid: child.pid as number, path };
}

const versionOf = (path: string) => statSync(path, { bigint: true });

function hashes(t: TestContext): ExecutableHashes {
  const made = new ExecutableHashes(systemClock);
  t.after(() => made.stop());
  return made;
}

/** Stops the process that reads programs: whatever it is asked, it does not answer. */
async function stopReader(made: ExecutableHashes): Promise<number> {
  const before = new Set(readers());
  const { pid, path } = await running(`first-${before.size}-${children.length}`);
  assert.equal(await made.of(0, pid, versionOf(path)), expected);
  const reader = readers().find((each) => !before.has(each));
  assert.ok(reader !== undefined);
  process.kill(reader, 'SIGSTOP');
  return reader;
}

function readers(): readonly number[] {
  const own = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').split(' ');
  return own.map(Number).filter((pid) => {
    if (pid === 0) return false;
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('executable-hash-worker');
  });
}

function openFiles(): readonly string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)];
    } catch {
      // The one that the folder was read with.
      return [];
    }
  });
}

const expected = createHash('sha256').update(readFileSync('/bin/sleep')).digest('hex');

describe('the SHA-256 of the program of a process', () => {
  test('is that of the file that it runs, and is asked for once', async (t) => {
    const { pid, path } = await running('program');
    const made = hashes(t);
    const version = versionOf(path);
    const all = Array.from({ length: 10 }, () => made.of(0, pid, version));
    assert.deepEqual(new Set(await Promise.all(all)), new Set([expected]));
    // Remembered: nobody has to be there any more.
    assert.equal(await made.of(0, 999_999_999, version), expected);
  });

  test('is that of the file even where its path is gone', async (t) => {
    const { pid, path } = await running('deleted');
    rmSync(path);
    assert.equal(await hashes(t).of(0, pid, versionOf(`/proc/${pid}/exe`)), expected);
  });

  test('cannot be told where the file is another than was seen, or the process is gone', async (t) => {
    const { pid, path } = await running('touched');
    const made = hashes(t);
    const version = versionOf(path);
    utimesSync(path, 1, 1);
    assert.equal(await made.of(0, pid, version), undefined);
    assert.equal(await made.of(0, 999_999_999, version), undefined);
    assert.equal(await made.of(0, pid, versionOf('/bin/true')), undefined);
  });

  test('is not computed of a program beyond all measure', async (t) => {
    const { pid, path } = await running('huge');
    const version = { ...versionOf(path), size: maxProgramBytes + 1n };
    assert.equal(await hashes(t).of(0, pid, version), undefined);
  });

  test('of many users comes to all of them', async (t) => {
    const made = hashes(t);
    const all = await Promise.all(
      Array.from({ length: 6 }, async (_, at) => {
        const { pid, path } = await running(`many-${at}`);
        return made.of(at % 2, pid, versionOf(path));
      }),
    );
    assert.deepEqual(new Set(all), new Set([expected]));
  });

  test('is given up when the site stops', async (t) => {
    const { pid, path } = await running('stopping');
    const made = hashes(t);
    const asked = made.of(0, pid, versionOf(path));
    made.stop();
    assert.equal(await asked, undefined);
    assert.throws(() => truncateSync(path), { code: 'ETXTBSY' });
  });

  test('is given up for those too that wait for their turn', async (t) => {
    const made = hashes(t);
    const programs = await Promise.all(['turn-1', 'turn-2', 'turn-3'].map(running));
    // The first never ends, so that the others wait behind it.
    await stopReader(made);
    const asked = programs.map(({ pid, path }) => made.of(0, pid, versionOf(path)));
    made.stop();
    assert.deepEqual(await Promise.all(asked), [undefined, undefined, undefined]);
  });

  test('is not begun before its turn: a file that a user serves may not even open', async (t) => {
    const made = hashes(t);
    const { pid, path } = await running('unopened');
    await stopReader(made);
    const asked = made.of(0, pid, versionOf(path));
    // As long as it takes to open a file in the pool of threads that everybody shares.
    await (await open(path)).close();
    assert.ok(!openFiles().some((file) => file.includes('unopened')));
    made.stop();
    assert.equal(await asked, undefined);
  });

  test('of a file that is never answered for is given up, and no thread of ours waits for it', async (t) => {
    const place = join(folder, 'served');
    const turned = join(folder, 'turned');
    mkdirSync(place);
    const server = join(import.meta.dirname, 'test-served-files.ts');
    const files = spawn(process.execPath, [server, place, '/bin/sleep', turned, '0'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    children.push(files);
    const [said] = (await once(files.stdout, 'data')) as [Buffer];
    if (said.toString() !== 'mounted\n') {
      t.skip('this machine does not let us mount FUSE');
      return;
    }
    t.after(async () => {
      const over = once(files, 'close');
      files.kill('SIGKILL');
      await over;
      spawnSync('umount', ['-l', place]);
    });
    const clock = new VirtualClock();
    const made = new ExecutableHashes(clock);
    t.after(() => made.stop());
    const served = spawn(join(place, 'program'), ['600'], { stdio: 'ignore' });
    children.push(served);
    await once(served, 'spawn');
    const pid = served.pid as number;
    const version = versionOf(`/proc/${pid}/exe`);
    writeFileSync(turned, '');
    const held = once(files.stdout, 'data');
    const asked = made.of(1000, pid, version);
    await held;
    const stuck = readers();
    await clock.advance(30_000);
    assert.equal(await asked, undefined);
    // It cannot end, so the same user is not read for again; others are.
    assert.equal(await made.of(1000, pid, version), undefined);
    assert.deepEqual(readers(), stuck);
    const other = await running('other');
    assert.equal(await made.of(1001, other.pid, versionOf(other.path)), expected);
    const states = readdirSync('/proc/self/task').map((task) =>
      readFileSync(`/proc/self/task/${task}/stat`, 'utf8').replace(/^.*\) (.).*$/s, '$1'),
    );
    assert.ok(!states.includes('D'), states.join(''));
  });
});
