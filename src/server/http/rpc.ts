// gRPC on a TLS port that HTTP shares (PROTOCOL-HTTP2): streams of HTTP/2 with the content type
// application/grpc. Messages are bytes here; what they mean is the plane's. grpc-js is not used,
// because it shows nobody the connection, and with it the TLS exporter.

import type { Http2ServerRequest, Http2ServerResponse, ServerHttp2Stream } from 'node:http2';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError, toHansaError } from '../../core/errors/error.ts';
import type { Log } from '../../core/log/log.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import type { PlaneCall, PlaneRpc } from '../../core/plane/stream.ts';
import { encodeFrame, FrameReader } from '../../core/rpc/frames.ts';
import {
  encodeStatusMessage,
  parseTimeout,
  rpcStatus,
  rpcStatusOf,
} from '../../core/rpc/status.ts';
import type { Request, Response } from './exchange.ts';

export interface RpcFrontParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly rpcs: readonly PlaneRpc[];
  /** Throws to refuse the call; what it returns is called when the call is over. */
  readonly enter: (request: Request) => () => void;
  /** Told of calls that were refused before a method was asked, or that took too long. */
  readonly refused: (request: Request, path: string, error: HansaError) => void;
}

/** gRPC has its statuses in trailers: an HTTP status other than this means that nobody spoke gRPC. */
const httpOk = 200;
const contentType = 'application/grpc';
const noMethod = 'none';
const lingerMs = 1_000;

/** application/grpc, with or without a message format; not application/grpc-web. */
export function isRpc(request: Request): boolean {
  const type = request.headers['content-type'];
  return type !== undefined && /^application\/grpc(?:[+;]|$)/.test(type);
}

export class RpcFront {
  readonly #parts: RpcFrontParts;
  readonly #methods: ReadonlyMap<string, PlaneRpc>;
  readonly #calls;

  constructor(parts: RpcFrontParts) {
    this.#parts = parts;
    this.#methods = new Map(parts.rpcs.map((rpc) => [rpc.path, rpc]));
    this.#calls = parts.metrics.counter({
      name: 'hansa_federation_rpcs_total',
      help: 'gRPC calls on the federation listener, by method and gRPC status.',
      labels: ['method', 'code'],
    });
  }

  readonly listener = (request: Request, response: Response): void => {
    if (request.httpVersionMajor !== 2) {
      // gRPC is not spoken over HTTP/1.1.
      response.statusCode = 505;
      response.setHeader('connection', 'close');
      response.end();
      return;
    }
    void this.#serve(request as Http2ServerRequest, response as Http2ServerResponse);
  };

  /** Never rejects. */
  async #serve(request: Http2ServerRequest, response: Http2ServerResponse): Promise<void> {
    const path = request.url;
    const method = this.#methods.get(path);
    const name = method === undefined ? noMethod : path;
    let leave: (() => void) | undefined;
    let status: { readonly code: number; readonly message: string } = {
      code: rpcStatus.ok,
      message: '',
    };
    try {
      leave = this.#parts.enter(request);
      if (request.method !== 'POST' || method === undefined) {
        throw new HansaError('HANSA_METHOD_NOT_ALLOWED', `There is no method ${name} here.`);
      }
      refuseEncoding(request);
      await this.#call(request, response, method);
    } catch (caught) {
      const error = toHansaError(caught);
      if (error.code === 'HANSA_INTERNAL') {
        this.#parts.log.error('a gRPC call failed', { error: error.cause, method: name });
      }
      if (error.code === 'HANSA_TOO_MANY_REQUESTS' || error.code === 'HANSA_TIMEOUT') {
        this.#parts.refused(request, name, error);
      }
      status = rpcStatusOf(error);
    }
    leave?.();
    this.#calls.add({ method: name, code: String(status.code) });
    end(request, response, status, this.#parts.clock);
  }

  async #call(
    request: Http2ServerRequest,
    response: Http2ServerResponse,
    method: PlaneRpc,
  ): Promise<void> {
    const over = new AbortController();
    const asked = parseTimeout(headerOf(request, 'grpc-timeout') ?? '');
    const withinMs = Math.min(method.withinMs, asked ?? method.withinMs);
    const timer = this.#parts.clock.timer(withinMs, () =>
      over.abort(new HansaError('HANSA_TIMEOUT', 'The call took too long.')),
    );
    const gone = (): void =>
      over.abort(new HansaError('HANSA_UNAVAILABLE', 'The caller ended the call.'));
    request.once('close', gone);
    request.once('error', gone);
    try {
      const call = new RpcCall(request, response, method.maxMessageBytes, over.signal);
      await Promise.race([method.handle(call), whenAborted(over.signal)]);
    } finally {
      timer.cancel();
      request.removeListener('close', gone);
    }
  }
}

