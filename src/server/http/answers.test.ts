import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { connect as connectHttp2, createServer as createHttp2Server } from 'node:http2';
import { type AddressInfo, connect, type Server, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { settle, VirtualClock } from '../../core/clock/virtual.ts';
import type { Response } from './exchange.ts';
import { yieldToEventLoop } from '../../core/clock/yield-to-event-loop.ts';
import { type AnswerBody, Answers } from './answers.ts';

const withinMs = 60_000;
/** More than the kernel's buffers hold. */
const large = Buffer.alloc(32 * 1024 * 1024, '.');

const closing: (() => void)[] = [];
after(() => {
  for (const close of closing.toReversed()) close();
});

/** A server that gives the answers, whole or in pieces. */
async function scene(bodies: readonly (Buffer | AnswerBody)[], http2 = false) {
  const clock = new VirtualClock();
  const answers = new Answers(clock, { withinMs, maxBytes: 1024 ** 3 });
  let left = 0;
  let given = 0;
  const held: (() => void)[] = [];
  const handler = (_request: unknown, response: Response): void => {
    const body = bodies[given] as Buffer | AnswerBody;
    given += 1;
    if (Buffer.isBuffer(body)) (response as ServerResponse).end(body);
    else void answers.send(response, 'ada', () => undefined, body);
    answers.hold(response, 'ada', () => {
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
  return {
    clock,
    answers,
    unread: answers.unread,
    until,
    port: (server.address() as AddressInfo).port,
  };
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
  assert.equal(unread.bytes, 0);
});

test('a large answer frees its place when it is read', async () => {
  const { unread, until, port } = await scene([large]);
  const socket = await dial(port);
  socket.write(ask);
  await until({ given: 1, left: 0 });
  socket.resume();
  await until({ given: 1, left: 1 });
  assert.equal(unread.bytes, 0);
});

test('a reader that goes away frees its place', async () => {
  const { unread, until, port } = await scene([large]);
  const socket = await dial(port);
  socket.write(ask);
  await until({ given: 1, left: 0 });
  socket.destroy();
  await until({ given: 1, left: 1 });
  assert.equal(unread.bytes, 0);
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
  const both = unread.bytes;
  await clock.advance(1);
  await yieldToEventLoop();
  await until({ given: 2, left: 1 });
  assert.ok(unread.bytes > 0 && unread.bytes < both);
  await clock.advance(withinMs);
  await yieldToEventLoop();
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
  await yieldToEventLoop();
  await until({ given: 3, left: 3 });
  assert.equal(unread.bytes, 0);
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
  await yieldToEventLoop();
  await until({ given: 1, left: 1 });
  assert.equal(unread.bytes, 0);
  const stream = session.request({ ':path': '/' });
  assert.equal((await stream.toArray()).join(''), 'small');
  await until({ given: 2, left: 2 });
});

/** A body of pieces that counts those it was asked for. */
function counted(pieces: number, pieceBytes: number) {
  const body = {
    made: 0,
    keptBytes: 0,
    next: () => {
      if (body.made === pieces) return undefined;
      body.made += 1;
      return Buffer.alloc(pieceBytes, '.');
    },
  };
  return body;
}

const megabyte = 1024 * 1024;

for (const http2 of [false, true]) {
  test(`an answer in pieces is made only as far as its client reads (HTTP/${http2 ? 2 : 1})`, async () => {
    const body = counted(40, megabyte);
    const { unread, until, port } = await scene([body], http2);
    let read = 0;
    let resume: () => void;
    if (http2) {
      const session = connectHttp2(`http://127.0.0.1:${port}`);
      closing.push(() => session.destroy());
      const stream = session.request({ ':path': '/' });
      stream.on('data', (chunk: Buffer) => (read += chunk.length));
      stream.pause();
      resume = () => void stream.resume();
    } else {
      const socket = await dial(port);
      socket.write(ask);
      resume = () => void socket.on('data', (chunk: Buffer) => (read += chunk.length));
    }
    await until({ given: 1, left: 0 });
    for (let turn = 0; turn < 200; turn += 1) await yieldToEventLoop();
    // The kernel buffers a few megabytes.
    assert.ok(body.made < 20, `${body.made} pieces`);
    assert.ok(unread.bytes < 3 * megabyte);
    resume();
    await until({ given: 1, left: 1 });
    assert.equal(body.made, 40);
    assert.equal(unread.bytes, 0);
  });
}

test('a large body that exists already is sent in pieces, and arrives whole', async () => {
  const clock = new VirtualClock();
  const answers = new Answers(clock, { withinMs, maxBytes: 64 * megabyte });
  // No power of two, so that pieces differ.
  const body = Buffer.alloc(3 * megabyte, Buffer.from(Array.from({ length: 251 }, (_, at) => at)));
  const writes: number[] = [];
  const server = createServer((_, response) => {
    const write = response.write.bind(response);
    response.write = ((piece: Buffer, written: () => void) => {
      writes.push(piece.length);
      return write(piece, written);
    }) as typeof response.write;
    response.writeHead(200, { 'content-length': body.length });
    answers.end(response, 'ada', body, body.length);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => server.close());
  const { port } = server.address() as AddressInfo;
  const answer = await fetch(`http://127.0.0.1:${port}/`);
  assert.ok(body.equals(Buffer.from(await answer.arrayBuffer())));
  assert.ok(Math.max(...writes) <= megabyte, String(writes));
});

test('an answer that fails before its first piece has no head yet', async () => {
  const { answers } = await scene([]);
  const response = Object.assign(new EventEmitter(), { destroyed: false });
  let heads = 0;
  const failing = {
    keptBytes: 0,
    next: () => {
      throw new Error('damaged');
    },
  };
  await assert.rejects(
    answers.send(response as unknown as Response, 'ada', () => (heads += 1), failing),
    /damaged/,
  );
  assert.equal(heads, 0);
});

test('a body that takes many steps to its first piece is asked again', async () => {
  let steps = 0;
  const body = {
    keptBytes: 0,
    next: () => {
      steps += 1;
      if (steps < 10) return Buffer.alloc(0);
      return steps === 10 ? Buffer.from('found') : undefined;
    },
  };
  const { until, port } = await scene([body]);
  const answer = await fetch(`http://127.0.0.1:${port}/`);
  assert.equal(await answer.text(), 'found');
  await until({ given: 1, left: 1 });
});

/** A response whose client takes a piece when the test says so. */
class SlowResponse extends EventEmitter {
  destroyed = false;
  take: (() => void) | undefined;

  write(_piece: Buffer, taken: () => void): boolean {
    this.take = taken;
    return false;
  }

  destroy(): void {
    this.destroyed = true;
    this.emit('close');
  }
}

for (const isLong of [true, false]) {
  const what = isLong
    ? 'a long answer must be read piece by piece'
    : 'an answer must be read as a whole';
  test(`${what} within the deadline`, async () => {
    const clock = new VirtualClock();
    const answers = new Answers(clock, { withinMs, maxBytes: 64 * megabyte });
    const response = new SlowResponse();
    const body = Object.assign(counted(10, 1000), isLong ? { isLong } : {});
    void answers.send(response as unknown as Response, 'ada', () => undefined, body);
    for (let piece = 0; piece < 3; piece += 1) {
      await settle();
      await clock.advance(withinMs * 0.6);
      await settle();
      response.take?.();
    }
    assert.equal(response.destroyed, !isLong);
    await settle();
    await clock.advance(withinMs);
    await settle();
    assert.equal(response.destroyed, true);
    assert.equal(answers.unread.bytes, 0);
  });
}

test('a long answer may take longer than the deadline to find its next piece', async () => {
  const clock = new VirtualClock();
  const answers = new Answers(clock, { withinMs, maxBytes: 64 * megabyte });
  const response = new SlowResponse();
  const found = Promise.withResolvers<Buffer | undefined>();
  const body: AnswerBody = { keptBytes: 0, isLong: true, next: () => found.promise };
  void answers.send(response as unknown as Response, 'ada', () => undefined, body);
  await settle();
  await clock.advance(withinMs * 3);
  await settle();
  assert.equal(response.destroyed, false);
  found.resolve(Buffer.alloc(1000));
  await settle();
  await settle();
  assert.ok(response.take, 'the piece is written');
  await clock.advance(withinMs);
  await settle();
  assert.equal(response.destroyed, true, 'nobody reads it');
  assert.equal(answers.unread.bytes, 0);
});
