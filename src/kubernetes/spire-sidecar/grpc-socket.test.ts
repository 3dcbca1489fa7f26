import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Http2Server, type ServerHttp2Stream } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, suite, test } from 'node:test';
import { systemClock } from '../../core/clock/system.ts';
import { hasCode } from '../../core/errors/error.ts';
import { encodeFrame } from '../../core/rpc/frames.ts';
import { GrpcError, GrpcSocket } from './grpc-socket.ts';

type Handler = (stream: ServerHttp2Stream) => void;

const answer = (stream: ServerHttp2Stream, status: Record<string, string>, message?: string) => {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
  stream.once('wantTrailers', () => stream.sendTrailers(status));
  stream.end(message === undefined ? undefined : encodeFrame(Buffer.from(message)));
};

suite('calls over the socket of SPIRE', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-grpc-'));
  const path = join(folder, 'api.sock');
  let handler: Handler;
  let server: Http2Server;
  const socket = new GrpcSocket(path, systemClock);
  const call = (timeoutMs = 60_000, signal?: AbortSignal) =>
    socket.call({ path: '/x.Y/Z', message: Buffer.from('question'), timeoutMs, signal });
  const listen = () =>
    new Promise<void>((resolve) => {
      server = createServer().on('stream', (stream) => handler(stream));
      server.listen(path, resolve);
    });

  before(listen);
  afterEach(() => socket.close());
  after(() => {
    server.close();
    rmSync(folder, { recursive: true });
  });

  test('return the message of the answer', async () => {
    const asked: Buffer[] = [];
    handler = (stream) => {
      stream.on('data', (chunk: Buffer) => asked.push(chunk));
      stream.once('end', () => answer(stream, { 'grpc-status': '0' }, 'yes'));
    };
    assert.equal((await call()).toString(), 'yes');
    assert.equal(Buffer.concat(asked).subarray(5).toString(), 'question');
  });

  test('reject with the status of the server', async () => {
    handler = (stream) => answer(stream, { 'grpc-status': '5', 'grpc-message': 'no%20such' });
    await assert.rejects(call(), (error) => {
      assert.ok(error instanceof GrpcError);
      assert.deepEqual([error.code, error.message], [5, 'no such']);
      return true;
    });
  });

  test('reject where the server breaks the call, and work again afterwards', async () => {
    handler = (stream) => stream.session?.destroy();
    await assert.rejects(call(), hasUnreachable);
    handler = (stream) => answer(stream, { 'grpc-status': '0' }, 'again');
    assert.equal((await call()).toString(), 'again');
  });

  test('reject an answer without a status, without a message, or with a broken frame', async () => {
    handler = (stream) => answer(stream, {}, 'no status');
    await assert.rejects(call(), hasUnreachable);
    handler = (stream) => answer(stream, { 'grpc-status': '0' });
    await assert.rejects(call(), hasUnreachable);
    handler = (stream) => {
      stream.respond({ ':status': 200 });
      stream.end('not a frame');
    };
    await assert.rejects(call(), (error) => hasCode(error, 'HANSA_BAD_REQUEST'));
  });

  test('end after their time, and when they are aborted', async () => {
    handler = (stream) => stream.on('error', () => undefined);
    await assert.rejects(call(20), (error) => hasCode(error, 'HANSA_TIMEOUT'));
    const reason = new Error('stop');
    await assert.rejects(call(60_000, AbortSignal.abort(reason)), reason);
    const aborter = new AbortController();
    const called = call(60_000, aborter.signal);
    aborter.abort(reason);
    await assert.rejects(called, reason);
  });

  test('reject where nothing listens', async () => {
    const nowhere = new GrpcSocket(join(folder, 'none.sock'), systemClock);
    const called = nowhere.call({ path: '/x', message: Buffer.alloc(0), timeoutMs: 60_000 });
    await assert.rejects(called, hasUnreachable);
  });
});

const hasUnreachable = (error: unknown): boolean => hasCode(error, 'HANSA_UNREACHABLE');
