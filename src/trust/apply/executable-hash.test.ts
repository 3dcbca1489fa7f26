import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, type TestContext, test } from 'node:test';
import { Worker } from 'node:worker_threads';
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
    t.mock.method(Worker.prototype, 'postMessage', () => undefined);
    const asked = programs.map(({ pid, path }) => made.of(0, pid, versionOf(path)));
    made.stop();
    assert.deepEqual(await Promise.all(asked), [undefined, undefined, undefined]);
  });

  test('is not begun before its turn: a file that a user serves may not even open', async (t) => {
    const made = hashes(t);
    const { pid, path } = await running('unopened');
    t.mock.method(Worker.prototype, 'postMessage', () => undefined);
    const asked = made.of(0, pid, versionOf(path));
    // As long as it takes to open a file in the pool of threads that everybody shares.
    await (await open(path)).close();
    assert.ok(!openFiles().some((file) => file.includes('unopened')));
    made.stop();
    assert.equal(await asked, undefined);
  });
});
