// A request as routes of planes see it, and their answer as it goes out.

import type { ServerResponse } from 'node:http';
import type { TLSSocket } from 'node:tls';
import type { Caller } from '../../core/access/identity.ts';
import { readPeer } from '../../core/identity/peer-chain.ts';
import type { PeerAuthenticator } from '../../core/identity/peer-authenticator.ts';
import { brokenRule } from '../../core/identity/rules.ts';
import type { Certificate } from '../../core/identity/certificate.ts';
import type { ValidatedSvid } from '../../core/identity/svid-validator.ts';
import type { PlaneRequest, PlaneResponse, PlaneRoute } from '../../core/plane/route.ts';
import { type Exchange, headersOf, readBody, respond } from './exchange.ts';

const noChain: readonly Certificate[] = [];

/** Who the peer is, is found out when a route asks: the bundle endpoint never does. */
class PlaneExchange implements PlaneRequest {
  readonly #exchange: Exchange;
  readonly #route: PlaneRoute;
  readonly #peers: PeerAuthenticator | undefined;
  readonly segment: string;

  constructor(
    exchange: Exchange,
    segment: string,
    route: PlaneRoute,
    peers: PeerAuthenticator | undefined,
  ) {
    this.#exchange = exchange;
    this.segment = segment;
    this.#route = route;
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

  get requestId(): string {
    return this.#exchange.requestId;
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

  async body(limit: number): Promise<Buffer> {
    const body = await readBody(this.#exchange, limit);
    // The caller may have lost the right while the body arrived.
    this.#route.authorize?.(this);
    return body;
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
  const request = new PlaneExchange(exchange, segment, route, peers);
  route.authorize?.(request);
  const answer = route.handle(request);
  if (answer instanceof Promise) return answer.then((made) => respondPlane(exchange, made));
  respondPlane(exchange, answer);
}

function respondPlane(exchange: Exchange, answer: PlaneResponse): void {
  const { request, response } = exchange;
  if (answer.repeats === true && request.httpVersionMajor === 1) {
    const { headers, body } = readyToSend(answer);
    (response as ServerResponse).writeHead(answer.status, headers as string[]);
    if (request.method === 'HEAD') response.end();
    else (response as ServerResponse).end(body, 'latin1');
    return;
  }
  respond(exchange, answer.status, answer.contentType, answer.body, answer.headers);
}

interface ReadyToSend {
  /** Names and values, one after the other. */
  readonly headers: readonly string[];
  /** One character a byte: node:http joins it with the head, and sends both as one piece. */
  readonly body: string;
}

const ready = new WeakMap<PlaneResponse, ReadyToSend>();

function readyToSend(answer: PlaneResponse): ReadyToSend {
  const known = ready.get(answer);
  if (known !== undefined) return known;
  const body = Buffer.from(answer.body as string);
  const headers = headersOf(answer.contentType, body.length, answer.headers);
  const made = {
    headers: Object.entries(headers).flatMap(([name, value]) => [name, String(value)]),
    body: body.toString('latin1'),
  };
  ready.set(answer, made);
  return made;
}
