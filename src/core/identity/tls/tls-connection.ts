// One TLS connection to one verified server. Requests are HTTP/1.1, one after another, and redirects
// are not followed.

import { Agent, type IncomingMessage, request as httpRequest } from 'node:http';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import type { Clock, Timer } from '../../clock/clock.ts';
import { HansaError } from '../../errors/error.ts';
import { GatheredBytes } from '../../memory/gathered-bytes.ts';
import type { Certificate } from '../x509/certificate.ts';
import { inWords } from './connect-failure.ts';
import { readPeerChain } from './peer-chain.ts';
import type {
  Connection,
  ConnectOptions,
  RequestLimits,
  TransportRequest,
  TransportResponse,
} from './transport.ts';
import type { WebJudge } from './web-transport.ts';

const maxHeaderBytes = 16 * 1024;
/** Most interim responses (RFC 9110 §15.2) before the final one: a server needs one or two. */
const maxInterim = 8;

export class TlsConnection implements Connection {
  /** Resolves when the server is verified; rejects where it is invalid or did not answer. */
  readonly verified: Promise<void>;
  readonly #socket: TLSSocket;
  readonly #where: string;
  readonly #agent: Agent;
  /** Why the connection ended. Pending calls reject with it. */
  #ended: unknown;
  readonly #waiting = new Set<(reason: unknown) => void>();
  /** Ends the time limit and the signal of the connection itself. */
  readonly #release: () => void;
  readonly #closed: (() => void) | undefined;
  readonly #clock: Clock;
  readonly #quietMs: number | undefined;
  #quiet: Timer | undefined;
  #heardAtMs = 0;
  #chain: readonly Certificate[] = [];

  constructor(
    socket: TLSSocket,
    options: ConnectOptions,
    clock: Clock,
    judge: WebJudge | undefined,
    /** The part of `timeoutMs` that connecting took. */
    spentMs: number,
  ) {
    const { url, timeoutMs, signal } = options;
    this.#socket = socket;
    this.#clock = clock;
    this.#quietMs = options.quietMs;
    this.#where = url.host;
    this.#agent = new OneSocketAgent(socket, () => this.#unreachable('it closed the connection'));
    this.#closed = options.kept?.closed;
    this.#release = this.#limit({ timeoutMs, signal }, spentMs);
    socket.on('error', (cause: Error) =>
      this.#end(cause instanceof HansaError ? cause : this.#unreachable(inWords(cause), cause)),
    );
    socket.on('close', () => this.#end(this.#unreachable('it closed the connection')));
    this.#heard();
    this.verified = new Promise((resolve, reject) => {
      this.#waiting.add(reject);
      socket.once('secureConnect', () => {
        try {
          this.#heard();
          if (judge === undefined) this.#chain = readPeerChain(socket);
          else judge.judge(socket);
          options.verify(this.#chain);
          this.#waiting.delete(reject);
          if (options.kept !== undefined) this.#release();
          resolve();
        } catch (caught) {
          this.#end(caught);
        }
      });
    });
  }

  get peerChain(): readonly Certificate[] {
    return this.#chain;
  }

  request(
    request: TransportRequest,
    maxBytes: number,
    limits?: RequestLimits,
  ): Promise<TransportResponse> {
    if (limits?.signal?.aborted === true) return Promise.reject(limits.signal.reason);
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    return new Promise((resolve, reject) => {
      const release = limits && this.#limit(limits);
      const settle = (act: () => void): void => {
        release?.();
        this.#waiting.delete(fail);
        act();
      };
      const fail = (reason: unknown): void => settle(() => reject(reason));
      this.#waiting.add(fail);
      const { method, path, headers = {}, body } = request;
      const out = httpRequest({
        agent: this.#agent,
        method,
        path,
        headers: {
          host: this.#where,
          ...headers,
          ...(body && { 'content-length': body.byteLength }),
        },
        maxHeaderSize: maxHeaderBytes,
      });
      out.on('error', (cause: Error) => {
        this.#end(this.#unreachable(inWords(cause), cause));
      });
      let interim = 0;
      out.on('information', () => {
        interim++;
        if (interim <= maxInterim) return;
        this.#end(this.#unreachable(`it sent more than ${maxInterim} interim responses`));
      });
      out.on('response', (answer) => {
        this.#heard();
        readAll(answer, maxBytes, this.#where, () => this.#heard()).then(
          (whole) =>
            settle(() =>
              resolve({
                status: answer.statusCode ?? 0,
                headers: flatHeaders(answer.headers),
                body: whole,
              }),
            ),
          (error: unknown) =>
            // A half-read response makes the connection unusable.
            this.#end(error),
        );
      });
      out.end(body);
    });
  }

  /** Ends the connection when the time is over or the signal aborts. Returns how to stop that. */
  #limit({ timeoutMs, signal }: RequestLimits, spentMs = 0): () => void {
    const timer = this.#clock.timer(timeoutMs - spentMs, () =>
      this.#end(this.#unreachable(`it did not answer within ${timeoutMs} ms`)),
    );
    const onAbort = (): void => this.#end(signal?.reason);
    signal?.addEventListener('abort', onAbort, { once: true });
    return () => {
      timer.cancel();
      signal?.removeEventListener('abort', onAbort);
    };
  }

