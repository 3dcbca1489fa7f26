// Ctrl-C ends every command in the same way: exit code 130 and no output. The test uses a site that
// never answers, so each command is interrupted while it waits.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { launcher, repository, startDaemon, temporaryFolder } from './daemon.ts';
import { until } from './until.ts';

interface Ended {
  /** The exit code, or the signal that killed the process. */
  readonly end: number | string;
  readonly printed: string;
}

const dataDir = temporaryFolder();
const connections = new Set<Socket>();
let site: Server;

before(async () => {
  site = createServer((socket) => {
    connections.add(socket.on('error', () => undefined));
  }).listen(join(dataDir, 'admin.sock'));
  await once(site, 'listening');
});
after(() => {
  for (const socket of connections) socket.destroy();
  site.close();
});

/** Sends the signal once the command has called the site. */
function interrupted(args: readonly string[], signal?: NodeJS.Signals): Promise<Ended> {
  const called = once(site, 'connection');
  return interruptedAfter(args, () => called, signal);
}

async function interruptedAfter(
  args: readonly string[],
  busy: () => Promise<unknown>,
  signal: NodeJS.Signals = 'SIGINT',
): Promise<Ended> {
  const child = spawn(launcher, [...args, '--data-dir', dataDir], {
    cwd: repository,
    env: { PATH: process.env['PATH'], HOME: dataDir },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
    });
  }
  const ended = once(child, 'close') as Promise<[number | null, string | null]>;
  await Promise.race([busy(), ended]);
  child.kill(signal);
  const [code, killedBy] = await ended;
  return { end: code ?? killedBy ?? '', printed };
}

suite('Ctrl-C', () => {
  const commands: readonly (readonly string[])[] = [
    ['get', 'sites'],
    ['watch', 'roles'],
    ['wait', 'site/site', '--for=condition=Ready', '--timeout=1h'],
    ['status'],
    ['whoami'],
    ['audit', 'verify'],
    ['audit', 'export', '--file', join(dataDir, 'export')],
    ['apply', '-f', 'examples/access'],
    ['peer', 'list'],
    ['trust', 'rotate', '--yes'],
    ['doctor'],
  ];
  for (const args of commands) {
    test(`ends hansa ${args.slice(0, 2).join(' ')} with 130, and nothing is printed`, async () => {
      assert.deepEqual(await interrupted(args), { end: 130, printed: '' });
    });
  }

  test('in the middle of an export leaves no file', async () => {
    const file = join(dataDir, 'half');
    const args = ['audit', 'export', '--file', file];
    const called = once(site, 'connection');
    const ended = interruptedAfter(args, async () => {
      const [socket] = (await called) as [Socket];
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n');
      await until(() => existsSync(file) && statSync(file).size > 0);
    });
    assert.deepEqual(await ended, { end: 130, printed: '' });
    assert.equal(existsSync(file), false);
  });

  test('stops a site in order, with 0', async () => {
    const daemon = await startDaemon(join(temporaryFolder(), 'lubeck'));
    assert.equal(await daemon.signal('SIGINT'), 0);
  });
});

suite('SIGTERM', () => {
  test('ends a command that was not done with 143', async () => {
    assert.deepEqual(await interrupted(['get', 'sites'], 'SIGTERM'), { end: 143, printed: '' });
    assert.deepEqual(await interrupted(['watch', 'roles'], 'SIGTERM'), { end: 143, printed: '' });
  });
});
