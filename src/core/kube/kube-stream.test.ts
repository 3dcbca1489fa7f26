import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, suite, test } from 'node:test';
import { settle } from '../clock/virtual.ts';
import { hasCode } from '../errors/error.ts';
import { unreachableReason } from './kube-errors.ts';
import { clientOf, serve, serveBytes, stopServers } from './test-api-server.ts';

after(stopServers);

const get = { method: 'GET', path: '/version' } as const;

suite('a stream', () => {
  test('hands out chunks as they arrive, on a connection of its own', async () => {
    let more: (text: string) => void = () => undefined;
    const server = await serve((_request, response) => {
      response.write('first');
      more = (text) => response.end(text);
    });
    const client = clientOf(server);
    const stream = await client.stream(get);
    assert.equal(stream.status, 200);
    const chunks: string[] = [];
    for await (const chunk of stream.body) {
      chunks.push(chunk.toString());
      if (chunks.length === 1) more('second');
    }
    assert.deepEqual(chunks, ['first', 'second']);
    client.close();
  });

  test('ends without an error when its reader closes it', async () => {
    const server = await serve((_request, response) => void response.write('first'));
    const client = clientOf(server);
    const stream = await client.stream(get);
    for await (const chunk of stream.body) {
      assert.equal(chunk.toString(), 'first');
      stream.close();
    }
    client.close();
  });

  test('throws where the server breaks it, and where its signal is aborted', async () => {
    const server = await serve((request, response) => {
      response.write('first', () => {
        if (request.url === '/broken') request.socket.destroy();
      });
    });
    const client = clientOf(server);
    const drain = async (body: AsyncIterable<Buffer>, each: () => void = () => undefined) => {
      for await (const chunk of body) if (chunk.length > 0) each();
    };
    const broken = await client.stream({ method: 'GET', path: '/broken' });
    await assert.rejects(drain(broken.body), (caught) => unreachableReason(caught) === 'reset');
    const controller = new AbortController();
    const aborted = await client.stream({ ...get, signal: controller.signal });
    const reason = new Error('over');
    await assert.rejects(
      drain(aborted.body, () => controller.abort(reason)),
      reason,
    );
    client.close();
  });

  test('gives its place back, and one more than allowed is refused', async () => {
    const server = await serve((_request, response) => void response.write('x'));
    const client = clientOf(server, { maxStreams: 1 });
    const first = await client.stream(get);
    await assert.rejects(client.stream(get), (caught) => hasCode(caught, 'HANSA_UNAVAILABLE'));
    first.close();
    const [socket] = server.sockets;
    if (socket?.closed === false) await once(socket, 'close');
    let second = await client.stream(get).catch(() => undefined);
    // The client may notice the end a moment after the server.
    while (second === undefined) second = await client.stream(get).catch(() => undefined);
    second.close();
    client.close();
  });

  test('makes the server wait for a reader that is slow', async () => {
    const piece = Buffer.alloc(64 * 1024);
    let sent = 0;
    const server = await serve((_request, response) => {
      const pour = (): void => {
        sent++;
        response.write(piece, pour);
      };
      pour();
    });
    const client = clientOf(server);
    const stream = await client.stream(get);
    const reader = stream.body[Symbol.asyncIterator]();
    await reader.next();
    // Until nothing moves: the buffers of both ends are full.
    let before = -1;
    const isTooMuch = (): boolean => sent * piece.length > 64 * 1024 * 1024;
    for (let quiet = 0; quiet < 200 && !isTooMuch(); quiet++) {
      if (before !== sent) quiet = 0;
      before = sent;
      await settle();
    }
    assert.ok(!isTooMuch());
    stream.close();
    client.close();
  });

  test('that never begins ends at its time limit', async () => {
    const server = await serveBytes(() => undefined);
    const client = clientOf(server);
    await assert.rejects(
      client.stream({ ...get, timeoutMs: 50 }),
      (caught) => unreachableReason(caught) === 'timeout',
    );
    client.close();
  });
});
