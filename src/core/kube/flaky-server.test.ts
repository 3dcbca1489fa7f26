import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { SeededRandom } from '../clock/seeded-random.ts';
import { hasCode } from '../errors/error.ts';
import { clientOf, serveBytes, stopServers } from './test-api-server.ts';

after(stopServers);

const head = (length: number, extra = ''): string =>
  `HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n${extra}\r\n`;

/** What the server does with a request for this body. */
const behaviours: readonly ((socket: TLSSocket, body: string) => void)[] = [
  (socket, body) => socket.write(head(body.length) + body),
  (socket, body) => socket.write(head(body.length) + body),
  (socket, body) => {
    socket.write(head(body.length));
    setImmediate(() => socket.write(body));
  },
  (socket, body) => {
    const chunk = `${body.length.toString(16)}\r\n${body}\r\n`;
    socket.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunk}0\r\n\r\n`);
  },
  // It ends the connection after its answer, with and without a word.
  (socket, body) => socket.end(head(body.length, 'connection: close\r\n') + body),
  (socket, body) => socket.end(head(body.length) + body),
  (socket, body) => socket.end(`HTTP/1.1 200 OK\r\n\r\n${body}`),
  // No answer, half an answer, two answers, nonsense.
  (socket) => socket.destroy(),
  (socket, body) => socket.write(head(body.length) + body.slice(1), () => socket.destroy()),
  (socket, body) => socket.write((head(body.length) + body).repeat(2)),
  (socket) => socket.write('nonsense\r\n\r\n'),
];

for (const seed of ['1', '2', '3']) {
  test(`a flaky server never gets answers mixed up, and nothing is left behind (seed ${seed})`, async () => {
    const random = new SeededRandom(seed);
    const server = await serveBytes((socket) => {
      let text = '';
      socket.on('data', (chunk: Buffer) => {
        text += chunk.toString('latin1');
        const end = text.indexOf('\r\n\r\n');
        if (end === -1) return;
        const [, name = ''] = /^GET \/(\S+) /.exec(text) ?? [];
        text = text.slice(end + 4);
        random.pick(behaviours)(socket, `body of ${name}`);
      });
    });
    const client = clientOf(server, { maxConnections: 4 });
    let answered = 0;
    await Promise.all(
      Array.from({ length: 300 }, async (_, index) => {
        const controller = new AbortController();
        // Some callers give up.
        if (random.unit() < 0.05) setImmediate(() => controller.abort(new Error('gave up')));
        try {
          const { signal } = controller;
          const { body } = await client.request({ method: 'GET', path: `/${index}`, signal });
          assert.equal(body.toString(), `body of ${index}`);
          answered++;
        } catch (caught) {
          const isKnown = hasCode(caught, 'HANSA_UNREACHABLE') || /gave up/.test(String(caught));
          assert.ok(isKnown, String(caught));
        }
      }),
    );
    assert.ok(answered > 100, `${answered} of 300 were answered`);
    client.close();
    for (const socket of server.sockets) if (!socket.closed) await once(socket, 'close');
  });
}
