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
