import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { connect as connectHttp2, createServer as createHttp2Server } from 'node:http2';
import { type AddressInfo, connect, type Server, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import type { Response } from './exchange.ts';
import { UnreadAnswers } from './unread-answers.ts';

const withinMs = 60_000;
/** More than the kernel's buffers hold. */
const large = Buffer.alloc(32 * 1024 * 1024, '.');

const closing: (() => void)[] = [];
after(() => {
  for (const close of closing.toReversed()) close();
});

/** A server that gives the answers; `answered` tells of each as it is held. */
async function scene(answers: readonly Buffer[], http2 = false) {
  const clock = new VirtualClock();
  const unread = new UnreadAnswers(clock, withinMs);
  let left = 0;
  let given = 0;
  const held: (() => void)[] = [];
  const handler = (_request: unknown, response: Response): void => {
    (response as ServerResponse).end(answers[given]);
    given += 1;
    unread.hold(response, () => {
      left += 1;
      for (const look of held) look();
    });
    for (const look of held) look();
  };
  const server: Server = http2 ? createHttp2Server(handler) : createServer(handler);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => server.close());
  /** Resolves when so many answers were given, and so many callers have left. */
  const until = (wanted: { given: number; left: number }): Promise<void> =>
    new Promise((resolve) => {
      const look = (): void => {
        if (given === wanted.given && left === wanted.left) resolve();
      };
      held.push(look);
      look();
    });
  return { clock, unread, until, port: (server.address() as AddressInfo).port };
}

async function dial(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  closing.push(() => socket.destroy());
  await once(socket, 'connect');
  return socket;
}

const ask = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

test('a small answer frees its place at once', async () => {
  const { unread, until, port } = await scene([Buffer.alloc(1000)]);
  (await dial(port)).write(ask);
  await until({ given: 1, left: 1 });
  assert.equal(unread.size, 0);
});

test('a large answer frees its place when it is read', async () => {
  const { unread, until, port } = await scene([large]);
  const socket = await dial(port);
  socket.write(ask);
  await until({ given: 1, left: 0 });
  socket.resume();
  await until({ given: 1, left: 1 });
  assert.equal(unread.size, 0);
});

test('a reader that goes away frees its place', async () => {
  const { unread, until, port } = await scene([large]);
  const socket = await dial(port);
  socket.write(ask);
  await until({ given: 1, left: 0 });
  socket.destroy();
  await until({ given: 1, left: 1 });
  assert.equal(unread.size, 0);
});

test('an answer that nobody reads is cut off after its time, and not before', async () => {
  const { clock, unread, until, port } = await scene([large, large]);
  const first = await dial(port);
  first.write(ask);
  await until({ given: 1, left: 0 });
  await clock.advance(withinMs / 2);
  const second = await dial(port);
  second.write(ask);
  await until({ given: 2, left: 0 });
  await clock.advance(withinMs / 2 - 1);
  assert.equal(unread.size, 2);
  await clock.advance(1);
  await until({ given: 2, left: 1 });
  assert.equal(unread.size, 1);
  await clock.advance(withinMs);
  await until({ given: 2, left: 2 });
  const closed = once(first, 'close');
  first.resume();
  await closed;
});

test('answers that wait behind another on a connection free their places, too', async () => {
  const { clock, unread, until, port } = await scene([large, large, large]);
  const socket = await dial(port);
  socket.write(ask.repeat(3));
  await until({ given: 3, left: 0 });
  socket.destroy();
  await clock.advance(withinMs);
  await until({ given: 3, left: 3 });
  assert.equal(unread.size, 0);
});

test('an answer over HTTP/2 that nobody reads is cut off, and its connection goes on', async () => {
  const { clock, unread, until, port } = await scene(
    [large.subarray(0, 1024 * 1024), Buffer.from('small')],
    true,
  );
  const session = connectHttp2(`http://127.0.0.1:${port}`);
  session.on('error', () => undefined);
  closing.push(() => session.destroy());
  const deaf = session.request({ ':path': '/' });
  deaf.on('error', () => undefined);
  await until({ given: 1, left: 0 });
  await clock.advance(withinMs);
  await until({ given: 1, left: 1 });
  assert.equal(unread.size, 0);
  const stream = session.request({ ':path': '/' });
  assert.equal((await stream.toArray()).join(''), 'small');
  await until({ given: 2, left: 2 });
});
