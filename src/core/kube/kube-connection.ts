// One connection to an API server. It carries one request at a time, and is free again when the
// response was read.

import type { TLSSocket } from 'node:tls';
import { type ResponseHandler, ResponseParser } from './http-response.ts';

export interface Exchange extends ResponseHandler {
  /** The connection ended before the response, or the response is invalid (an HttpSyntaxError). */
  onBroken(cause: NodeJS.ErrnoException, hasBegun: boolean): void;
}

export class KubeConnection {
  readonly socket: TLSSocket;
  readonly bornMs: number;
  readonly #freed: () => void;
  #idleSinceMs = 0;
  #requests = 0;
  #exchange: Exchange | undefined;
  #parser: ResponseParser | undefined;
  #cause: NodeJS.ErrnoException | undefined;

  /** `freed` is called when a response is complete and the next request may come. */
  constructor(socket: TLSSocket, bornMs: number, freed: () => void) {
    this.socket = socket;
    this.bornMs = bornMs;
    this.#freed = freed;
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.on('end', () => {
      this.#parser?.finish();
      socket.destroy();
    });
    socket.on('error', (error: Error) => {
      this.#cause = error;
    });
    socket.on('close', () => this.#break(this.#cause ?? closedError()));
  }

  /** Whether it carried a request before the current one, so that the server may have closed it as idle. */
  get isReused(): boolean {
    return this.#requests > 1;
  }

  get isOpen(): boolean {
    return !this.socket.destroyed && this.socket.writable;
  }

  get idleSinceMs(): number {
    return this.#idleSinceMs;
  }

  /** Idle from now on. It does not keep the process alive. */
  rest(nowMs: number): void {
    this.#idleSinceMs = nowMs;
    this.socket.unref();
  }

  /** The bytes are a whole request. */
  send(bytes: Buffer, exchange: Exchange): void {
    this.#requests++;
    this.#exchange = exchange;
    this.#parser = new ResponseParser({
      onHead: (head) => exchange.onHead(head),
      onData: (chunk) => exchange.onData(chunk),
      onEnd: (isReusable) => this.#complete(exchange, isReusable),
    });
    this.socket.ref();
    this.socket.write(bytes);
  }

  destroy(): void {
    this.socket.destroy();
  }

  #receive(chunk: Buffer): void {
    // Bytes that come unasked would be taken for the next response.
    if (this.#parser === undefined) {
      this.socket.destroy();
      return;
    }
    try {
      this.#parser.push(chunk);
    } catch (error) {
      this.#break(error as Error);
      this.socket.destroy();
    }
  }

  #complete(exchange: Exchange, isReusable: boolean): void {
    this.#exchange = undefined;
    this.#parser = undefined;
    exchange.onEnd(isReusable);
    if (!isReusable) this.socket.destroy();
    // After all bytes of this chunk: more of them mean that the server is out of step.
    else if (this.socket.writableLength === 0) process.nextTick(this.#freed);
    // Node reports the end of a write in the next turn of the event loop, and a quick server answers before.
    else setImmediate(this.#freeWritten);
  }

  /** A server that answered before it read the request cannot take another. */
  readonly #freeWritten = (): void => {
    if (this.socket.writableLength > 0) this.socket.destroy();
    else this.#freed();
  };

  #break(cause: NodeJS.ErrnoException): void {
    const exchange = this.#exchange;
    const hasBegun = this.#parser?.hasBegun ?? false;
    this.#exchange = undefined;
    this.#parser = undefined;
    exchange?.onBroken(cause, hasBegun);
  }
}

function closedError(): NodeJS.ErrnoException {
  return Object.assign(new Error('it closed the connection'), { code: 'ECONNRESET' });
}
