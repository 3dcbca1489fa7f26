// A request as routes of planes see it, and the sending of their response.

import type { ServerResponse } from 'node:http';
import type { TLSSocket } from 'node:tls';
import type { Caller } from '../../core/access/identity.ts';
import { readPeer } from '../../core/identity/tls/peer-chain.ts';
import type { PeerAuthenticator } from '../../core/identity/tls/peer-authenticator.ts';
import { brokenRule } from '../../core/identity/x509/rules.ts';
import type { Certificate } from '../../core/identity/x509/certificate.ts';
import type { ValidatedSvid } from '../../core/identity/x509/svid-validator.ts';
import type {
  AgentRequest,
  AnyRequest,
  ApiRequest,
  ApiRoute,
  FederationRoute,
  JoinedAgent,
  LivePeer,
  PeerRequest,
  PlaneResponse,
  WebRoute,
} from '../../core/plane/route.ts';
import type { Admitted, FederationCheck } from '../../core/plane/route-access.ts';
import { type Exchange, headersOf, readBody, readJson, respond } from './exchange.ts';
import type { RouteParams } from './routes.ts';

const noChain: readonly Certificate[] = [];

/** One class for all kinds of routes. The type of a handler limits what it sees. */
class PlaneExchange implements ApiRequest, PeerRequest, AgentRequest {
  readonly #exchange: Exchange;
  readonly #peers: PeerAuthenticator | undefined;
  #admitted: Admitted | undefined;
  readonly params: RouteParams;

  constructor(exchange: Exchange, params: RouteParams, peers: PeerAuthenticator | undefined) {
    this.#exchange = exchange;
    this.params = params;
    this.#peers = peers;
  }

  get method(): string {
    return this.#exchange.request.method ?? 'GET';
  }

  get path(): string {
    return this.#exchange.path;
  }

  get host(): string | undefined {
    return this.#exchange.host;
  }

  get serverName(): string | undefined {
    return this.#exchange.serverName;
  }

  get query(): URLSearchParams {
    return this.#exchange.query;
  }

  get headers(): AnyRequest['headers'] {
    return this.#exchange.request.headers;
  }

  get address(): string | undefined {
    return this.#exchange.address;
  }

  get requestId(): string {
    return this.#exchange.requestId;
  }

  /** Verified on first use. The bundle endpoint never uses it. */
  get svid(): ValidatedSvid | undefined {
    return this.#peers && peerOf(this.#exchange, this.#peers);
  }

  get peerChain(): readonly Certificate[] {
    if (this.#peers === undefined) return noChain;
    return readPeer(this.#exchange.request.socket as TLSSocket).chain;
  }

  /** Only handlers of routes that allow peers see it. They run after the check. */
  get peer(): LivePeer {
    return this.#admitted?.peer as LivePeer;
  }

  get agent(): JoinedAgent {
    return this.#admitted?.agent as JoinedAgent;
  }

  get caller(): Caller {
    return this.#exchange.caller;
  }

  get content(): Buffer {
    return this.#exchange.content;
  }

  admit(check: FederationCheck): void {
    this.#admitted = check(this);
  }

  body(limit: number): Promise<Buffer> {
    return readBody(this.#exchange, limit);
  }

  async json<T>(limit: number, parse: (value: unknown) => T): Promise<T> {
    return parse(await readJson(this.#exchange, limit));
  }
}

/** Undefined if the caller presented no certificate or an untrusted one. */
export function peerOf(exchange: Exchange, peers: PeerAuthenticator): ValidatedSvid | undefined {
  try {
    return peers.authenticate(exchange.request.socket as TLSSocket);
  } catch (error) {
    if (brokenRule(error) === undefined) throw error;
    return undefined;
  }
}

/** For a route of the api listener, already authorized, or of the web listener, which is public. */
export function answerPlane(
  exchange: Exchange,
  params: RouteParams,
  route: ApiRoute | WebRoute,
): void | Promise<void> {
  return answered(exchange, route.handle(new PlaneExchange(exchange, params, undefined)));
}

/**
 * Authorizes the caller now, and again when the body is complete. A peer that was suspended or revoked while
 * the handler ran gets no answer of it.
 */
export function answerFederation(
  exchange: Exchange,
  params: RouteParams,
  route: FederationRoute,
  peers: PeerAuthenticator,
  check: FederationCheck | undefined,
): void | Promise<void> {
  const request = new PlaneExchange(exchange, params, peers);
  if (check !== undefined) {
    request.admit(check);
    exchange.authorize = () => request.admit(check);
  }
  const answer = route.handle(request);
  if (check !== undefined && route.allow === 'peer' && answer instanceof Promise) {
    return answerAdmitted(exchange, request, check, answer);
  }
  return answered(exchange, answer);
}

async function answerAdmitted(
  exchange: Exchange,
  request: PlaneExchange,
  check: FederationCheck,
  answer: Promise<PlaneResponse>,
): Promise<void> {
  const made = await answer;
  request.admit(check);
  respondPlane(exchange, made);
}

function answered(
  exchange: Exchange,
  answer: PlaneResponse | Promise<PlaneResponse>,
): void | Promise<void> {
  if (answer instanceof Promise) return answer.then((made) => respondPlane(exchange, made));
  if (exchange.holdsAnswer) exchange.answer = answer;
  else respondPlane(exchange, answer);
}

export function respondPlane(exchange: Exchange, answer: PlaneResponse): void {
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
  /** Alternating names and values. */
  readonly headers: readonly string[];
  /** In latin1: node:http sends it together with the headers in one write. */
  readonly body: string;
}

const ready = new WeakMap<PlaneResponse, ReadyToSend>();

function readyToSend(answer: PlaneResponse): ReadyToSend {
  const known = ready.get(answer);
  if (known !== undefined) return known;
  const body = Buffer.from(answer.body as string);
  const headers = {
    ...headersOf(answer.contentType, answer.headers, []),
    'content-length': body.length,
  };
  const made = {
    headers: Object.entries(headers).flatMap(([name, value]) => [name, String(value)]),
    body: body.toString('latin1'),
  };
  ready.set(answer, made);
  return made;
}
