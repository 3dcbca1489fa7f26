// How much of a listener for the world one address can hold: connections, and streams of HTTP/2 that
// are not over. A stream is over when its caller has read the answer, and a caller that opens no
// window never does: without a limit each of its questions, sixty bytes long, would keep some eight
// kilobytes here for as long as it likes.

import type { Http2ServerRequest, ServerHttp2Stream } from 'node:http2';
import type { Server, Socket } from 'node:net';
import { constants } from 'node:http2';
import { sourceOf } from '../../core/access/failure-limit.ts';
import type { Clock } from '../../core/clock/clock.ts';
import type { Request, Response } from '../http/exchange.ts';

export interface StreamLimits {
  /** Of one address. */
  readonly each: number;
  /** Of all of them together: some seventy megabytes. */
  readonly all: number;
  /** One that is open longer gives way to a new one: everything here is answered sooner. */
  readonly staleMs: number;
}

const usual: StreamLimits = { each: 1_024, all: 8_192, staleMs: 30_000 };

/** What part of its connections a listener lets one address have. */
const connectionShare = 4;

interface Opened {
  readonly address: string;
  readonly atMs: number;
}

type Listener = (request: Request, response: Response, release: Release) => void;

/** Stops counting a stream that something else limits, and that may last; returns how to count it again. */
export type Release = (request: Request) => () => void;

export class OpenStreams {
  readonly #clock: Clock;
  readonly #limits: StreamLimits;
  /** The oldest first, here and there. */
  readonly #all = new Map<ServerHttp2Stream, Opened>();
  readonly #byAddress = new Map<string, Set<ServerHttp2Stream>>();

  constructor(clock: Clock, limits: StreamLimits = usual) {
    this.#clock = clock;
    this.#limits = limits;
  }

  get size(): number {
    return this.#all.size;
  }

  /** Refuses the streams that are too many before `listener` hears of them (RFC 9113 §8.7). */
  before(listener: Listener): (request: Request, response: Response) => void {
    return (request, response) => {
      if (!this.admit(request)) return;
      listener(request, response, this.#release);
    };
  }

  readonly #release: Release = (request) => {
    const { stream } = request as Http2ServerRequest;
    this.#forget(stream);
    return () => {
      if (!stream.destroyed) this.admit(request);
    };
  };

  /** False where its stream is one too many: it has been refused then, and there is nothing to answer. */
  admit(request: Request): boolean {
    if (request.httpVersionMajor !== 2) return true;
    const { stream, socket } = request as Http2ServerRequest;
    if (this.#enter(stream, sourceOf(socket.remoteAddress ?? ''))) return true;
    stream.close(constants.NGHTTP2_REFUSED_STREAM);
    return false;
  }

  #enter(stream: ServerHttp2Stream, address: string): boolean {
    if (stream.destroyed) return false;
    const now = this.#clock.monotonic();
    const own = this.#byAddress.get(address) ?? new Set<ServerHttp2Stream>();
    if (own.size >= this.#limits.each && !this.#giveWay(own, now)) return false;
    if (this.#all.size >= this.#limits.all && !this.#giveWay(this.#all, now)) return false;
    own.add(stream);
    this.#byAddress.set(address, own);
    this.#all.set(stream, { address, atMs: now });
    stream.once('close', () => this.#forget(stream));
    return true;
  }

  #forget(stream: ServerHttp2Stream): void {
    const opened = this.#all.get(stream);
    if (opened === undefined) return;
    this.#all.delete(stream);
    const own = this.#byAddress.get(opened.address);
    own?.delete(stream);
    if (own?.size === 0) this.#byAddress.delete(opened.address);
  }

  /** Ends the oldest, where it has had its time. */
  #giveWay(among: { keys(): Iterator<ServerHttp2Stream> }, now: number): boolean {
    const oldest = among.keys().next().value;
    const opened = oldest && this.#all.get(oldest);
    if (oldest === undefined || opened === undefined) return false;
    if (now - opened.atMs < this.#limits.staleMs) return false;
    this.#forget(oldest);
    // By force: to close it would wait until its caller has read the answer.
    oldest.destroy();
    return true;
  }
}

/** Closes connections of an address that has its share already. Per process, as the connections are. */
export function shareConnections(server: Server, maxConnections: number): void {
  const each = Math.max(1, Math.floor(maxConnections / connectionShare));
  const held = new Map<string, number>();
  server.on('connection', (socket: Socket) => {
    const address = sourceOf(socket.remoteAddress ?? '');
    const count = (held.get(address) ?? 0) + 1;
    if (count > each) {
      socket.destroy();
      return;
    }
    held.set(address, count);
    socket.once('close', () => {
      const left = (held.get(address) ?? 1) - 1;
      if (left === 0) held.delete(address);
      else held.set(address, left);
    });
  });
}
