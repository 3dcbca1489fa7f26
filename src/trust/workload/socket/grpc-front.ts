// Looks at every stream of the workload socket before grpc-js. grpc-js answers many calls itself (a wrong
// content type, an unknown method, a deadline) and leaves their streams open for as long as the caller
// likes, with all their headers. Here each open stream counts for its user, and an answered one ends.

import type { Server as GrpcServer } from '@grpc/grpc-js';
import { ServerCredentials, status } from '@grpc/grpc-js';
import {
  constants,
  type Http2Server,
  type IncomingHttpHeaders,
  type Http2Session,
  type ServerHttp2Stream,
  type ServerOptions,
} from 'node:http2';
import { headerListSize } from '../../../core/rpc/header-list-size.ts';
import { watchRequest } from './request-memory.ts';
import type { GuardRefusal } from './stream-guard.ts';
import type { TurnTakingSocket } from './turn-taking-socket.ts';
import type { WorkloadConnection } from './workload-connections.ts';

/** The default of gRPC. An honest call has about 300 bytes. */
const maxHeaderBytes = 8 * 1024;
/** What an open stream costs beside its headers and its request, measured with 2,048 of them. */
export const streamBytes = 24 * 1024;

export interface FrontOptions {
  readonly refused: (why: GuardRefusal, connection: WorkloadConnection) => void;
}

/** grpc-js has no options for these settings, and no hook before its own handler. */
interface Inside {
  readonly commonServerOptions: ServerOptions;
  readonly http2Servers: ReadonlyMap<Http2Server, unknown>;
}

interface Entered {
  readonly connection: WorkloadConnection;
  readonly socket: TurnTakingSocket;
}

type StreamListener = (
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  flags: number,
) => void;

/** The result gives a connection to the server. */
export function grpcFront(
  server: GrpcServer,
  { refused }: FrontOptions,
): (socket: TurnTakingSocket, connection: WorkloadConnection) => void {
  const inside = server as unknown as Inside;
  const { commonServerOptions: options } = inside;
  // A client that knows the limit fails at once, with a message. For others, `look` counts.
  options.settings = { ...options.settings, maxHeaderListSize: maxHeaderBytes };
  options.maxSendHeaderBlockLength = maxHeaderBytes;
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  const [http2] = inside.http2Servers.keys();
  const [serve, ...others] = (http2?.listeners('stream') ?? []) as StreamListener[];
  if (http2 === undefined || serve === undefined || others.length > 0) {
    throw new Error('grpc-js has changed: its server has not one listener for streams');
  }
  const sessions = new WeakMap<Http2Session, Entered>();
  let entering: Entered | undefined;
  http2.on('session', (session: Http2Session) => {
    if (entering === undefined) return;
    sessions.set(session, entering);
    // What gRPC shows of a call's origin is this property; a Unix socket has no address of its own.
    const socket = session.socket.setMaxListeners(0);
    Object.defineProperty(socket, 'remoteAddress', { value: entering.connection.name });
  });
  const look: StreamListener = (stream, headers, flags) => {
    stream.on('error', () => undefined);
    const { session } = stream;
    const entered = session && sessions.get(session);
    // Its caller has reset it already. gRPC would answer, which throws.
    if (entered === undefined || stream.destroyed || stream.closed) return;
    const { connection, socket } = entered;
    const bytes = headerListSize(headers);
    const fits = connection.hold(streamBytes + bytes);
    stream.once('close', () => connection.hold(-streamBytes - bytes));
    resetWhenAnswered(stream, entered);
    const refuse = (why: GuardRefusal, details: string): void => {
      refused(why, connection);
      stream.respond(
        {
          ':status': 200,
          'content-type': 'application/grpc',
          'grpc-status': status.RESOURCE_EXHAUSTED,
          'grpc-message': details,
        },
        { endStream: true },
      );
    };
    if (bytes > maxHeaderBytes) {
      refuse(
        'flood',
        `The metadata of the call is too large: the limit is ${maxHeaderBytes} bytes.`,
      );
      connection.close();
    } else if (!fits) {
      refuse('limit', 'The calls of this user hold too much memory. Try again later.');
    } else {
      serve(stream, headers, flags);
      watchRequest(stream, {
        hold: (more) => connection.hold(more),
        end: () => socket.endFlood(),
      });
    }
  };
  http2.removeAllListeners('stream').on('stream', look);
  return (socket, connection) => {
    entering = { connection, socket };
    injector.injectConnection(socket);
    entering = undefined;
  };
}

/**
 * RFC 9113 section 8.1: after a complete answer, a server may reset a stream whose request is not complete.
 * Few honest clients ever see that, so a connection that has many such streams is closed.
 */
function resetWhenAnswered(stream: ServerHttp2Stream, { connection, socket }: Entered): void {
  const answered = (): void => {
    if (stream.destroyed || stream.state.remoteClose === 1) return;
    // nghttp2 drops what it has not sent yet, so the end of the answer goes first.
    if (stream.state.localClose !== 1) {
      socket.once('written', answered);
      return;
    }
    stream.close(constants.NGHTTP2_NO_ERROR);
    connection.refuse();
  };
  stream.once('close', () => socket.off('written', answered));
  // Without trailers. Those come after this event.
  stream.once('finish', () => {
    const { sentHeaders } = stream;
    if (sentHeaders?.['grpc-status'] !== undefined || sentHeaders?.[':status'] !== 200) answered();
  });
  // gRPC hands over trailers in a later listener of this event.
  stream.once('wantTrailers', () => queueMicrotask(answered));
}