class RpcCall implements PlaneCall {
  readonly address: string | undefined;
  readonly signal: AbortSignal;
  readonly #request: Http2ServerRequest;
  readonly #response: Http2ServerResponse;
  readonly #frames: FrameReader;
  readonly #chunks: AsyncIterator<Uint8Array>;
  /** What waits for the caller, to be told when the call is over. */
  readonly #waiting = new Set<(reason: unknown) => void>();

  constructor(
    request: Http2ServerRequest,
    response: Http2ServerResponse,
    maxMessageBytes: number,
    signal: AbortSignal,
  ) {
    this.#request = request;
    this.#response = response;
    this.#frames = new FrameReader(maxMessageBytes);
    // Nothing is read before it is asked for: HTTP/2 then lets the caller send no more than its window.
    this.#chunks = (request as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]();
    this.signal = signal;
    // One listener for all waits: with one for each, a signal looks through all before it adds another.
    signal.addEventListener('abort', () => this.#interrupt(), { once: true });
    this.address = request.socket.remoteAddress;
  }

  exportKeyingMaterial(label: string, length: number): Buffer {
    const socket = this.#request.stream.session?.socket as TLSSocket | undefined;
    // Before TLS 1.3, two connections can be made to have the same exporter (RFC 7627 §1).
    if (socket?.getProtocol() !== 'TLSv1.3') {
      throw new HansaError('HANSA_BAD_REQUEST', 'This method needs a connection with TLS 1.3.');
    }
    return socket.exportKeyingMaterial(length, label, Buffer.alloc(0));
  }

  async read(): Promise<Buffer | undefined> {
    for (;;) {
      this.signal.throwIfAborted();
      const message = this.#frames.take();
      if (message !== undefined) return message;
      const next = await this.#unlessOver(this.#next());
      if (next.done === true) {
        this.#frames.finish();
        return undefined;
      }
      this.#frames.push(next.value);
    }
  }

  async #next(): Promise<IteratorResult<Uint8Array>> {
    try {
      return await this.#chunks.next();
    } catch (cause) {
      throw new HansaError('HANSA_BAD_REQUEST', 'The stream was broken off.', { cause });
    }
  }

  async write(message: Uint8Array): Promise<void> {
    this.signal.throwIfAborted();
    begin(this.#response);
    if (this.#response.write(encodeFrame(message))) return;
    const drained = new Promise<void>((resolve) => {
      this.#response.once('drain', resolve);
    });
    await this.#unlessOver(drained);
  }

  async #unlessOver<T>(work: Promise<T>): Promise<T> {
    const { promise: over, reject } = Promise.withResolvers<never>();
    this.#waiting.add(reject);
    try {
      return await Promise.race([work, over]);
    } finally {
      this.#waiting.delete(reject);
    }
  }

  #interrupt(): void {
    for (const reject of this.#waiting) reject(this.signal.reason);
    this.#waiting.clear();
  }
}

function whenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason as Error);
    else signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
}

/** compression.md: what the server cannot decompress is UNIMPLEMENTED, with what it accepts. */
function refuseEncoding(request: Request): void {
  const encoding = headerOf(request, 'grpc-encoding');
  if (encoding !== undefined && encoding !== 'identity') {
    throw new HansaError(
      'HANSA_METHOD_NOT_ALLOWED',
      'Messages in another encoding than identity are not accepted.',
    );
  }
}

function headerOf(request: Request, name: string): string | undefined {
  const value = request.headers[name];
  return typeof value === 'string' ? value : undefined;
}

function begin(response: Http2ServerResponse): void {
  if (response.headersSent) return;
  response.writeHead(httpOk, {
    'content-type': contentType,
    'grpc-accept-encoding': 'identity',
  });
}

function end(
  request: Http2ServerRequest,
  response: Http2ServerResponse,
  { code, message }: { readonly code: number; readonly message: string },
  clock: Clock,
): void {
  if (response.stream.destroyed || response.writableEnded) return;
  begin(response);
  response.addTrailers({
    'grpc-status': String(code),
    ...(message === '' ? {} : { 'grpc-message': encodeStatusMessage(message) }),
  });
  if (!request.complete) closeLater(response.stream, clock);
  response.end();
}

/**
 * Callers end their half when they see the status. Where one does not, what it still sends is not
 * read, and the stream is closed without blame: not at once, because nghttp2 lets that overtake the
 * status.
 */
function closeLater(stream: ServerHttp2Stream, clock: Clock): void {
  const timer = clock.timer(lingerMs, () => stream.close());
  stream.once('close', () => timer.cancel());
}
