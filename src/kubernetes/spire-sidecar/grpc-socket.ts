// Unary gRPC calls over a Unix socket, on one HTTP/2 connection that opens again after a failure.

import { type ClientHttp2Session, connect, constants } from 'node:http2';
import { connect as connectSocket } from 'node:net';
import { HansaError } from '../../core/errors/error.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { encodeFrame, FrameReader } from '../../core/rpc/frames.ts';
import { decodeStatusMessage, rpcStatus } from '../../core/rpc/status.ts';

/** 500 entries of a page, or 50 bundles of an ordinary size, have less than a tenth. */
const maxAnswerBytes = 16 * 1024 * 1024;

/** The server answered with another status than OK. */
export class GrpcError extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.name = 'GrpcError';
    this.code = code;
  }
}

export interface GrpcCall {
  readonly path: string;
  readonly message: Uint8Array;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

export class GrpcSocket {
  readonly #path: string;
  readonly #clock: Clock;
  #session: ClientHttp2Session | undefined;

  constructor(path: string, clock: Clock) {
    this.#path = path;
    this.#clock = clock;
  }

  /**
   * Resolves to the message of the answer. Rejects with a GrpcError, with HANSA_UNREACHABLE where the server does
   * not answer, with HANSA_TIMEOUT, or with the reason of the signal. Never repeats a call.
   */
  async call({ path, message, timeoutMs, signal }: GrpcCall): Promise<Buffer> {
    signal?.throwIfAborted();
    const stream = this.#open().request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      // The server stops its work for a call that nobody waits for.
      'grpc-timeout': `${Math.ceil(timeoutMs)}m`,
    });
    return new Promise((resolve, reject) => {
      const frames = new FrameReader(maxAnswerBytes);
      let code: number | undefined;
      let words = '';
      let answer: Buffer | undefined;
      const finish = (settle: () => void): void => {
        timer.cancel();
        signal?.removeEventListener('abort', onAbort);
        settle();
      };
      const fail = (error: unknown): void => {
        finish(() => reject(error));
        stream.close(constants.NGHTTP2_CANCEL);
      };
      const onAbort = (): void => fail(signal?.reason);
      const timer = this.#clock.timer(timeoutMs, () =>
        fail(
          new HansaError('HANSA_TIMEOUT', `SPIRE did not answer ${path} within ${timeoutMs} ms.`),
        ),
      );
      const learn = (headers: Readonly<Record<string, unknown>>): void => {
        if (typeof headers['grpc-status'] === 'string') code = Number(headers['grpc-status']);
        if (typeof headers['grpc-message'] === 'string') {
          words = decodeStatusMessage(headers['grpc-message']);
        }
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      stream.on('response', learn);
      stream.on('trailers', learn);
      stream.on('data', (chunk: Buffer) => {
        try {
          frames.push(chunk);
          for (let next = frames.take(); next !== undefined; next = frames.take()) {
            answer ??= Buffer.from(next);
          }
        } catch (error) {
          fail(error);
        }
      });
      let cause: unknown;
      stream.on('error', (error) => {
        cause = error;
      });
      stream.once('close', () => {
        if (code === rpcStatus.ok && answer !== undefined) {
          const found = answer;
          finish(() => resolve(found));
        } else if (code !== undefined && code !== rpcStatus.ok) {
          const error = new GrpcError(code, words);
          finish(() => reject(error));
        } else {
          finish(() => reject(this.#unreachable(cause)));
        }
      });
      stream.end(encodeFrame(message));
    });
  }

  close(): void {
    this.#session?.destroy();
    this.#session = undefined;
  }

  #open(): ClientHttp2Session {
    if (this.#session !== undefined && !this.#session.closed && !this.#session.destroyed) {
      return this.#session;
    }
    const session = connect('http://localhost', {
      createConnection: () => connectSocket(this.#path),
    });
    const forget = (): void => {
      if (this.#session === session) this.#session = undefined;
    };
    // Streams report what goes wrong.
    session.on('error', forget).on('close', forget).on('goaway', forget);
    session.unref();
    this.#session = session;
    return session;
  }

  #unreachable(cause: unknown): HansaError {
    const why = cause instanceof Error ? cause.message : 'it ended the call';
    return new HansaError(
      'HANSA_UNREACHABLE',
      `Cannot reach the SPIRE server at ${this.#path}: ${why}.`,
      { cause },
    );
  }
}
