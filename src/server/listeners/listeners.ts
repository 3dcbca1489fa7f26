// Opens, drains and closes sockets. The caller passes the request handler.

import { chmodSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import {
  constants,
  createSecureServer,
  type Http2SecureServer,
  type Http2ServerRequest,
} from 'node:http2';
import type { Server as NetServer } from 'node:net';
import type { SecureServerOptions } from 'node:http2';
import type { Clock } from '../../core/clock/clock.ts';
import { headerListSize } from '../../core/rpc/header-list-size.ts';
import { removeStaleSocket } from '../../core/plane/stale-socket.ts';
import type { AdminCall } from '../../core/plane/stream.ts';
import { serveAdminCalls } from './admin-calls.ts';
import type { ListenAddress } from '../../core/config/config-values.ts';
import { answerClientErrors, Connections } from './connections.ts';
import { cannotListen } from './free-ports.ts';

export interface ListenerLimits {
  readonly maxHeaderBytes: number;
  readonly maxConnections: number;
  readonly requestSeconds: number;
}

export interface Listener {
  /** With the port that the system chose if the configured port is 0. */
  readonly address: { readonly host: string; readonly port: number };
  /** Accepts no new connections. Resolves when the open ones have ended, or after `withinMs`. */
  close(withinMs: number): Promise<void>;
}

/** The site closes a connection that is idle for this time between requests. */
const keepAliveMs = 120_000;
/** Timeout for the headers of a request, against slow-loris attacks. */
const headSeconds = 10;
const handshakeMs = 10_000;
/** TCP keep-alive delay, to detect vanished clients. Watches may be silent for long. */
const probeAfterMs = 30_000;
/** How often node:http checks the timeouts. */
const checkIntervalMs = 2_000;
/** As many watches as kube-apiserver lets through one connection, times four. */
const maxConcurrentStreams = 1_000;

type Handler = (request: never, response: never) => void;

/** HTTP/1.1 and HTTP/2 by ALPN on one TLS port. */
export async function listenTls(
  address: ListenAddress,
  tls: SecureServerOptions,
  limits: ListenerLimits,
  handler: Handler,
  clock: Clock,
  /** Called before the first connection. */
  guard: (server: Http2SecureServer) => void = () => undefined,
): Promise<Listener & { readonly server: Http2SecureServer }> {
  const server = createSecureServer(
    {
      ...tls,
      allowHTTP1: true,
      handshakeTimeout: handshakeMs,
      maxHeaderSize: limits.maxHeaderBytes,
      maxHeaderListPairs: 256,
      connectionsCheckingInterval: checkIntervalMs,
      keepAlive: true,
      keepAliveInitialDelay: probeAfterMs,
      settings: { maxConcurrentStreams, maxHeaderListSize: limits.maxHeaderBytes },
    } as SecureServerOptions,
    boundHeaders(limits, handler) as never,
  );
  guard(server);
  // With allowHTTP1, the HTTP/1.1 limits are properties of the same server.
  Object.assign(server, {
    ...timeoutsOf(limits),
    keepAliveTimeout: keepAliveMs,
  });
  server.maxConnections = limits.maxConnections;
  server.on('session', (session) => session.setTimeout(keepAliveMs, () => session.close()));
  answerClientErrors(server, clock);
  const connections = new Connections(server, 'tls');
  await listen(server, { host: address.host, port: address.port });
  return {
    server,
    address: boundTo(server, address),
    close: (withinMs) => connections.close(withinMs, clock),
  };
}

/**
 * node:http2 applies the limit of the settings when the client has acknowledged them, which a client may
 * never do. Then it accepts 64 KiB, or more by references to the table of HPACK.
 */
function boundHeaders({ maxHeaderBytes }: ListenerLimits, handler: Handler): Handler {
  return (request: never, response: never) => {
    const { httpVersionMajor, headers, stream } = request as Http2ServerRequest;
    if (httpVersionMajor === 2 && headerListSize(headers) > maxHeaderBytes) {
      stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    } else handler(request, response);
  };
}

/** Plain HTTP/1.1: metrics on loopback. */
export async function listenPlain(
  address: ListenAddress,
  limits: ListenerLimits,
  handler: RequestListener,
  clock: Clock,
): Promise<Listener> {
  const server = plainServer(limits, handler);
  const connections = new Connections(server, 'plain');
  await listen(server, { host: address.host, port: address.port });
  return {
    address: boundTo(server, address),
    close: (withinMs) => connections.close(withinMs, clock),
  };
}

/** HTTP/1.1, and gRPC for `calls`, on a Unix socket that only its owner may open. */
export async function listenSocket(
  path: string,
  limits: ListenerLimits,
  handler: RequestListener,
  clock: Clock,
  calls: readonly AdminCall[] = [],
): Promise<Listener> {
  await removeStaleSocket(path);
  const server = plainServer(limits, handler);
  serveAdminCalls(server, calls);
  const connections = new Connections(server, 'plain');
  // Created with the narrowest mode, so that other users can never connect.
  const before = process.umask(0o177);
  try {
    await listen(server, { path });
  } finally {
    process.umask(before);
  }
  chmodSync(path, 0o600);
  return {
    address: { host: path, port: 0 },
    close: (withinMs) => connections.close(withinMs, clock),
  };
}

/** node:http requires that the header timeout is not longer than the request timeout. */
function timeoutsOf({ requestSeconds }: ListenerLimits) {
  return {
    headersTimeout: Math.min(headSeconds, requestSeconds) * 1000,
    requestTimeout: requestSeconds * 1000,
  };
}

function plainServer(limits: ListenerLimits, handler: RequestListener): Server {
  const server = createServer(
    {
      maxHeaderSize: limits.maxHeaderBytes,
      ...timeoutsOf(limits),
      keepAliveTimeout: keepAliveMs,
      connectionsCheckingInterval: checkIntervalMs,
      keepAlive: true,
      keepAliveInitialDelay: probeAfterMs,
    },
    handler,
  );
  server.maxConnections = limits.maxConnections;
  return server;
}

function listen(
  server: NetServer,
  where: { host?: string; port?: number; path?: string },
): Promise<void> {
  return new Promise((resolve, reject) => {
    // Never removed: a later accept error (no file descriptors left) must not end the daemon.
    server.on('error', (error: NodeJS.ErrnoException) =>
      reject(cannotListen(where.path ?? `${where.host}:${where.port}`, error)),
    );
    server.listen(where, () => resolve());
  });
}

function boundTo(server: NetServer, asked: ListenAddress): { host: string; port: number } {
  const bound = server.address();
  return {
    host: asked.host,
    port: typeof bound === 'object' && bound !== null ? bound.port : asked.port,
  };
}
