// Pools the connections to one API server. A request takes the connection that was used last, or
// waits for one in a bounded queue. At most `maxConnections` exist, and idle ones are closed.

import type { TLSSocket } from 'node:tls';
import type { Clock, Timer } from '../clock/clock.ts';
import { HansaError } from '../errors/error.ts';
import { KubeConnection } from './kube-connection.ts';

/** kube-apiserver closes idle connections after 90 s. */
const idleMs = 60_000;
/** After this a connection is replaced, so that moved addresses and replaced certificates are noticed. */
const oldMs = 600_000;

export interface PoolOptions {
  /** Host and port of the server, for messages. */
  readonly where: string;
  /** Opens a verified connection. Rejects with a HansaError, or with the reason of the signal. */
  readonly open: (signal: AbortSignal) => Promise<TLSSocket>;
  readonly clock: Clock;
  readonly maxConnections: number;
  readonly maxWaiting: number;
}

/** A request that needs a connection. The pool calls one of the two once. */
export interface Waiter {
  onConnection(connection: KubeConnection): void;
  onFailure(error: unknown): void;
}

export class ConnectionPool {
  readonly #options: PoolOptions;
  readonly #connections = new Set<KubeConnection>();
  /** The one that was used last is at the end. */
  readonly #idle: KubeConnection[] = [];
  readonly #waiting = new Set<Waiter>();
  #opening = 0;
  #over = new AbortController();
  #sweep: Timer | undefined;
  #isClosed = false;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  /** `fresh`: not one that was idle, after one such connection was found broken. */
  take(waiter: Waiter, fresh = false): void {
    const idle = fresh ? undefined : this.#takeIdle();
    if (idle !== undefined) {
      waiter.onConnection(idle);
      return;
    }
    const { where, maxWaiting } = this.#options;
    if (this.#waiting.size >= maxWaiting) {
      waiter.onFailure(
        new HansaError(
          'HANSA_UNAVAILABLE',
          `Cannot ask the API server ${where}: ${maxWaiting} requests already wait for a connection.`,
        ),
      );
      return;
    }
    this.#waiting.add(waiter);
    this.#openMore();
  }

  /** The waiter gave up. A connection on its way to it is kept for another, unless the pool is closed. */
  leave(waiter: Waiter): void {
    this.#waiting.delete(waiter);
    this.#stopOpening();
  }

  /** Ends idle connections now, and others when they are free. */
  close(): void {
    this.#isClosed = true;
    this.#sweep?.cancel();
    this.#sweep = undefined;
    for (const connection of this.#idle.splice(0)) connection.destroy();
    this.#stopOpening();
  }

  #takeIdle(): KubeConnection | undefined {
    for (;;) {
      const connection = this.#idle.pop();
      if (connection === undefined || connection.isOpen) return connection;
    }
  }

  #stopOpening(): void {
    if (!this.#isClosed || this.#waiting.size > 0 || this.#opening === 0) return;
    this.#over.abort(new Error('the client was closed'));
    this.#over = new AbortController();
  }

  #openMore(): void {
    const isFull = this.#connections.size + this.#opening >= this.#options.maxConnections;
    if (!isFull && this.#opening < this.#waiting.size) void this.#open();
  }

  async #open(): Promise<void> {
    const { open, clock } = this.#options;
    this.#opening++;
    let socket: TLSSocket;
    try {
      socket = await open(this.#over.signal);
    } catch (error) {
      this.#opening--;
      this.#failed(error);
      return;
    }
    this.#opening--;
    const connection = new KubeConnection(socket, clock.monotonic(), () => this.#free(connection));
    this.#connections.add(connection);
    socket.once('close', () => this.#gone(connection));
    if (connection.isOpen) this.#free(connection);
    else this.#gone(connection);
  }

  /** Where no connection is left to wait for, the server is as good as gone for all. */
  #failed(error: unknown): void {
    const isLast = this.#connections.size + this.#opening === 0;
    for (const waiter of this.#waiting) {
      this.#waiting.delete(waiter);
      waiter.onFailure(error);
      if (!isLast) break;
    }
    this.#openMore();
  }

  #free(connection: KubeConnection): void {
    if (!connection.isOpen) return;
    const nowMs = this.#options.clock.monotonic();
    if (nowMs - connection.bornMs > oldMs) {
      connection.destroy();
      return;
    }
    for (const waiter of this.#waiting) {
      this.#waiting.delete(waiter);
      waiter.onConnection(connection);
      return;
    }
    if (this.#isClosed) {
      connection.destroy();
      return;
    }
    connection.rest(nowMs);
    this.#idle.push(connection);
    this.#sweep ??= this.#options.clock.timer(idleMs, () => this.#closeIdle());
  }

  #gone(connection: KubeConnection): void {
    if (!this.#connections.delete(connection)) return;
    const index = this.#idle.indexOf(connection);
    if (index !== -1) this.#idle.splice(index, 1);
    connection.destroy();
    this.#openMore();
  }

  #closeIdle(): void {
    const sinceMs = this.#options.clock.monotonic() - idleMs;
    const kept = this.#idle.findIndex(({ idleSinceMs }) => idleSinceMs > sinceMs);
    for (const connection of this.#idle.splice(0, kept === -1 ? this.#idle.length : kept)) {
      connection.destroy();
    }
    const [oldest] = this.#idle;
    this.#sweep =
      oldest && this.#options.clock.timer(oldest.idleSinceMs - sinceMs, () => this.#closeIdle());
  }
}
