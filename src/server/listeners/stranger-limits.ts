// Limits how many connections and open HTTP/2 streams one address can hold on a public listener. A
// stream stays open until the caller has read the response. Without a limit, a caller that never opens
// its window could make the site keep about 8 KB for each request of 60 bytes.

import type { Http2ServerRequest, ServerHttp2Stream } from 'node:http2';
import type { Server, Socket } from 'node:net';
import { constants } from 'node:http2';
import { sourceOf } from '../../core/access/failure-limit.ts';
import type { Clock } from '../../core/clock/clock.ts';
import type { Request, Response } from '../http/exchange.ts';
import { plainAddress } from '../http/forwarded-for.ts';
import { addressOf } from '../http/source-address.ts';

export interface StreamLimits {
  /** Maximum of one address. */
  readonly each: number;
  /** Maximum of all addresses together: about 70 MB. */
  readonly all: number;
  /** A new stream replaces one that is open longer. Every request takes less time than this. */
  readonly staleMs: number;
}

const usual: StreamLimits = { each: 1_024, all: 8_192, staleMs: 30_000 };

/** One address can have one fourth of the connections of a listener. */
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
  /** Oldest first, in both maps. */
  readonly #all = new Map<ServerHttp2Stream, Opened>();
  readonly #byAddress = new Map<string, Set<ServerHttp2Stream>>();

  constructor(clock: Clock, limits: StreamLimits = usual) {
    this.#clock = clock;
    this.#limits = limits;
  }

  get size(): number {
    return this.#all.size;
  }

  /** Rejects excess streams before `listener` gets them (RFC 9113 §8.7). */
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

  /** False if the stream exceeds the limit. It is then already reset and needs no response. */
  admit(request: Request): boolean {
    if (request.httpVersionMajor !== 2) return true;
    const { stream } = request as Http2ServerRequest;
    if (this.#enter(stream, sourceOf(addressOf(request) ?? ''))) return true;
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

  /** Ends the oldest stream if it is stale. */
  #giveWay(among: { keys(): Iterator<ServerHttp2Stream> }, now: number): boolean {
    const oldest = among.keys().next().value;
    const opened = oldest && this.#all.get(oldest);
    if (oldest === undefined || opened === undefined) return false;
    if (now - opened.atMs < this.#limits.staleMs) return false;
    this.#forget(oldest);
    // `destroy`, because `close` would wait until the caller has read the response.
    oldest.destroy();
    return true;
  }
}

/** Closes excess connections of one address, but not of a trusted proxy: it has many clients. Per process. */
export function shareConnections(
  server: Server,
  maxConnections: number,
  isProxy: (address: string) => boolean = () => false,
): void {
  const each = Math.max(1, Math.floor(maxConnections / connectionShare));
  const held = new Map<string, number>();
  server.on('connection', (socket: Socket) => {
    const remote = plainAddress(socket.remoteAddress ?? '');
    if (isProxy(remote)) return;
    const address = sourceOf(remote);
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
