import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FairTurns } from '../../../core/limits/fair-turns.ts';
import { yieldToEventLoop } from '../../../core/clock/yield-to-event-loop.ts';
import { frame, frameType, preface } from '../../../core/rpc/test-frames.ts';
import { TurnTakingSocket } from './turn-taking-socket.ts';

/** Both ends of a connection over a Unix socket. */
async function pair(t: TestContext): Promise<{ near: Socket; far: Socket }> {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-turns-'));
  const server = createServer({ pauseOnConnect: true, highWaterMark: 1 });
  server.listen(join(folder, 's'));
  await once(server, 'listening');
  const far = connect(join(folder, 's'));
  const [near] = (await once(server, 'connection')) as [Socket];
  for (const socket of [near, far]) socket.on('error', () => undefined);
  t.after(() => {
    near.destroy();
    far.destroy();
    server.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return { near, far };
}

const resets = (count: number): Buffer =>
  Buffer.concat([
    preface,
    ...Array.from({ length: count }, () => frame(frameType.reset, 0, 1, Buffer.alloc(4))),
  ]);

test('one connection of a user is read while a hundred of another user have much to read', async (t) => {
  const turns = new FairTurns<string>();
  const bytesRead = { busy: 0, quiet: 0 };
  const open = async (user: keyof typeof bytesRead): Promise<Socket> => {
    const { near, far } = await pair(t);
    const socket = new TurnTakingSocket(near, {
      turn: (task) => turns.enter(user, task),
      hold: () => true,
      flooded: () => undefined,
    });
    socket.on('data', (bytes: Buffer) => {
      bytesRead[user] += bytes.length;
    });
    return far;
  };
  const busy = await Promise.all(Array.from({ length: 100 }, () => open('busy')));
  const quiet = await open('quiet');
  const all = resets(4_000);
  for (const far of busy) far.write(all);
  while (bytesRead.busy === 0) await yieldToEventLoop();
  const before = bytesRead.busy;
  const one = resets(1);
  quiet.write(one);
  let rounds = 0;
  while (bytesRead.quiet < one.length) {
    await yieldToEventLoop();
    rounds++;
  }
  // In each round of the event loop, one slice of at most 16 frames, whichever connection it is of.
  assert.ok(
    bytesRead.busy - before <= (rounds + 1) * (16 * 13 + preface.length),
    `${bytesRead.busy}`,
  );
  while (bytesRead.busy < 100 * all.length) await yieldToEventLoop();
});

test('bytes that wait for a turn count for their user, until they are read or the connection ends', async (t) => {
  const { near, far } = await pair(t);
  let held = 0;
  const tasks: (() => void)[] = [];
  const socket = new TurnTakingSocket(near, {
    turn: (task) => tasks.push(task),
    hold: (bytes) => {
      held += bytes;
      return true;
    },
    flooded: () => undefined,
  });
  let read = 0;
  socket.on('data', (bytes: Buffer) => {
    read += bytes.length;
  });
  const all = resets(100);
  far.write(all);
  while (held < all.length) await yieldToEventLoop();
  assert.equal(read, 0);
  tasks.shift()?.();
  assert.ok(read > 0 && read < all.length);
  assert.equal(held, all.length - read);
  far.destroy();
  await once(near, 'close');
  for (const task of tasks) task();
  await once(socket, 'close');
  assert.equal(held, 0);
});

test('a connection whose bytes are too many for its user ends at once', async (t) => {
  const { near, far } = await pair(t);
  let held = 0;
  let floods = 0;
  const socket = new TurnTakingSocket(near, {
    turn: (task) => task(),
    hold: (bytes) => {
      held += bytes;
      return held <= 100;
    },
    flooded: () => floods++,
  });
  far.write(resets(100));
  await once(socket, 'close');
  assert.equal(floods, 1);
  assert.equal(held, 0);
});

test('what is written arrives, and both ends close', async (t) => {
  const { near, far } = await pair(t);
  const socket = new TurnTakingSocket(near, {
    turn: (task) => task(),
    hold: () => true,
    flooded: () => undefined,
  });
  socket.resume();
  let came = 0;
  far.on('data', (bytes) => {
    came += bytes.length;
  });
  socket.end(Buffer.alloc(300_000));
  await once(far, 'close');
  assert.equal(came, 300_000);
  if (!socket.destroyed) await once(socket, 'close');
});
