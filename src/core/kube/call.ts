// One request to an API server: it waits for a connection, sends, and reads the response, until its
// deadline or its signal.

import { Readable } from 'node:stream';
import type { Clock, Timer } from '../clock/clock.ts';
import { HansaError } from '../errors/error.ts';
import { GatheredBytes } from '../memory/gathered-bytes.ts';
import type { ConnectionPool, Waiter } from './connection-pool.ts';
import { hideSecret } from './hide-tokens.ts';
import { HttpSyntaxError, type ResponseHead } from './http-response.ts';
import type { KubeRequest, KubeResponse } from './kube-client.ts';
import { printableText, unreachable, unreachableBy } from './kube-errors.ts';
import type { Exchange, KubeConnection } from './kube-connection.ts';

const defaultTimeoutMs = 10_000;
const defaultMaxBytes = 4 * 1024 * 1024;

export interface CallOptions {
  readonly request: KubeRequest;
  /** The request as it is sent. */
  readonly bytes: Buffer;
  readonly pool: ConnectionPool;
  /** Host and port of the server, for messages. */
  readonly where: string;
  readonly clock: Clock;
  /** The bearer token in `bytes`, which no error may repeat. */
  readonly secret: string | undefined;
}

/** Resolves with the whole response. */
export function callForResponse(options: CallOptions): Promise<KubeResponse> {
  return new Promise((resolve, reject) => new ResponseCall(options, resolve, reject).begin());
}

/** Resolves when the headers of the response are here. */
export function callForStream(options: CallOptions): Promise<BegunStream> {
  return new Promise((resolve, reject) => new StreamCall(options, resolve, reject).begin());
}

abstract class Call implements Waiter, Exchange {
  protected readonly options: CallOptions;
  protected connection: KubeConnection | undefined;
  readonly #reject: (reason: unknown) => void;
  #timer: Timer | undefined;
  #isOver = false;
  #isResent = false;

  constructor(options: CallOptions, reject: (reason: unknown) => void) {
    this.options = options;
    this.#reject = reject;
  }

  abstract onData(chunk: Buffer): void;
  abstract onEnd(): void;
  /** The headers of a response that is no redirect are here. */
  protected abstract onResponse(head: ResponseHead): void;

  begin(): void {
    const { request, clock, where, pool } = this.options;
    const { timeoutMs = defaultTimeoutMs, signal } = request;
    this.#timer = clock.timer(timeoutMs, () =>
      this.fail(unreachable(where, 'timeout', `it did not answer within ${timeoutMs} ms`)),
    );
    signal?.addEventListener('abort', this.#onAbort, { once: true });
    if (signal?.aborted === true) this.#onAbort();
    else pool.take(this);
  }

  onConnection(connection: KubeConnection): void {
    this.connection = connection;
    try {
      this.options.request.beforeSend?.();
    } catch (error) {
      this.fail(error);
      return;
    }
    connection.send(this.options.bytes, this);
  }

  onFailure(error: unknown): void {
    this.fail(error);
  }

  onHead(head: ResponseHead): void {
    if (this.#isOver) return;
    if (head.status >= 300 && head.status < 400) {
      this.fail(
        unreachable(this.options.where, 'protocol', redirectText(head, this.options.secret)),
      );
    } else this.onResponse(head);
  }

  onBroken(cause: NodeJS.ErrnoException, hasBegun: boolean): void {
    const { pool } = this.options;
    if (!hasBegun && this.#isStale(cause)) {
      this.#isResent = true;
      this.connection = undefined;
      pool.take(this, true);
    } else this.fail(this.describe(cause));
  }

  protected describe(cause: NodeJS.ErrnoException): HansaError {
    const { where } = this.options;
    return cause instanceof HttpSyntaxError
      ? unreachable(where, 'protocol', `its response is not valid: ${cause.message}`, cause)
      : unreachableBy(where, cause);
  }

  protected get isOver(): boolean {
    return this.#isOver;
  }

  /** False where the call is over already. */
  protected end(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#timer?.cancel();
    this.options.request.signal?.removeEventListener('abort', this.#onAbort);
    return true;
  }

  /** A half-read response makes the connection unusable. */
  protected fail(reason: unknown): void {
    if (!this.end()) return;
    this.options.pool.leave(this);
    this.connection?.destroy();
    this.#reject(reason);
  }

  readonly #onAbort = (): void => this.fail(this.options.request.signal?.reason);

  /** The server closed an idle connection just when we used it. */
  #isStale({ code }: NodeJS.ErrnoException): boolean {
    const { method, resendable = method === 'GET' } = this.options.request;
    const isReset = code === 'ECONNRESET' || code === 'EPIPE';
    const isReused = this.connection?.isReused === true;
    return isReset && isReused && resendable && !this.#isResent && !this.#isOver;
  }
}

class ResponseCall extends Call {
  readonly #resolve: (response: KubeResponse) => void;
  readonly #body = new GatheredBytes();
  #head: ResponseHead | undefined;

  constructor(
    options: CallOptions,
    resolve: (response: KubeResponse) => void,
    reject: (reason: unknown) => void,
  ) {
    super(options, reject);
    this.#resolve = resolve;
  }

  protected onResponse(head: ResponseHead): void {
    this.#head = head;
    if ((head.length ?? 0) > this.#maxBytes) this.#refuseLength();
  }

  onData(chunk: Buffer): void {
    if (this.isOver) return;
    this.#body.add(chunk);
    if (this.#body.length > this.#maxBytes) this.#refuseLength();
  }

  onEnd(): void {
    if (this.#head === undefined || !this.end()) return;
    const { status, headers } = this.#head;
    this.#resolve({ status, headers, body: this.#body.take() });
  }

  get #maxBytes(): number {
    return this.options.request.maxBytes ?? defaultMaxBytes;
  }

  #refuseLength(): void {
    const { where } = this.options;
    this.fail(
      new HansaError(
        'HANSA_TOO_LARGE',
        `Cannot read the response of the API server ${where}: it has more than ${this.#maxBytes} bytes.`,
      ),
    );
  }
}

export interface BegunStream {
  readonly head: ResponseHead;
  /** Destroying it ends the connection. */
  readonly body: Readable;
  readonly connection: KubeConnection;
}

class StreamCall extends Call {
  readonly #resolve: (stream: BegunStream) => void;
  #body: Readable | undefined;

  constructor(
    options: CallOptions,
    resolve: (stream: BegunStream) => void,
    reject: (reason: unknown) => void,
  ) {
    super(options, reject);
    this.#resolve = resolve;
  }

  protected onResponse(head: ResponseHead): void {
    const { connection } = this;
    if (connection === undefined || !this.end()) return;
    this.#body = new Readable({
      read: () => void connection.socket.resume(),
      destroy: (error, done) => {
        connection.destroy();
        done(error);
      },
    });
    this.#resolve({ head, body: this.#body, connection });
  }

  onData(chunk: Buffer): void {
    // A reader that is slow makes the server wait.
    if (this.#body?.push(chunk) === false) this.connection?.socket.pause();
  }

  onEnd(): void {
    this.#body?.push(null);
  }

  override onBroken(cause: NodeJS.ErrnoException, hasBegun: boolean): void {
    if (this.#body === undefined) super.onBroken(cause, hasBegun);
    else this.#body.destroy(this.describe(cause));
  }
}

function redirectText({ status, headers }: ResponseHead, secret = ''): string {
  const target = printableText(hideSecret(headers['location'] ?? '', secret), 256);
  return `it answered ${status} and redirects to ${JSON.stringify(target)}, which is not followed. Use the URL of the API server itself`;
}
