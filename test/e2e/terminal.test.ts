// A terminal keeps its mode, whatever a command does and however it ends. The terminals are real.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { constants, createReadStream, openSync, closeSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';
import koffi from 'koffi';
import {
  hansa,
  launcher,
  repository,
  startDaemon,
  startProgram,
  temporaryFolder,
} from './daemon.ts';
import { succeeds } from './cli-outcome.ts';

const libc = koffi.load(null);
const unlock = libc.func('int unlockpt(int fd)') as (fd: number) => number;
const nameOf = libc.func('const char *ptsname(int fd)') as (fd: number) => string;

/** A new terminal, which is the controlling terminal of nobody. */
function openTerminal() {
  const flags = constants.O_RDWR | constants.O_NOCTTY;
  const master = openSync('/dev/ptmx', flags);
  assert.equal(unlock(master), 0);
  const path = nameOf(master);
  // Without it, the terminal hangs up between two programs.
  const held = openSync(path, flags);
  const stty = (...args: string[]) =>
    execFileSync('stty', ['-F', path, ...args], { encoding: 'utf8' }).trim();
  let shown = '';
  const screen = createReadStream('', { fd: master, autoClose: false, encoding: 'utf8' });
  const shows = (text: string) =>
    new Promise<void>((resolve) => {
      screen.on('data', (more) => {
        shown += String(more);
        if (shown.includes(text)) resolve();
      });
    });
  // A read of the terminal ends with EIO when the last program has closed it.
  screen.on('error', () => undefined);
  return {
    mode: () => stty('-g'),
    set: (...args: string[]) => void stty(...args),
    shows,
    /** The words before a command that reads from the terminal, and that shows its notes there. */
    within: ['sh', '-c', `exec "$@" <${path} 2<>${path}`, 'sh'] as const,
    stdinOnly: ['sh', '-c', `exec "$@" <${path}`, 'sh'] as const,
    close: () => {
      closeSync(held);
      closeSync(master);
    },
  };
}

suite('the terminal', () => {
  const dataDir = temporaryFolder();
  const terminal = openTerminal();
  let site: Awaited<ReturnType<typeof startDaemon>>;

  before(async () => {
    // A shell that waits for a line has no echo. It starts a site in the background.
    terminal.set('-echo', '-icanon');
    site = await startDaemon(dataDir, [], {}, terminal.stdinOnly);
    terminal.set('echo', 'icanon');
  });
  after(async () => {
    await site?.signal('SIGKILL');
    terminal.close();
  });

  const removal = async () => {
    const shown = terminal.shows('Remove prod?');
    const [command, ...words] = terminal.within;
    const args = [...words, launcher, 'cluster', 'remove', 'prod', '--data-dir', dataDir];
    const asking = startProgram(command, args);
    await shown;
    return asking;
  };

  test('has its mode again when a command ends at its question', async () => {
    const cluster = `${repository}/examples/gitops/cluster.yaml`;
    await succeeds(hansa(['apply', '-f', cluster, '--data-dir', dataDir]));
    const mode = terminal.mode();
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      const asking = await removal();
      assert.notEqual(terminal.mode(), mode, 'the question does not read keys');
      assert.notEqual(await asking.signal(signal), 0);
      assert.equal(terminal.mode(), mode);
    }
  });

  test('keeps the mode that it has when a site in the background is stopped', async () => {
    const mode = terminal.mode();
    assert.equal(await site.signal('SIGTERM'), 0);
    assert.equal(terminal.mode(), mode);
  });
});
