// gRPC beside HTTP/1.1 on the admin socket. A Unix socket has no ALPN, so the first bytes of a
// connection decide: HTTP/2 starts with a preface (RFC 9113 §3.4) that HTTP/1.1 never sends.

import type { Server } from 'node:http';
import {
  constants,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import type { Socket } from 'node:net';
import type { AdminCall } from '../../core/plane/stream.ts';
import { rpcStatus } from '../../core/rpc/status.ts';

const preface = 'PRI * HTTP/2.0';
/** Enough to decide: no HTTP/1.1 method of the admin socket begins with PRI. */
const tellingBytes = 3;
/** The site closes a connection that sends nothing for this time. */
const silentMs = 10_000;
/** Maximum concurrent calls of one connection. */
const maxConcurrentStreams = 256;
const maxSessionMegabytes = 10;

/** Serves these calls on HTTP/2 connections to the server. */
export function serveAdminCalls(server: Server, calls: readonly AdminCall[]): void {
  const http2 = createServer({
    maxSessionMemory: maxSessionMegabytes,
    settings: { maxConcurrentStreams, enablePush: false },
  });
  const byPath = new Map(calls.map((call) => [call.path, call]));
  http2.on('stream', (stream, headers) => dispatch(byPath, stream, headers));
  http2.on('sessionError', () => undefined);
  // So that closing the listener closes these sessions too.
  http2.on('session', (session) => server.emit('session', session));
  tellApart(server, http2);
}

function tellApart(server: Server, http2: Http2Server): void {
  // The connection listener of node:http gets the HTTP/1.1 connections.
  const takers = server.listeners('connection') as ((socket: Socket) => void)[];
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    const destroy = (): void => void socket.destroy();
    let first: Buffer = Buffer.alloc(0);
    const look = (): void => {
      for (let chunk = socket.read(); chunk !== null; chunk = socket.read()) {
        first = Buffer.concat([first, chunk as Buffer]);
      }
      if (first.length < tellingBytes) return;
      socket.off('readable', look).off('end', destroy).off('error', destroy);
      socket.setTimeout(0).off('timeout', destroy);
      socket.unshift(first);
      if (first.toString('latin1', 0, tellingBytes) === preface.slice(0, tellingBytes)) {
        server.emit('http2Connection', socket);
        http2.emit('connection', socket);
      } else for (const take of takers) take.call(server, socket);
    };
    socket.on('readable', look).on('end', destroy).on('error', destroy);
    socket.setTimeout(silentMs, destroy);
  });
}

function dispatch(
  calls: ReadonlyMap<string, AdminCall>,
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
): void {
  const call = calls.get(headers[constants.HTTP2_HEADER_PATH] as string);
  const isCall =
    headers[constants.HTTP2_HEADER_METHOD] === 'POST' &&
    (headers['content-type'] ?? '').startsWith('application/grpc');
  if (!isCall) refuse(stream, { ':status': 415 });
  else if (call === undefined) {
    refuse(stream, grpcStatus(rpcStatus.unimplemented, 'The admin socket has no such method.'));
  } else if (headers.authorization !== undefined) {
    // A token limits the rights of its bearer, but these calls need the rights of the owner.
    refuse(
      stream,
      grpcStatus(
        rpcStatus.unauthenticated,
        'The admin socket does not accept tokens for gRPC calls. Call without a token.',
      ),
    );
  } else call.handle(stream);
}

function grpcStatus(code: number, message: string) {
  return {
    ':status': 200,
    'content-type': 'application/grpc',
    'grpc-status': String(code),
    'grpc-message': message,
  };
}

function refuse(stream: ServerHttp2Stream, headers: Readonly<Record<string, string | number>>) {
  stream.on('error', () => undefined);
  stream.respond(headers, { endStream: true });
  stream.close(constants.NGHTTP2_NO_ERROR);
}
