// One request to an API server: it waits for a connection, sends, and hands the response to a
// reader, until its deadline or its signal.

import type { IncomingMessage, RequestOptions } from 'node:http';
import type { Clock, Timer } from '../clock/clock.ts';
import { HansaError } from '../errors/error.ts';
import type { ConnectionPool, PooledConnection, Waiter } from './connection-pool.ts';
import type { KubeRequest, KubeResponse } from './kube-client.ts';
import { printableText, unreachable, unreachableBy } from './kube-errors.ts';

const defaultTimeoutMs = 10_000;
const defaultMaxBytes = 4 * 1024 * 1024;
/** Most interim responses (RFC 9110 §15.2) before the final one. */
const maxInterim = 8;

export interface CallOptions {
  readonly request: KubeRequest;
  readonly wire: RequestOptions;
  readonly body: Buffer | undefined;
  readonly pool: ConnectionPool;
  /** Host and port of the server, for messages. */
  readonly where: string;
  readonly clock: Clock;
}

export interface Answer {
  readonly message: IncomingMessage;
  readonly connection: PooledConnection;
}

/** Resolves with the whole response. */
export function callForResponse(options: CallOptions): Promise<KubeResponse> {
  return new Promise((resolve, reject) => {
    const call = new Call(options, reject, ({ message }) => {
      const { request, where } = options;
      readAll(message, request.maxBytes ?? defaultMaxBytes, where, (error, body) => {
        if (body === undefined) call.fail(error);
        else if (call.end()) {
          resolve({ status: message.statusCode ?? 0, headers: headersOf(message), body });
        }
      });
    });
    call.begin();
  });
}

/** Resolves when the headers of the response are here. The caller reads the body, and ends the connection. */
export function callForAnswer(options: CallOptions): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const call = new Call(options, reject, (answer) => {
      if (call.end()) resolve(answer);
    });
    call.begin();
  });
}

class Call implements Waiter {
  readonly #options: CallOptions;
  readonly #reject: (reason: unknown) => void;
  readonly #read: (answer: Answer) => void;
  #timer: Timer | undefined;
  #connection: PooledConnection | undefined;
  #isOver = false;
  #isResent = false;

  constructor(
    options: CallOptions,
    reject: (reason: unknown) => void,
    read: (answer: Answer) => void,
  ) {
    this.#options = options;
    this.#reject = reject;
    this.#read = read;
  }

  begin(): void {
    const { request, clock, where, pool } = this.#options;
    const { timeoutMs = defaultTimeoutMs, signal } = request;
    this.#timer = clock.timer(timeoutMs, () =>
      this.fail(unreachable(where, 'timeout', `it did not answer within ${timeoutMs} ms`)),
    );
    signal?.addEventListener('abort', this.#onAbort, { once: true });
    if (signal?.aborted === true) this.#onAbort();
    else pool.take(this);
  }

  /** False where the call is over already. */
  end(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#timer?.cancel();
    this.#options.request.signal?.removeEventListener('abort', this.#onAbort);
    return true;
  }

  /** A half-read response makes the connection unusable. */
  readonly fail = (reason: unknown): void => {
    if (!this.end()) return;
    this.#options.pool.leave(this);
    this.#connection?.destroy();
    this.#reject(reason);
  };

  readonly onFailure = this.fail;

  onConnection(connection: PooledConnection): void {
    const { wire, body, where } = this.#options;
    this.#connection = connection;
    const out = connection.request(wire);
    let hasResponse = false;
    let interim = 0;
    out.on('error', (cause: NodeJS.ErrnoException) => {
      if (!hasResponse && this.#isStale(connection, cause)) this.#resend(connection);
      else this.fail(cause instanceof HansaError ? cause : unreachableBy(where, cause));
    });
    out.on('information', () => {
      interim++;
      if (interim <= maxInterim) return;
      const why = `it sent more than ${maxInterim} interim responses`;
      this.fail(unreachable(where, 'protocol', why));
    });
    out.on('upgrade', () =>
      this.fail(unreachable(where, 'protocol', 'it wants to speak another protocol than HTTP')),
    );
    out.on('response', (message) => {
      hasResponse = true;
      const { statusCode = 0 } = message;
      if (statusCode >= 300 && statusCode < 400) {
        this.fail(unreachable(where, 'protocol', redirectText(message)));
      } else this.#read({ message, connection });
    });
    out.end(body);
  }

  readonly #onAbort = (): void => this.fail(this.#options.request.signal?.reason);

  /** The server closed an idle connection just when we used it. */
  #isStale(connection: PooledConnection, { code }: NodeJS.ErrnoException): boolean {
    const { method, resendable = method === 'GET' } = this.#options.request;
    const isBroken = code === 'ECONNRESET' || code === 'EPIPE';
    return isBroken && connection.isReused && resendable && !this.#isResent && !this.#isOver;
  }

  #resend(connection: PooledConnection): void {
    this.#isResent = true;
    this.#connection = undefined;
    connection.destroy();
    this.#options.pool.take(this, true);
  }
}

function redirectText({ statusCode, headers }: IncomingMessage): string {
  const target = printableText(headers.location ?? '', 256);
  return `it answered ${statusCode} and redirects to ${JSON.stringify(target)}, which is not followed. Use the URL of the API server itself`;
}

function readAll(
  message: IncomingMessage,
  maxBytes: number,
  where: string,
  done: (error: HansaError | undefined, body?: Buffer) => void,
): void {
  const tooLarge = (): void =>
    done(
      new HansaError(
        'HANSA_TOO_LARGE',
        `Cannot read the response of the API server ${where}: it has more than ${maxBytes} bytes.`,
      ),
    );
  message.on('error', (cause: NodeJS.ErrnoException) => done(unreachableBy(where, cause)));
  if (Number(message.headers['content-length']) > maxBytes) {
    tooLarge();
    return;
  }
  const chunks: Buffer[] = [];
  let length = 0;
  message.on('data', (chunk: Buffer) => {
    length += chunk.length;
    chunks.push(chunk);
    if (length > maxBytes) tooLarge();
  });
  message.on('end', () => {
    done(undefined, chunks.length === 1 ? chunks[0] : Buffer.concat(chunks, length));
  });
}

/** node joins repeated headers into one text, except this one. */
export function headersOf({ headers }: IncomingMessage): KubeResponse['headers'] {
  const { 'set-cookie': cookies, ...texts } = headers;
  const all = cookies === undefined ? headers : { ...texts, 'set-cookie': cookies.join(', ') };
  return all as KubeResponse['headers'];
}