  /** Restarts the idle timeout when data arrives. Cheap, because some servers send byte by byte. */
  #heard(): void {
    const quietMs = this.#quietMs;
    if (quietMs === undefined || this.#ended !== undefined) return;
    this.#heardAtMs = this.#clock.monotonic();
    this.#quiet ??= this.#clock.timer(quietMs, () => this.#listen(quietMs));
  }

  #listen(quietMs: number): void {
    const leftMs = this.#heardAtMs + quietMs - this.#clock.monotonic();
    if (leftMs <= 0) this.#end(this.#unreachable(`it sent nothing for ${quietMs} ms`));
    else this.#quiet = this.#clock.timer(leftMs, () => this.#listen(quietMs));
  }

  close(): void {
    this.#end(this.#unreachable('the connection was closed'));
  }

  #end(reason: unknown): void {
    if (this.#ended !== undefined) return;
    this.#ended = reason ?? this.#unreachable('the call was cancelled');
    this.#release();
    this.#quiet?.cancel();
    this.#agent.destroy();
    this.#socket.destroy();
    for (const reject of this.#waiting) reject(this.#ended);
    this.#waiting.clear();
    this.#closed?.();
  }

  #unreachable(why: string, cause?: unknown): HansaError {
    return new HansaError('HANSA_UNREACHABLE', `Cannot call ${this.#where}: ${why}.`, { cause });
  }
}

/** Hands out the one socket that was verified, and never opens another. */
class OneSocketAgent extends Agent {
  #socket: TLSSocket | undefined;
  readonly #gone: () => Error;

  constructor(socket: TLSSocket, gone: () => Error) {
    super({ keepAlive: true, maxSockets: 1 });
    this.#socket = socket;
    this.#gone = gone;
  }

  override createConnection(
    _options: unknown,
    callback?: (error: Error | null, stream: Duplex) => void,
  ): TLSSocket | undefined {
    const socket = this.#socket;
    this.#socket = undefined;
    // Do not throw: node calls this inside the code that closes the socket.
    if (socket === undefined) (callback as ((error: Error) => void) | undefined)?.(this.#gone());
    return socket;
  }
}

function readAll(
  answer: IncomingMessage,
  maxBytes: number,
  where: string,
  heard: () => void,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const tooLarge = (): void => {
      answer.destroy();
      reject(
        new HansaError(
          'HANSA_TOO_LARGE',
          `Cannot read the response of ${where}: it has more than ${maxBytes} bytes.`,
        ),
      );
    };
    if (Number(answer.headers['content-length']) > maxBytes) {
      tooLarge();
      return;
    }
    const body = new GatheredBytes();
    answer.on('data', (chunk: Buffer) => {
      heard();
      if (body.length + chunk.length > maxBytes) tooLarge();
      else body.add(chunk);
    });
    answer.on('end', () => resolve(body.take()));
    answer.on('error', (cause: Error) =>
      reject(
        new HansaError(
          'HANSA_UNREACHABLE',
          `Cannot call ${where}: the connection ended before the response was complete.`,
          { cause },
        ),
      ),
    );
  });
}

function flatHeaders(headers: IncomingMessage['headers']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(', ') : (value ?? ''),
    ]),
  );
}
