// Tracks the connections of the workload socket, and limits connections, streams and memory per user, so
// that one user cannot block the others.

import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../../core/clock/clock.ts';
import { FairTurns } from '../../../core/limits/fair-turns.ts';
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
  /** What bytes that wait, open streams with their headers, and requests that are on their way may cost. */
  readonly requestBytesPerUser: number;
  /** Streams of a connection that may end before their request is complete. One more is allowed each second. */
  readonly refusalsPerConnection: number;
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
  requestBytesPerUser: 64 * 1024 * 1024,
  refusalsPerConnection: 16,
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
  hold(bytes: number): boolean;
  /** Counts a stream that ended before its request was complete, and closes the connection after a few. */
  refuse(): void;
  /** Ends the connection, after what was written to it has gone out. */
  close(): void;
}

/** A connection whose process is not attested yet. */
export interface Entered {
  /** Runs a task in the next turn of its user. */
  turn(task: () => void): void;
  /** Lets go of the process when the connection closes. */
  attested(
    peer: Pick<PeerProcess, 'isSame' | 'close'>,
    process: WorkloadProcess,
  ): WorkloadConnection;
}

interface Open extends WorkloadConnection {
  readonly socket: Socket;
  readonly user: User;
  streams: number;
  idle: Timer | undefined;
}

interface User {
  readonly uid: number;
  connections: number;
  streams: number;
  requestBytes: number;
}

export class WorkloadConnections {
  readonly #limits: WorkloadLimits;
  readonly #clock: Clock;
  /** Attested or not. */
  readonly #sockets = new Set<Socket>();
  readonly #open = new Map<string, Open>();
  readonly #users = new Map<number, User>();
  /** How many connections each user may begin now. */
  readonly #arrivals: TokenBuckets<number>;
  /** How many refused streams each connection may have now. */
  readonly #refusals: TokenBuckets;
  /** So that a user with many connections, or with many calls, does not keep the others waiting. */
  readonly #turns = new FairTurns<number>();
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
    this.#refusals = new TokenBuckets({
      clock,
      burst: limits.refusalsPerConnection,
      perSecond: 1,
      maxKeys: limits.connections,
    });
  }

  get size(): number {
    return this.#sockets.size;
  }

  get streams(): number {
    return this.#streams;
  }

  /** What is held of the requests of all users. */
  get requestBytes(): number {
    let bytes = 0;
    for (const user of this.#users.values()) bytes += user.requestBytes;
    return bytes;
  }

  /**
   * Counts a connection of a user. Undefined where this user has too many, or begins them too fast: then the
   * connection is closed.
   */
  enter(socket: Socket, uid: number): Entered | undefined {
    const user = this.#users.get(uid) ?? newUser(uid);
    const hasTooMany = user.connections >= this.#limits.connectionsPerUser;
    if (hasTooMany || this.#arrivals.take(uid) !== undefined) {
      socket.destroy();
      return undefined;
    }
    this.#users.set(uid, user);
    user.connections++;
    this.#sockets.add(socket);
    socket.once('close', () => {
      this.#sockets.delete(socket);
      user.connections--;
      this.#forgetIdle(user);
    });
    return {
      turn: (task) => this.#turns.enter(uid, task),
      attested: (peer, process) => this.#add(socket, user, peer, process),
    };
  }

  #add(
    socket: Socket,
    user: User,
    peer: Pick<PeerProcess, 'isSame' | 'close'>,
    process: WorkloadProcess,
  ): WorkloadConnection {
    const name = `workload-${++this.#named}`;
    const connection: Open = {
      name,
      process,
      isSame: () => peer.isSame(),
      hold: (bytes) => {
        user.requestBytes += bytes;
        this.#forgetIdle(user);
        return user.requestBytes <= this.#limits.requestBytesPerUser;
      },
      refuse: () => {
        if (this.#refusals.take(name) !== undefined) connection.close();
      },
      close: () => {
        this.#clock.timer(lingerMs, () => socket.destroy());
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
      user.streams--;
      this.#forgetIdle(user);
      if (--connection.streams === 0) this.#closeWhenIdle(connection, this.#limits.idleMs);
    };
  }

  /** Ends every connection. */
  destroy(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Streams end after their connection, in the turns of the user: until then the user holds them. */
  #forgetIdle(user: User): void {
    const { uid, connections, streams, requestBytes } = user;
    if (connections === 0 && streams === 0 && requestBytes === 0) this.#users.delete(uid);
  }

  #closeWhenIdle(connection: Open, delayMs: number): void {
    if (connection.socket.destroyed) return;
    connection.idle?.cancel();
    connection.idle = this.#clock.timer(delayMs, () => connection.socket.destroy());
  }
}

function newUser(uid: number): User {
  return { uid, connections: 0, streams: 0, requestBytes: 0 };
}
