import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { type OnRenewal, onRenewal, parseSignal, type RenewalPlan } from './on-renewal.ts';

let cwd: string;
let notes: string[];

beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), 'hansa-renewal-'));
  notes = [];
});
afterEach(() => rmSync(cwd, { recursive: true }));

function make(plan: Partial<RenewalPlan>): OnRenewal {
  const made = onRenewal({ cwd, note: (text) => notes.push(text), ...plan });
  assert.ok(made !== undefined);
  return made;
}

/** Resolves when the file in the folder says so. */
function said(file: string, text: string): Promise<void> {
  const path = join(cwd, file);
  const is = (): boolean => existsSync(path) && readFileSync(path, 'utf8') === text;
  return new Promise((resolve) => {
    if (is()) {
      resolve();
      return;
    }
    const watcher = watch(cwd, () => {
      if (!is()) return;
      watcher.close();
      resolve();
    });
    // It may have been written before the watch stood.
    if (is()) {
      watcher.close();
      resolve();
    }
  });
}

suite('on renewal', () => {
  test('nothing is done where nothing is asked for', () => {
    assert.equal(onRenewal({ cwd, note: () => undefined }), undefined);
  });

  test('a command runs after each one, and once more for all that came meanwhile', async () => {
    const renewal = make({
      command: 'echo x >> runs; while [ ! -e go ]; do sleep 0.01; done',
    });
    renewal.renewed();
    await said('runs', 'x\n');
    renewal.renewed();
    renewal.renewed();
    renewal.renewed();
    writeFileSync(join(cwd, 'go'), '');
    await said('runs', 'x\nx\n');
    await renewal.stop();
    assert.equal(readFileSync(join(cwd, 'runs'), 'utf8'), 'x\nx\n');
    assert.deepEqual(notes, []);
  });

  test('stopping waits for the command and for the run that still waits for it', async () => {
    const renewal = make({
      command: 'echo x >> runs; while [ -e runs ] && [ ! -e go ]; do sleep 0.01; done',
    });
    renewal.renewed();
    await said('runs', 'x\n');
    renewal.renewed();
    const stopped = renewal.stop();
    writeFileSync(join(cwd, 'go'), '');
    await stopped;
    assert.equal(readFileSync(join(cwd, 'runs'), 'utf8'), 'x\nx\n');
  });

  test('a command that fails is told, and runs again at the next one', async () => {
    const renewal = make({ command: 'echo x >> runs; exit 3' });
    renewal.renewed();
    await renewal.stop();
    assert.deepEqual(notes, ['"echo x >> runs; exit 3" ended with exit code 3.']);
    renewal.renewed();
    await renewal.stop();
    assert.equal(readFileSync(join(cwd, 'runs'), 'utf8'), 'x\nx\n');
  });

  test('with a signal the program is started once, signalled, and ended at the end', async () => {
    const renewal = make({
      command: "trap 'echo hup >> log' HUP; echo ready >> log; while :; do sleep 0.01; done",
      signal: 'SIGHUP',
    });
    renewal.renewed();
    await said('log', 'ready\n');
    renewal.renewed();
    await said('log', 'ready\nhup\n');
    await renewal.stop();
    assert.match(notes.join(), /ended with signal SIGTERM/);
  });

  test('a program that ended by itself is started again at the next one', async () => {
    const renewal = make({ command: 'echo ran >> log', signal: 'SIGHUP' });
    renewal.renewed();
    await said('log', 'ran\n');
    while (notes.length === 0) await new Promise((resolve) => setImmediate(resolve));
    renewal.renewed();
    await said('log', 'ran\nran\n');
    await renewal.stop();
  });

  test('the process of a pid file is signalled', async () => {
    const got = new Promise((resolve) => process.once('SIGHUP', resolve));
    writeFileSync(join(cwd, 'pid'), `${process.pid}\n`);
    make({ pidFile: join(cwd, 'pid'), signal: 'SIGHUP' }).renewed();
    await got;
    assert.deepEqual(notes, []);
  });

  for (const text of ['', '0', '1', '-5', 'nginx', '12 13', '99999999999']) {
    test(`a pid file of ${JSON.stringify(text)} signals nobody`, () => {
      writeFileSync(join(cwd, 'pid'), text);
      make({ pidFile: join(cwd, 'pid'), signal: 'SIGTERM' }).renewed();
      assert.match(notes.join(), /contains no process ID/);
    });
  }

  test('a pid file that is missing is told', () => {
    make({ pidFile: join(cwd, 'pid') }).renewed();
    assert.match(notes.join(), /Cannot signal the process of .*ENOENT/);
  });
});

suite('signals', () => {
  for (const text of ['HUP', 'SIGHUP', 'hup']) {
    test(`${text} is SIGHUP`, () => {
      assert.equal(parseSignal(text), 'SIGHUP');
    });
  }
  for (const text of ['', 'NOPE', '1', 'constructor', 'SIGSIGHUP']) {
    test(`${JSON.stringify(text)} is refused`, () => {
      assert.throws(() => parseSignal(text), { code: 'HANSA_USAGE' });
    });
  }
});
