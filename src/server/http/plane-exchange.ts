// A request as routes of planes see it, and their answer as it goes out.

import type { TLSSocket } from 'node:tls';
import type { Caller } from '../../core/access/identity.ts';
import { readPeer } from '../../core/identity/peer-chain.ts';
import type { PeerAuthenticator } from '../../core/identity/peer-authenticator.ts';
import { brokenRule } from '../../core/identity/rules.ts';
import type { Certificate } from '../../core/identity/certificate.ts';
import type { ValidatedSvid } from '../../core/identity/svid-validator.ts';
import type { PlaneRequest, PlaneResponse, PlaneRoute } from '../../core/plane/plane.ts';
import { type Exchange, readBody, respond } from './exchange.ts';

const noChain: readonly Certificate[] = [];

/** Who the peer is, is found out when a route asks: the bundle endpoint never does. */
class PlaneExchange implements PlaneRequest {
  readonly #exchange: Exchange;
  readonly #peers: PeerAuthenticator | undefined;
  readonly segment: string;

  constructor(exchange: Exchange, segment: string, peers: PeerAuthenticator | undefined) {
    this.#exchange = exchange;
    this.segment = segment;
    this.#peers = peers;
  }

  get method(): string {
    return this.#exchange.request.method ?? 'GET';
  }

  get path(): string {
    return this.#exchange.path;
  }

  get query(): URLSearchParams {
    return this.#exchange.query;
  }

  get headers(): PlaneRequest['headers'] {
    return this.#exchange.request.headers;
  }

  get address(): string | undefined {
    return this.#exchange.address;
  }

  get peer(): ValidatedSvid | undefined {
    return this.#peers && peerOf(this.#exchange, this.#peers);
  }

  get peerChain(): readonly Certificate[] {
    if (this.#peers === undefined) return noChain;
    return readPeer(this.#exchange.request.socket as TLSSocket).chain;
  }

  get caller(): Caller | undefined {
    return this.#peers === undefined ? this.#exchange.caller : undefined;
  }

  body(limit: number): Promise<Buffer> {
    return readBody(this.#exchange, limit);
  }
}

/** Undefined where nobody presented a certificate, or one that is not believed. */
export function peerOf(exchange: Exchange, peers: PeerAuthenticator): ValidatedSvid | undefined {
  try {
    return peers.authenticate(exchange.request.socket as TLSSocket, exchange.clock.now());
  } catch (error) {
    if (brokenRule(error) === undefined) throw error;
    return undefined;
  }
}

/** `peers` on the federation listener; without it the caller of the exchange is who asks. */
export function answerPlane(
  exchange: Exchange,
  segment: string,
  route: PlaneRoute,
  peers?: PeerAuthenticator,
): void | Promise<void> {
  const answer = route.handle(new PlaneExchange(exchange, segment, peers));
  if (answer instanceof Promise) return answer.then((made) => respondPlane(exchange, made));
  respondPlane(exchange, answer);
}

function respondPlane(exchange: Exchange, answer: PlaneResponse): void {
  respond(exchange, answer.status, answer.contentType, answer.body, answer.headers);
}
