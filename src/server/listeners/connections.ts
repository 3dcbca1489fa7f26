// The connections of one listener, so that it can close idle ones at once and others after their
// requests in progress.

import type { ServerResponse } from 'node:http';
import type { ServerHttp2Session } from 'node:http2';
import type { Server, Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../../core/clock/clock.ts';

/** Where node:http keeps the current response. There is no public API for it. */
const answerInTheMaking = '_httpMessage';

type HttpSocket = Socket & { readonly [answerInTheMaking]?: ServerResponse | null };

export class Connections {
  readonly #server: Server;
  readonly #all = new Set<Socket>();
  /** By remote address and port, because node:tls does not expose the connection of a TLS socket. */
  readonly #inHandshake = new Map<string, Socket>();
  readonly #http1 = new Set<HttpSocket>();
  readonly #http2 = new Set<ServerHttp2Session>();

  constructor(server: Server, kind: 'plain' | 'tls') {
    this.#server = server;
    server.on('connection', (socket: Socket) => {
      keep(this.#all, socket);
      if (kind === 'plain') keep(this.#http1, socket);
      else {
        const peer = peerOf(socket);
        this.#inHandshake.set(peer, socket);
        socket.once('close', () => {
          if (this.#inHandshake.get(peer) === socket) this.#inHandshake.delete(peer);
        });
      }
    });
    server.on('secureConnection', (socket: TLSSocket) => {
      this.#inHandshake.delete(peerOf(socket));
      if (socket.alpnProtocol !== 'h2') keep(this.#http1, socket);
    });
    server.on('session', (session: ServerHttp2Session) => keep(this.#http2, session));
    server.on('http2Connection', (socket: Socket) => this.#http1.delete(socket));
  }

  /** Accepts no new connections. Resolves when the open ones have ended, or after `withinMs`. */
  close(withinMs: number, clock: Clock): Promise<void> {
    return new Promise((resolve) => {
      const timer = clock.timer(withinMs, () => {
        for (const socket of this.#all) socket.destroy();
      });
      this.#server.close(() => {
        timer.cancel();
        resolve();
      });
      // A session ends after its last stream and accepts no new ones.
      for (const session of this.#http2) session.close();
      for (const socket of this.#inHandshake.values()) socket.destroy();
      for (const socket of this.#http1) endAfterAnswer(socket);
    });
  }
}

/** What node:http says to a request that it cannot read; anything else is a bad request. */
const refusals: ReadonlyMap<unknown, string> = new Map([
  ['HPE_HEADER_OVERFLOW', '431 Request Header Fields Too Large'],
  ['HPE_CHUNK_EXTENSIONS_OVERFLOW', '413 Payload Too Large'],
  ['ERR_HTTP_REQUEST_TIMEOUT', '408 Request Timeout'],
]);
/** So long a client may go on to send before it has read the answer. */
const lingerMs = 1_000;

/**
 * Answers HTTP/1.1 requests that node:http cannot read. Its own answer closes the connection at once. While
 * the client still sends, the kernel then resets the connection, and the client never sees the answer.
 */
export function answerClientErrors(server: Server, clock: Clock): void {
  const answered = new WeakSet<Socket>();
  server.on('clientError', (error: NodeJS.ErrnoException, socket: HttpSocket) => {
    // It reads on, and what it reads is wrong too.
    if (answered.has(socket)) return;
    answered.add(socket);
    if (!socket.writable || socket[answerInTheMaking]?.headersSent === true) {
      socket.destroy();
      return;
    }
    socket.end(
      `HTTP/1.1 ${refusals.get(error.code) ?? '400 Bad Request'}\r\nConnection: close\r\n\r\n`,
    );
    const late = clock.timer(lingerMs, () => socket.destroy());
    socket.once('close', () => late.cancel());
  });
}

function endAfterAnswer(socket: HttpSocket): void {
  const answer = socket[answerInTheMaking];
  if (answer === undefined || answer === null) socket.destroy();
  else if (answer.headersSent) answer.once('close', () => socket.end());
  else answer.setHeader('connection', 'close');
}

function keep<T extends Socket | ServerHttp2Session>(set: Set<T>, connection: T): void {
  set.add(connection);
  (connection as Socket).once('close', () => set.delete(connection));
}

function peerOf(socket: Socket): string {
  return `${socket.remoteAddress} ${socket.remotePort}`;
}
