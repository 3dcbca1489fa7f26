// Tracks the connections of the workload socket, and limits connections, streams and memory per user, so
// that one user cannot block the others.

import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../../core/clock/clock.ts';
import { TokenBuckets } from '../../../core/limits/token-buckets.ts';
import type { PeerProcess } from '../../apply/peer-credentials.ts';
import type { WorkloadProcess } from '../entries/workload-process.ts';

export interface WorkloadLimits {
  readonly connections: number;
  readonly connectionsPerUser: number;
  /** For long; as many as a user may hold can come at once, after a restart say. */
  readonly connectsPerSecond: number;
  readonly streams: number;
  readonly streamsPerUser: number;
  readonly streamsPerConnection: number;
  /** What requests that are on their way may cost. */
  readonly requestBytesPerUser: number;
  /** A connection without a stream is closed after this long. */
  readonly idleMs: number;
  /** A new connection must bring its first stream, and a stream its request, within this long. */
  readonly requestMs: number;
}

/**
 * Far above what one machine's workloads need, and half of it for one user; a stream with its connection
 * costs 70 KB, and to begin a connection half a millisecond.
 */
export const defaultLimits: WorkloadLimits = {
  connections: 4096,
  connectionsPerUser: 2048,
  connectsPerSecond: 100,
  streams: 8192,
  streamsPerUser: 2048,
  streamsPerConnection: 128,
  requestBytesPerUser: 32 * 1024 * 1024,
  idleMs: 300_000,
  requestMs: 10_000,
};

/** Users whose rate is remembered; the one that came longest ago makes room. */
const maxRemembered = 4096;

/** For the last words to a connection that is being closed. */
const lingerMs = 100;

export interface WorkloadConnection {
  /** The name of the connection in gRPC. The site assigns it, so a client cannot forge it. */
  readonly name: string;
  readonly process: WorkloadProcess;
  readonly isSame: () => boolean;
  /** Counts what is held of its requests, more or less of it; false where that is too much for its user. */
  readonly holdRequest: (bytes: number) => boolean;
}

interface Open extends WorkloadConnection {
  readonly socket: Socket;
  readonly user: User;
  streams: number;
  idle: Timer | undefined;
}

interface User {
  connections: number;
  streams: number;
  requestBytes: number;
}

export class WorkloadConnections {
  readonly #limits: WorkloadLimits;
  readonly #clock: Clock;
  readonly #open = new Map<string, Open>();
  readonly #users = new Map<number, User>();
  /** How many connections each user may begin now. */
  readonly #arrivals: TokenBuckets<number>;
  #streams = 0;
  #named = 0;

  constructor(limits: WorkloadLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
    this.#arrivals = new TokenBuckets({
      clock,
      burst: limits.connectionsPerUser,
      perSecond: limits.connectsPerSecond,
      maxKeys: maxRemembered,
    });
  }

  get size(): number {
    return this.#open.size;
  }

  get streams(): number {
    return this.#streams;
  }

  /** Undefined where this user has too many, or begins them too fast: then the connection is closed. */
  add(socket: Socket, peer: PeerProcess, process: WorkloadProcess): WorkloadConnection | undefined {
    const user = this.#users.get(peer.uid) ?? { connections: 0, streams: 0, requestBytes: 0 };
    const hasTooMany = user.connections >= this.#limits.connectionsPerUser;
    if (hasTooMany || this.#arrivals.take(peer.uid) !== undefined) {
      peer.close();
      socket.destroy();
      return undefined;
    }
    this.#users.set(peer.uid, user);
    user.connections++;
    const connection: Open = {
      name: `workload-${++this.#named}`,
      process,
      isSame: () => peer.isSame(),
      holdRequest: (bytes) => {
        user.requestBytes += bytes;
        return user.requestBytes <= this.#limits.requestBytesPerUser;
      },
      socket,
      user,
      streams: 0,
      idle: undefined,
    };
    this.#open.set(connection.name, connection);
    this.#closeWhenIdle(connection, this.#limits.requestMs);
    socket.once('close', () => {
      this.#open.delete(connection.name);
      connection.idle?.cancel();
      peer.close();
      if (--user.connections === 0 && user.streams === 0) this.#users.delete(peer.uid);
    });
    return connection;
  }

  get(name: string): WorkloadConnection | undefined {
    return this.#open.get(name);
  }

  /** Counts one more stream; undefined where there are too many. Returns how to end it. */
  addStream(name: string): (() => void) | undefined {
    const connection = this.#open.get(name);
    if (connection === undefined) return undefined;
    const { user } = connection;
    if (this.#streams >= this.#limits.streams) return undefined;
    if (user.streams >= this.#limits.streamsPerUser) return undefined;
    this.#streams++;
    user.streams++;
    connection.streams++;
    connection.idle?.cancel();
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.#streams--;
      if (--user.streams === 0 && user.connections === 0) {
        this.#users.delete(connection.process.uid);
      }
      if (--connection.streams === 0) this.#closeWhenIdle(connection, this.#limits.idleMs);
    };
  }

  /** Ends the connection, after what was written to it has gone out. */
  close(name: string): void {
    const connection = this.#open.get(name);
    if (connection !== undefined) this.#clock.timer(lingerMs, () => connection.socket.destroy());
  }

  /** Ends every connection. */
  destroy(): void {
    for (const { socket } of this.#open.values()) socket.destroy();
  }

  #closeWhenIdle(connection: Open, delayMs: number): void {
    if (connection.socket.destroyed) return;
    connection.idle?.cancel();
    connection.idle = this.#clock.timer(delayMs, () => connection.socket.destroy());
  }
}
