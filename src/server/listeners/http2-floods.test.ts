// Tests that node:http2 ends connections with HTTP/2 floods that cost the sender less than the server, in
// every Node version that the site supports.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { after, before, suite, test } from 'node:test';
import { connect, type TLSSocket } from 'node:tls';
import { systemClock } from '../../core/clock/system.ts';
import { yieldToEventLoop } from '../../core/clock/yield-to-event-loop.ts';
import {
  endHeaders,
  frame,
  frameType as types,
  headerBlock,
  preface,
  RawConnection,
} from '../../core/rpc/test-frames.ts';
import { credentialOf, forgeLeaf, forgeRoot } from '../../core/identity/x509/test-forge.ts';
import { guardServer, svidServerOptions } from '../../core/identity/tls/server.ts';
import { type Listener, listenTls } from './listeners.ts';

const site = forgeLeaf(forgeRoot('lubeck.example'), 'spiffe://lubeck.example/hansa/site');

const field = (name: string, value: string): Buffer => headerBlock({ [name]: value });

const head = headerBlock({
  ':method': 'GET',
  ':scheme': 'https',
  ':path': '/',
  ':authority': 'lubeck.example',
});

async function dial(port: number): Promise<TLSSocket> {
  const socket = connect({
    host: '127.0.0.1',
    port,
    rejectUnauthorized: false,
    ALPNProtocols: ['h2'],
  });
  socket.on('error', () => undefined);
  await once(socket, 'secureConnect');
  return socket;
}

/** Sends pieces until the server has had enough; resolves to how many it took. */
async function flood(port: number, piece: (at: number) => Buffer, most: number): Promise<number> {
  const socket = await dial(port);
  const over = new Promise<void>((resolve) => {
    socket.once('close', () => resolve());
  });
  socket.resume();
  socket.write(Buffer.concat([preface, frame(types.settings, 0, 0)]));
  let sent = 0;
  for (; sent < most && !socket.destroyed; sent++) {
    if (socket.write(piece(sent))) continue;
    await Promise.race([once(socket, 'drain').catch(() => undefined), over]);
  }
  await over;
  return sent;
}

suite('a connection that floods the listener is ended', () => {
  let listener: Listener;
  let asked = 0;
  before(async () => {
    const opened = await listenTls(
      { host: '127.0.0.1', port: 0 },
      svidServerOptions(credentialOf(site)),
      { maxHeaderBytes: 32 * 1024, maxConnections: 100, requestSeconds: 60 },
      (_request: unknown, response: { end: (text: string) => void }) => {
        asked++;
        response.end('ok');
      },
      systemClock,
    );
    guardServer(opened.server);
    listener = opened;
  });
  after(() => listener.close(0));

  const floods: Readonly<Record<string, (at: number) => Buffer>> = {
    'streams that are reset at once (CVE-2023-44487)': (at) =>
      Buffer.concat([
        frame(types.headers, endHeaders, 2 * at + 1, head),
        frame(types.reset, 0, 2 * at + 1, Buffer.from([0, 0, 0, 8])),
      ]),
    'heads that never end (CVE-2024-27316)': (at) =>
      at === 0
        ? frame(types.headers, 0, 1, head)
        : frame(types.continuation, 0, 1, field(`x-${at}`, 'y'.repeat(60))),
    'heads that never end, of nothing': (at) =>
      at === 0 ? frame(types.headers, 0, 1, head) : frame(types.continuation, 0, 1),
    'settings (CVE-2019-9515)': () => frame(types.settings, 0, 0, Buffer.from([0, 3, 0, 0, 1, 0])),
  };
  for (const [what, piece] of Object.entries(floods)) {
    test(`with ${what}`, async () => {
      const askedBefore = asked;
      const sent = await flood(listener.address.port, piece, 1_000_000);
      assert.ok(sent < 1_000_000, `${sent} were taken`);
      assert.ok(asked - askedBefore < 20_000, `${asked - askedBefore} were asked`);
      const session = connectHttp2(`https://127.0.0.1:${listener.address.port}`, {
        rejectUnauthorized: false,
      });
      const stream = session.request({ ':path': '/' });
      const [headers] = (await once(stream, 'response')) as [Record<string, unknown>];
      assert.equal(headers[':status'], 200, 'others are served');
      stream.close();
      session.destroy();
    });
  }

  test('unless it sends headers above the limit, without settings: they are reset unseen', async () => {
    const askedBefore = asked;
    const connection = new RawConnection(await dial(listener.address.port));
    const large = { ':method': 'GET', ':scheme': 'https', ':authority': 'lubeck.example' };
    for (let index = 0; index < 20; index++) {
      connection.call({ ...large, ':path': '/', a: 'y'.repeat(12_000) });
      connection.call({ ...large, ':path': '/', ...repeated('y'.repeat(400)) });
    }
    // An answered call whose request does not end is reset too.
    while ((connection.came.get(types.reset) ?? 0) < 40) await yieldToEventLoop();
    assert.equal(asked - askedBefore, 20);
    connection.socket.destroy();
    await connection.closed;
  });
});

/** 100 fields of their own name, which are above the limit together. */
function repeated(value: string): Record<string, string> {
  return Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`x-${index}`, value]));
}
