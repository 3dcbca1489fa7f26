// An HTTP agent for one connection that its owner opened and verified. It never opens another.

import { Agent } from 'node:http';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';

export interface OneSocketAgentOptions {
  /** The error of a request that comes after the socket ended. */
  readonly gone: () => Error;
  /** Called when a request is done and the socket can take the next. */
  readonly freed?: () => void;
}

export class OneSocketAgent extends Agent {
  #socket: TLSSocket | undefined;
  readonly #options: OneSocketAgentOptions;

  constructor(socket: TLSSocket, options: OneSocketAgentOptions) {
    super({ keepAlive: true, maxSockets: 1 });
    this.#socket = socket;
    this.#options = options;
  }

  override createConnection(
    _options: unknown,
    callback?: (error: Error | null, stream: Duplex) => void,
  ): TLSSocket | undefined {
    const socket = this.#socket;
    this.#socket = undefined;
    // Do not throw: node calls this inside the code that closes the socket.
    if (socket === undefined) {
      (callback as ((error: Error) => void) | undefined)?.(this.#options.gone());
    }
    return socket;
  }

  /** node would build a name from the options of each request; there is only one server here. */
  override getName(): string {
    return '';
  }

  override keepSocketAlive(socket: Duplex): boolean {
    // Node's types say void; it returns whether the socket is kept.
    const isKept = super.keepSocketAlive(socket) as unknown as boolean;
    // After this call, node puts the socket back. A request that comes earlier would find none.
    if (isKept && this.#options.freed !== undefined) process.nextTick(this.#options.freed);
    return isKept;
  }
}
