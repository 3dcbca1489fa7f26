import assert from 'node:assert/strict';
import { once } from 'node:events';
import {
  type ClientHttp2Session,
  connect,
  createSecureServer,
  type Http2ServerResponse,
} from 'node:http2';
import { type AddressInfo, connect as connectTcp } from 'node:net';
import { after, suite, test } from 'node:test';
import type { Clock } from '../../core/clock/clock.ts';
import { systemClock } from '../../core/clock/system.ts';
import { credentialOf, forgeLeaf, forgeRoot } from '../../core/identity/x509/test-forge.ts';
import { guardServer, svidServerOptions } from '../../core/identity/tls/server.ts';
import { OpenStreams, shareConnections, type StreamLimits } from './stranger-limits.ts';

const site = forgeLeaf(forgeRoot('lubeck.example'), 'spiffe://lubeck.example/hansa/site');
const closing: (() => void)[] = [];
after(() => {
  for (const close of closing.toReversed()) close();
});

async function scene(limits: StreamLimits) {
  let nowMs = 0;
  const clock: Clock = { ...systemClock, monotonic: () => nowMs };
  const streams = new OpenStreams(clock, limits);
  const server = createSecureServer(
    { ...svidServerOptions(credentialOf(site)), allowHTTP1: true },
    streams.before((_request, response) => {
      (response as Http2ServerResponse).end('the bundle');
    }) as never,
  );
  guardServer(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => server.close());
  const { port } = server.address() as AddressInfo;
  return {
    port,
    streams,
    server,
    pass: (ms: number) => {
      nowMs += ms;
    },
  };
}

/** The caller keeps its HTTP/2 window closed, so the site cannot send a response. */
function dial(port: number, initialWindowSize: number): ClientHttp2Session {
  const session = connect(`https://127.0.0.1:${port}`, {
    rejectUnauthorized: false,
    settings: { initialWindowSize },
  });
  session.on('error', () => undefined);
  closing.push(() => session.destroy());
  return session;
}

/** 'asked' where the head of an answer came, or the code by which the stream was ended. */
async function ask(session: ClientHttp2Session): Promise<string> {
  const stream = session.request({ ':path': '/' });
  stream.on('error', () => undefined);
  stream.resume();
  return await new Promise((resolve) => {
    stream.on('response', () => resolve('asked'));
    stream.on('close', () => resolve(`ended with ${stream.rstCode}`));
  });
}

const refusedStream = 7;

suite('streams that are answered and not read', () => {
  test('are so many of one address, over all its connections, and no more', async () => {
    const { port, streams } = await scene({ each: 3, all: 100, staleMs: 1_000 });
    const sessions = [dial(port, 0), dial(port, 0)] as const;
    for (const session of [sessions[0], sessions[1], sessions[0]]) {
      assert.equal(await ask(session), 'asked');
    }
    assert.equal(await ask(sessions[1]), `ended with ${refusedStream}`);
    assert.equal(streams.size, 3);
  });

  test('give way to new ones when they have had their time', async () => {
    const { port, streams, pass } = await scene({ each: 2, all: 2, staleMs: 1_000 });
    const session = dial(port, 0);
    assert.equal(await ask(session), 'asked');
    assert.equal(await ask(session), 'asked');
    pass(999);
    assert.equal(await ask(dial(port, 65_535)), `ended with ${refusedStream}`);
    pass(1);
    assert.equal(await ask(dial(port, 65_535)), 'asked');
    assert.ok(streams.size <= 2);
  });

  test('end with their connection', async () => {
    const { port, streams, server } = await scene({ each: 2, all: 2, staleMs: 1_000 });
    const session = dial(port, 0);
    const [theirs] = await Promise.all([
      once(server, 'session') as Promise<[NodeJS.EventEmitter]>,
      ask(session),
    ]);
    assert.equal(streams.size, 1);
    session.destroy();
    await once(theirs[0], 'close');
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(streams.size, 0);
  });

  test('and those that are read are not held', async () => {
    const { port, streams } = await scene({ each: 1, all: 1, staleMs: 1_000 });
    const session = dial(port, 65_535);
    for (let i = 0; i < 20; i++) {
      const stream = session.request({ ':path': '/' });
      stream.resume();
      await once(stream, 'close');
      assert.equal(stream.rstCode, 0);
    }
    assert.ok(streams.size <= 1);
  });
});

test('a trusted proxy may have more than a quarter of the connections of a listener', async () => {
  const { port, server } = await scene({ each: 9, all: 9, staleMs: 1_000 });
  shareConnections(server, 4, (address) => address === '127.0.0.1');
  const sessions = [dial(port, 65_535), dial(port, 65_535), dial(port, 65_535)];
  for (const session of sessions) assert.equal(await ask(session), 'asked');
});

test('one address has a quarter of the connections of a listener', async () => {
  const { port, server } = await scene({ each: 9, all: 9, staleMs: 1_000 });
  shareConnections(server, 8);
  const open = async () => {
    const socket = connectTcp(port, '127.0.0.1');
    socket.on('error', () => undefined);
    closing.push(() => socket.destroy());
    await once(server, 'connection');
    return socket;
  };
  const first = await open();
  await open();
  const third = await open();
  third.resume();
  await once(third, 'close');
  first.destroy();
  assert.equal(first.destroyed, true);
  // One that has gone makes room.
  for (let answer = ''; answer !== 'asked'; ) answer = await ask(dial(port, 65_535));
});
