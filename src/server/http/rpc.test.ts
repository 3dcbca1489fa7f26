import assert from 'node:assert/strict';
import { getEventListeners, once } from 'node:events';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  createSecureServer,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { after, suite, test } from 'node:test';
import { Client, credentials, type ServiceError } from '@grpc/grpc-js';
import { Answers } from './answers.ts';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { HansaError } from '../../core/errors/error.ts';
import {
  BundleTable,
  credentialOf,
  forgeLeaf,
  forgeRoot,
} from '../../core/identity/x509/test-forge.ts';
import { guardServer, svidServerOptions } from '../../core/identity/tls/server.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import type { PlaneRpc } from '../../core/plane/stream.ts';
import { encodeFrame, FrameReader } from '../../core/rpc/frames.ts';
import { FederationDispatcher } from '../listeners/federation-listener.ts';
import { Limits } from './limits.ts';
import { silentLog } from '../../core/log/test-log.ts';

const site = forgeLeaf(forgeRoot('lubeck.example'), 'spiffe://lubeck.example/hansa/site');
const label = 'EXPERIMENTAL-test';

const patient = { messageWithinMs: 60_000, idleMs: 60_000 } as const;

const rpcs: readonly PlaneRpc[] = [
  {
    path: '/test.Echo/Echo',
    maxMessageBytes: 1000,
    allow: 'public',
    ...patient,
    handle: async (call) => {
      for (let one = await call.read(); one !== undefined; one = await call.read()) {
        await call.write(one);
      }
    },
  },
  {
    path: '/test.Echo/Exporter',
    maxMessageBytes: 10,
    allow: 'public',
    ...patient,
    handle: (call) => call.write(call.exportKeyingMaterial(label, 32)),
  },
  {
    path: '/test.Echo/Refuse',
    maxMessageBytes: 10,
    allow: 'public',
    ...patient,
    handle: async (call) => {
      await call.read();
      throw new HansaError('HANSA_FORBIDDEN', 'Not for Lübeck.');
    },
  },
  {
    path: '/test.Echo/Fail',
    maxMessageBytes: 10,
    allow: 'public',
    ...patient,
    handle: () => Promise.reject(new Error('the password is swordfish')),
  },
  {
    path: '/test.Echo/Listeners',
    maxMessageBytes: 1000,
    allow: 'public',
    ...patient,
    handle: async (call) => {
      await call.read();
      await call.write(Buffer.from(String(getEventListeners(call.signal, 'abort').length)));
    },
  },
  {
    path: '/test.Echo/Short',
    maxMessageBytes: 10,
    allow: 'public',
    ...patient,
    messageWithinMs: 20,
    handle: async (call) => {
      await call.read();
    },
  },
];

const closing: (() => void)[] = [];
after(() => {
  for (const close of closing.toReversed()) close();
});

async function scene() {
  const denials: string[] = [];
  const dispatcher = new FederationDispatcher({
    answers: new Answers(systemClock, { withinMs: 60_000, maxBytes: 64 * 1024 ** 2 }),
    clock: systemClock,
    random: systemRandom,
    log: silentLog,
    metrics: new MetricsRegistry(),
    limits: new Limits(
      { maxConcurrentRequests: 100, maxWatches: 0, requestsPerSecond: 0 },
      systemClock,
    ),
    bodyWithinMs: 60_000,
    bundles: new BundleTable(),
    routes: [],
    rpcs,
    denied: (_peer, { code }, { route }) => denials.push(`${route} ${code}`),
  });
  const server = createSecureServer(
    { ...svidServerOptions(credentialOf(site)), allowHTTP1: true },
    dispatcher.listener,
  );
  guardServer(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => server.close());
  const { port } = server.address() as AddressInfo;
  return { port, denials };
}

function dial(port: number): ClientHttp2Session {
  const session = connect(`https://127.0.0.1:${port}`, { rejectUnauthorized: false });
  session.on('error', () => undefined);
  closing.push(() => session.destroy());
  return session;
}

