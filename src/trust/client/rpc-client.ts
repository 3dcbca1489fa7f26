// The client side of one gRPC call over an already verified TLS connection.

import { type ClientHttp2Stream, connect } from 'node:http2';
import type { TLSSocket } from 'node:tls';
import { HansaError } from '../../core/errors/error.ts';
import { saidBy } from '../../core/errors/remote-words.ts';
import { encodeFrame, FrameReader } from '../../core/rpc/frames.ts';
import { decodeStatusMessage, errorOfRpcStatus, rpcStatus } from '../../core/rpc/status.ts';

export interface RpcClientOptions {
  /** For messages: what cannot be done when the call ends. */
  readonly purpose: string;
  readonly maxAnswerBytes: number;
}

const joining: RpcClientOptions = {
  purpose: 'join',
  // A bundle of many authorities, and an SVID.
  maxAnswerBytes: 4 * 1024 * 1024,
};

export class RpcClientCall {
  readonly #stream: ClientHttp2Stream;
  readonly #frames: FrameReader;
  readonly #authority: string;
  readonly #purpose: string;
  readonly #chunks: AsyncIterator<Uint8Array>;
  readonly #close: () => void;
  #status: string | undefined;
  #message = '';
  /** The HTTP status of an answer that is not gRPC. */
  #otherStatus: number | undefined;

  /** The connection is for this call alone, and ends with it. */
  constructor(
    socket: TLSSocket,
    authority: string,
    path: string,
    { purpose, maxAnswerBytes }: RpcClientOptions = joining,
  ) {
    this.#authority = authority;
    this.#purpose = purpose;
    this.#frames = new FrameReader(maxAnswerBytes);
    const session = connect(`https://${authority}`, { createConnection: () => socket });
    // What goes wrong with the connection shows in the stream.
    session.on('error', () => undefined);
    this.#stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    const learn = (headers: Readonly<Record<string, unknown>>): void => {
      if (typeof headers['grpc-status'] === 'string') this.#status = headers['grpc-status'];
      if (typeof headers['grpc-message'] === 'string') this.#message = headers['grpc-message'];
    };
    this.#stream.on('response', (headers) => {
      learn(headers);
      if (headers['content-type']?.startsWith('application/grpc') !== true)
        this.#otherStatus = headers[':status'] ?? 0;
    });
    this.#stream.on('trailers', learn);
    this.#stream.on('error', () => undefined);
    this.#chunks = (this.#stream as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]();
    this.#close = () => session.destroy();
  }

  write(message: Uint8Array): void {
    this.#stream.write(encodeFrame(message));
  }

  /** Bytes that the server has not read yet. */
  get backlogBytes(): number {
    return this.#stream.writableLength;
  }

  /** The next message. Throws what the server answered instead, or HANSA_UNREACHABLE. */
  async read(): Promise<Buffer> {
    for (;;) {
      if (this.#otherStatus !== undefined) throw this.#over();
      const message = this.#frames.take();
      if (message !== undefined) return message;
      const next = await this.#next();
      if (next.done === true) throw this.#over();
      this.#frames.push(next.value);
    }
  }

  /** Ends the connection. */
  close(): void {
    this.#close();
  }

  async #next(): Promise<IteratorResult<Uint8Array>> {
    try {
      return await this.#chunks.next();
    } catch (cause) {
      throw this.#over(cause);
    }
  }

  #over(cause?: unknown): HansaError {
    if (this.#otherStatus !== undefined && this.#status === undefined) {
      return new HansaError(
        'HANSA_UNREACHABLE',
        `Cannot ${this.#purpose}: the server answered with HTTP status ${this.#otherStatus}, and not with gRPC. Check that the URL is the federation listener of the site (hansa status shows it), and not its api listener.`,
        { cause },
      );
    }
    if (this.#status === undefined || this.#status === String(rpcStatus.ok)) {
      return new HansaError(
        'HANSA_UNREACHABLE',
        `Cannot ${this.#purpose}: the site ended the call without a response. Check that the URL is its federation listener.`,
        { cause },
      );
    }
    const code = Number(this.#status);
    const message = saidBy(`The site at ${this.#authority}`, decodeStatusMessage(this.#message));
    return errorOfRpcStatus({ code, message });
  }
}
