import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { controlGroupOf } from '../workload/entries/control-group.ts';
import { workloadProcess } from '../workload/entries/workload-process.ts';
import { type PeerProcess, peerProcess } from './peer-credentials.ts';

const folder = mkdtempSync(join(tmpdir(), 'hansa-peer-'));
const path = join(folder, 'test.sock');
let server: Server;

before(async () => {
  server = createServer().listen(path);
  await once(server, 'listening');
});
after(() => {
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Connects, says so by a byte, and then does what the rest of the script says. */
const script = (rest: string): string =>
  `const s = require('node:net').connect(${JSON.stringify(path)}, () => { s.write('x'); ${rest} });`;

async function connected(rest: string, program = process.execPath) {
  const arrival = once(server, 'connection') as Promise<[Socket]>;
  const child = spawn(program, ['-e', script(rest)], { stdio: 'ignore' });
  const [socket] = await arrival;
  socket.on('error', () => undefined);
  return { child, socket, fd: descriptorOf(socket) };
}

function descriptorOf(socket: Socket): number {
  const { _handle: handle } = socket as unknown as { readonly _handle: { readonly fd: number } };
  return handle.fd;
}

const openFiles = (): number => readdirSync('/proc/self/fd').length;

for (const heldBy of ['socket', 'pid'] as const) {
  test(`a process that is held by its ${heldBy} is told by the kernel`, async () => {
    const { child, socket, fd } = await connected('');
    const peer = peerProcess(fd, heldBy);
    assert.equal(peer.uid, process.getuid?.());
    assert.equal(peer.gid, process.getgid?.());
    assert.equal(peer.pid, child.pid);
    assert.equal(peer.path, process.execPath);
    assert.ok(peer.isSame());
    child.kill('SIGKILL');
    await once(child, 'exit');
    assert.ok(!peer.isSame());
    assert.throws(() => peerProcess(fd, heldBy), { code: 'HANSA_UNAUTHENTICATED' });
    peer.close();
    socket.destroy();
  });
}

describe('the process at the other end of a socket', () => {
  test('is nobody any more once it has ended', async () => {
    const { child, socket, fd } = await connected('');
    child.kill('SIGKILL');
    await once(child, 'exit');
    assert.throws(() => peerProcess(fd), { code: 'HANSA_UNAUTHENTICATED' });
    socket.destroy();
  });

  test('has no path where its executable was deleted or replaced', async () => {
    const program = join(folder, 'program');
    copyFileSync(process.execPath, program);
    const { child, socket, fd } = await connected('', program);
    const seen: (string | undefined)[] = [];
    const look = (): void => {
      const peer: PeerProcess = peerProcess(fd);
      seen.push(peer.path);
      peer.close();
    };
    look();
    rmSync(program);
    look();
    copyFileSync('/bin/true', program);
    look();
    assert.deepEqual(seen, [program, undefined, undefined]);
    child.kill('SIGKILL');
    await once(child, 'exit');
    socket.destroy();
  });

  test('is another once it runs another program', async () => {
    const arrival = once(server, 'connection') as Promise<[Socket]>;
    // The descriptor goes through exec, which no runtime does by itself.
    const perl = `use Socket; $^F = 99; socket(my $s, PF_UNIX, SOCK_STREAM, 0);
      connect($s, sockaddr_un($ARGV[0])) or die; <STDIN>; exec('/bin/sleep', '60');`;
    const child = spawn('perl', ['-e', perl, path], { stdio: ['pipe', 'ignore', 'inherit'] });
    const [socket] = await arrival;
    const peer = peerProcess(descriptorOf(socket));
    assert.match(peer.path ?? '', /perl/);
    assert.ok(peer.isSame());
    child.stdin.end('go\n');
    while (peer.isSame()) await new Promise((resolve) => setImmediate(resolve));
    const again = peerProcess(descriptorOf(socket));
    assert.equal(again.pid, peer.pid);
    again.close();
    peer.close();
    child.kill('SIGKILL');
    await once(child, 'exit');
    socket.destroy();
  });

  test('costs a descriptor until it is closed, and none after', async () => {
    const { child, socket, fd } = await connected('');
    const held = openFiles();
    const peers = Array.from({ length: 10 }, () => peerProcess(fd));
    assert.equal(openFiles(), held + 10);
    for (const peer of peers) {
      peer.close();
      peer.close();
      assert.ok(!peer.isSame());
    }
    assert.equal(openFiles(), held);
    child.kill('SIGKILL');
    await once(child, 'exit');
    socket.destroy();
  });

  test('is in the groups that it had when it connected', async (t) => {
    if (process.getuid?.() !== 0) {
      t.skip('only root can start a process with other groups');
      return;
    }
    const arrival = once(server, 'connection') as Promise<[Socket]>;
    chmodSync(folder, 0o755);
    chmodSync(path, 0o666);
    const child = spawn(
      'setpriv',
      ['--reuid=1000', '--regid=1000', '--groups=27,2000', process.execPath, '-e', script('')],
      { stdio: 'ignore' },
    );
    t.after(() => child.kill('SIGKILL'));
    const [socket] = await arrival;
    const peer = peerProcess(descriptorOf(socket));
    t.after(() => peer.close());
    assert.deepEqual([peer.uid, peer.gid], [1000, 1000]);
    assert.deepEqual(new Set(peer.groups), new Set([27, 2000]));
    socket.destroy();
  });

  test('is in the control group that the kernel has it in', async (t) => {
    const hierarchy = ['/sys/fs/cgroup/systemd', '/sys/fs/cgroup'].find((one) =>
      existsSync(join(one, 'cgroup.procs')),
    );
    const unit = `hansa-test-${process.pid}.service`;
    const group = join(hierarchy ?? '', unit);
    try {
      mkdirSync(group);
    } catch {
      t.skip('no control group can be made here');
      return;
    }
    const { child, socket, fd } = await connected('');
    try {
      writeFileSync(join(group, 'cgroup.procs'), String(child.pid));
      const peer = peerProcess(fd);
      peer.close();
      assert.equal(controlGroupOf(peer.controlGroups ?? ''), `/${unit}`);
      const { selectors } = workloadProcess(peer, {
        hashes: { of: () => Promise.resolve(undefined) },
        users: { nameOf: () => undefined },
        groups: { nameOf: () => undefined },
      });
      assert.ok(selectors.includes(`systemd:id:${unit}`), selectors.join(' '));
      assert.ok(selectors.includes(`cgroup:/${unit}`));
    } finally {
      child.kill('SIGKILL');
      await once(child, 'exit');
      socket.destroy();
      rmdirSync(group);
    }
  });

  test('is nobody where its number stands for everybody whom the site does not know', async () => {
    const { child, socket, fd } = await connected('');
    const files = openFiles();
    assert.throws(() => peerProcess(fd, 'socket', process.getuid?.()), {
      code: 'HANSA_UNAUTHENTICATED',
      message: /does not exist in the user namespace/,
    });
    assert.equal(openFiles(), files);
    child.kill('SIGKILL');
    socket.destroy();
  });

  test('is told without a question to a user who serves its program', async (t) => {
    const place = join(folder, 'served');
    const turned = join(folder, 'turned');
    mkdirSync(place);
    const program = join(import.meta.dirname, 'test-served-files.ts');
    const args = [program, place, process.execPath, turned, String(process.pid)];
    const files = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    let said = '';
    files.stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
    const over = once(files, 'close');
    await Promise.race([once(files.stdout, 'data'), over]);
    if (!said.includes('mounted')) {
      t.skip('this machine does not let us mount FUSE');
      return;
    }
    try {
      const { child, socket, fd } = await connected('', join(place, 'program'));
      writeFileSync(turned, '');
      const peer = peerProcess(fd);
      const isSame = peer.isSame();
      peer.close();
      child.kill('SIGKILL');
      socket.destroy();
      assert.equal(said, 'mounted\n');
      assert.ok(isSame);
      assert.ok(peer.executable);
      assert.equal(peer.path, undefined);
    } finally {
      spawnSync('umount', ['-l', place]);
      files.kill('SIGKILL');
      await over;
    }
    // What it said before it ended is here by now.
    assert.equal(said, 'mounted\n');
  });

  test('cannot be asked of what is no socket', () => {
    const file = openSync('/dev/null', 'r');
    assert.throws(() => peerProcess(file), { code: 'HANSA_UNAUTHENTICATED' });
    closeSync(file);
    assert.throws(() => peerProcess(999_999), { code: 'HANSA_UNAUTHENTICATED' });
  });
});