function open(session: ClientHttp2Session, path: string, headers: object = {}): ClientHttp2Stream {
  const stream = session.request({
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/grpc',
    te: 'trailers',
    ...headers,
  });
  stream.on('error', () => undefined);
  return stream;
}

/** The gRPC status of a call, and the messages that came before it. */
async function answerOf(stream: ClientHttp2Stream) {
  const reader = new FrameReader(10_000);
  stream.on('data', (chunk: Buffer) => reader.push(chunk));
  const headers: Record<string, unknown> = {};
  stream.on('response', (got) => Object.assign(headers, got));
  stream.on('trailers', (got) => Object.assign(headers, got));
  await once(stream, 'end');
  stream.close();
  const messages: string[] = [];
  for (let one = reader.take(); one !== undefined; one = reader.take())
    messages.push(one.toString());
  return {
    http: headers[':status'],
    status: headers['grpc-status'],
    message: headers['grpc-message'],
    accepts: headers['grpc-accept-encoding'],
    messages,
  };
}

suite('a gRPC call', () => {
  test('of grpc-js goes both ways, message by message', async () => {
    const { port } = await scene();
    const client = new Client(
      `127.0.0.1:${port}`,
      credentials.createSsl(null, null, null, { rejectUnauthorized: false }),
    );
    closing.push(() => client.close());
    const plain = (bytes: Buffer): Buffer => bytes;
    const call = client.makeBidiStreamRequest('/test.Echo/Echo', plain, plain);
    for (const text of ['one', 'two', '']) {
      call.write(Buffer.from(text));
      const [answer] = (await once(call, 'data')) as [Buffer];
      assert.equal(answer.toString(), text);
    }
    call.end();
    const [status] = (await once(call, 'status')) as [{ readonly code: number }];
    assert.equal(status.code, 0);
    const refused = client.makeBidiStreamRequest('/test.Echo/Refuse', plain, plain);
    refused.end(Buffer.from('x'));
    refused.resume();
    const [error] = (await once(refused, 'error')) as [ServiceError];
    assert.deepEqual([error.code, error.details], [7, 'Not for Lübeck.']);
  });

  test('that comes byte by byte leaves nothing behind with each: the next would pay for all before it', async () => {
    const { port } = await scene();
    const counts: string[] = [];
    for (const bytes of [1, 200]) {
      const session = dial(port);
      const stream = open(session, '/test.Echo/Listeners');
      const answer = answerOf(stream);
      for (const byte of encodeFrame(Buffer.alloc(bytes))) {
        await new Promise((sent) => stream.write(Buffer.of(byte), sent));
      }
      counts.push(...(await answer).messages);
    }
    assert.equal(counts.length, 2);
    assert.equal(counts[0], counts[1]);
  });

  test('knows the exporter of its own connection, and of no other', async () => {
    const { port } = await scene();
    const exporters: string[] = [];
    for (let i = 0; i < 2; i++) {
      const session = dial(port);
      await once(session, 'connect');
      const own = (session.socket as TLSSocket).exportKeyingMaterial(32, label, Buffer.alloc(0));
      const stream = open(session, '/test.Echo/Exporter');
      const reader = new FrameReader(100);
      stream.on('data', (chunk: Buffer) => reader.push(chunk));
      stream.end();
      await once(stream, 'close');
      assert.deepEqual(reader.take(), own);
      exporters.push(own.toString('hex'));
    }
    assert.notEqual(exporters[0], exporters[1]);
  });

  test('that needs the exporter is refused below TLS 1.3', async () => {
    const { port } = await scene();
    const session = connect(`https://127.0.0.1:${port}`, {
      rejectUnauthorized: false,
      maxVersion: 'TLSv1.2',
    });
    closing.push(() => session.destroy());
    const stream = open(session, '/test.Echo/Exporter');
    stream.end();
    const { status, message } = await answerOf(stream);
    assert.deepEqual([status, message], ['3', 'This method needs a connection with TLS 1.3.']);
  });

  test('of a method that is not there, or with GET, is unimplemented', async () => {
    const { port } = await scene();
    const session = dial(port);
    for (const [path, method] of [
      ['/test.Echo/Other', 'POST'],
      ['/', 'POST'],
      ['/test.Echo/Echo', 'GET'],
    ] as const) {
      const stream = open(session, path, { ':method': method });
      stream.end();
      const { http, status } = await answerOf(stream);
      assert.deepEqual([http, status], [200, '12'], path);
    }
  });

  test('that fails inside tells nothing of why', async () => {
    const { port } = await scene();
    const stream = open(dial(port), '/test.Echo/Fail');
    stream.end();
    const { status, message } = await answerOf(stream);
    assert.equal(status, '13');
    assert.doesNotMatch(String(message), /swordfish/);
  });

  test('with compressed messages is refused with what is accepted', async () => {
    const { port } = await scene();
    const session = dial(port);
    const announced = open(session, '/test.Echo/Echo', { 'grpc-encoding': 'gzip' });
    announced.end(encodeFrame(Buffer.from('x')));
    const answer = await answerOf(announced);
    assert.deepEqual([answer.status, answer.accepts], ['12', 'identity']);
    const hidden = open(session, '/test.Echo/Echo');
    const frame = encodeFrame(Buffer.from('x'));
    frame[0] = 1;
    hidden.end(frame);
    assert.equal((await answerOf(hidden)).status, '3');
  });

  test('of garbage, of too much, and of half a message is refused', async () => {
    const { port } = await scene();
    const session = dial(port);
    const large = Buffer.alloc(5);
    large.writeUInt32BE(1001, 1);
    for (const [bytes, status] of [
      [Buffer.from('GET / HTTP/1.1\r\n'), '3'],
      [large, '8'],
      [encodeFrame(Buffer.from('whole')).subarray(0, 7), '3'],
    ] as const) {
      const stream = open(session, '/test.Echo/Echo');
      stream.end(bytes);
      assert.equal((await answerOf(stream)).status, status);
    }
  });

  test('over HTTP/1.1 is no gRPC', async () => {
    const { port } = await scene();
    const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
    closing.push(() => socket.destroy());
    socket.write(
      'POST /test.Echo/Echo HTTP/1.1\r\nhost: a\r\ncontent-type: application/grpc\r\ncontent-length: 0\r\n\r\n',
    );
    const [head] = (await once(socket, 'data')) as [Buffer];
    assert.match(head.toString(), /^HTTP\/1\.1 505 /);
  });

  test('that stays silent ends when its time is over, and sooner where the caller says so', async () => {
    const { port, denials } = await scene();
    const session = dial(port);
    assert.equal((await answerOf(open(session, '/test.Echo/Short'))).status, '4');
    const impatient = open(session, '/test.Echo/Echo', { 'grpc-timeout': '10m' });
    assert.equal((await answerOf(impatient)).status, '4');
    assert.deepEqual(denials, ['/test.Echo/Short HANSA_TIMEOUT', '/test.Echo/Echo HANSA_TIMEOUT']);
  });

  test('has its share: of 1,000 half-open ones sixteen stand, and ending one lets another in', async () => {
    const { port } = await scene();
    const sessions = Array.from({ length: 10 }, () => dial(port));
    const standing: ClientHttp2Stream[] = [];
    let refused = 0;
    await Promise.all(
      Array.from({ length: 1000 }, async (_, index) => {
        const stream = open(sessions[index % 10] as ClientHttp2Session, '/test.Echo/Echo');
        const answer = answerOf(stream);
        stream.write(encodeFrame(Buffer.from('x')));
        const first = await Promise.race([once(stream, 'data').then(() => 'open'), answer]);
        if (first === 'open') standing.push(stream);
        else {
          assert.equal((await answer).status, '8');
          refused++;
        }
      }),
    );
    assert.deepEqual([standing.length, refused], [16, 984]);
    const one = standing.pop() as ClientHttp2Stream;
    one.end();
    await once(one, 'end');
    const next = open(sessions[0] as ClientHttp2Session, '/test.Echo/Echo');
    next.end(encodeFrame(Buffer.from('y')));
    const { status, messages } = await answerOf(next);
    assert.deepEqual([status, messages], ['0', ['y']]);
    // Those whose callers vanish are over as well.
    for (const session of sessions) session.destroy();
  });
});
