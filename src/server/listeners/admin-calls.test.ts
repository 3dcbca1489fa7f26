import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { connect, type ClientHttp2Session } from 'node:http2';
import { connect as connectSocket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { systemClock } from '../../core/clock/system.ts';
import type { AdminCall } from '../../core/plane/stream.ts';
import { listenSocket } from './listeners.ts';

const limits = { maxHeaderBytes: 8192, maxConnections: 16, requestSeconds: 10 };

const hello: AdminCall = {
  path: '/test.Test/Hello',
  handle: (stream) => {
    stream.respond({ ':status': 200, 'grpc-status': '0' });
    stream.end('hello');
  },
};

async function serve(t: TestContext, calls: readonly AdminCall[] = [hello]) {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-admin-'));
  const path = join(folder, 'admin.sock');
  const listener = await listenSocket(
    path,
    limits,
    (incoming, response) => {
      let body = '';
      incoming.setEncoding('utf8').on('data', (text: string) => {
        body += text;
      });
      incoming.once('end', () => response.end(`${incoming.method} ${body}`));
    },
    systemClock,
    calls,
  );
  t.after(async () => {
    await listener.close(100);
    rmSync(folder, { recursive: true, force: true });
  });
  return { path, listener };
}

function session(t: TestContext, path: string): ClientHttp2Session {
  const opened = connect('http://localhost', { createConnection: () => connectSocket(path) });
  t.after(() => opened.destroy());
  return opened;
}

async function call(opened: ClientHttp2Session, headers: Record<string, string>) {
  const stream = opened.request({
    ':method': 'POST',
    'content-type': 'application/grpc',
    ...headers,
  });
  let head: NodeJS.Dict<string | number | string[]> = {};
  let body = '';
  stream.on('response', (received) => {
    head = received;
  });
  stream.setEncoding('utf8').on('data', (text: string) => {
    body += text;
  });
  stream.end();
  await once(stream, 'close');
  return { status: head[':status'], grpcStatus: head['grpc-status'], body };
}

function ask(socketPath: string, method: string, body: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ socketPath, method, path: '/' }, (incoming) => {
      let text = '';
      incoming.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      incoming.once('end', () => resolve(text));
    });
    outgoing.once('error', reject);
    outgoing.end(body);
  });
}

describe('the admin socket', () => {
  test('serves HTTP/1.1 and gRPC to whoever speaks it', async (t) => {
    const { path } = await serve(t);
    const body = 'x'.repeat(100_000);
    assert.equal(await ask(path, 'PUT', body), `PUT ${body}`);
    assert.equal(await ask(path, 'POST', ''), 'POST ');
    const opened = session(t, path);
    const answer = await call(opened, { ':path': hello.path });
    assert.deepEqual(answer, { status: 200, grpcStatus: '0', body: 'hello' });
  });

  test('understands HTTP/1.1 that arrives byte by byte', async (t) => {
    const { path } = await serve(t);
    const socket = connectSocket(path);
    t.after(() => socket.destroy());
    let text = '';
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    for (const byte of 'PUT / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 1\r\n\r\nb') {
      await new Promise<void>((resolve) => {
        socket.write(byte, () => resolve());
      });
    }
    await once(socket, 'close');
    assert.match(text, /^HTTP\/1\.1 200/);
    assert.match(text, /PUT b/);
  });

  test('answers methods that are not there with UNIMPLEMENTED', async (t) => {
    const { path } = await serve(t);
    const answer = await call(session(t, path), { ':path': '/test.Test/Other' });
    assert.equal(answer.grpcStatus, '12');
  });

  test('refuses what is no call', async (t) => {
    const { path } = await serve(t);
    const opened = session(t, path);
    for (const headers of [{ 'content-type': 'text/plain' }, { ':method': 'GET' }]) {
      const { status } = await call(opened, { ':path': hello.path, ...headers });
      assert.equal(status, 415);
    }
  });

  test('takes no token for a call: its bearer may be less than the owner', async (t) => {
    const { path } = await serve(t);
    const answer = await call(session(t, path), {
      ':path': hello.path,
      authorization: 'Bearer hansa-token',
    });
    assert.equal(answer.grpcStatus, '16');
  });

  test('lets go of those who hang up without a word, and of half a preface', async (t) => {
    const { path } = await serve(t);
    for (const said of ['', 'P', 'PRI * HTTP/2.0\r\n\r\nXX']) {
      const socket = connectSocket(path);
      socket.on('error', () => undefined);
      await once(socket, 'connect');
      socket.end(said);
      socket.resume();
      await once(socket, 'close');
    }
    assert.equal(await ask(path, 'GET', ''), 'GET ');
  });

  test('finishes a call in flight when it is closed', async (t) => {
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<() => void>();
    const slow: AdminCall = {
      path: '/test.Test/Slow',
      handle: (stream) => arrive(() => hello.handle(stream)),
    };
    const { path, listener } = await serve(t, [slow]);
    const answer = call(session(t, path), { ':path': slow.path });
    const finish = await arrived;
    const closed = listener.close(10_000);
    finish();
    assert.equal((await answer).body, 'hello');
    await closed;
  });
});
