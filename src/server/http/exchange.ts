// One request and its response, over HTTP/1.1 or HTTP/2, TLS or the admin socket. Hides node:http
// from handlers.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import type { TLSSocket } from 'node:tls';
import { HansaError } from '../../core/errors/error.ts';
import { sourceOf } from '../../core/access/failure-limit.ts';
import { anonymous, type Caller } from '../../core/access/identity.ts';
import type { Clock, Random, Timer } from '../../core/clock/clock.ts';
import { parseJsonBody } from '../../core/json/json-body.ts';
import { GatheredBytes } from '../../core/memory/gathered-bytes.ts';
import type {
  PlaneResponse,
  PresentedCredential,
  RouteAuthenticator,
  RouteTarget,
} from '../../core/plane/route.ts';
import type { AnswerBody, Answers } from './answers.ts';
import type { RouteParams } from './routes.ts';
import { addressOf } from './source-address.ts';

export type Request = IncomingMessage | Http2ServerRequest;
export type Response = ServerResponse | Http2ServerResponse;

/** Authenticates the requests of one listener. */
export interface Identify {
  /** The caller; undefined where the request has no valid credential of this site. */
  readonly find: (request: Request) => Caller | undefined;
  /** The error for such a request. Counts a failure of its address. */
  readonly refusal: (request: Request) => HansaError;
  /** What a route that authenticates callers itself sees. Undefined where the listener has no such routes. */
  readonly present?: (exchange: Exchange) => PresentedCredential;
}

/** What the requests of one listener share. */
export interface ExchangeParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly bodyWithinMs: number;
  readonly answers: Answers;
}

/** Created for every request, so it computes most values on first use. */
export class Exchange implements RouteTarget {
  readonly request: Request;
  readonly response: Response;
  /** Without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** Anonymous until `identify` runs. */
  caller: Caller = anonymous;
  /** Warnings for the caller (RFC 7234 section 5.5), as kubectl prints them. */
  readonly warnings: string[] = [];
  readonly clock: Clock;
  /** How long the body may take to arrive. */
  readonly bodyWithinMs: number;
  readonly answers: Answers;
  /** Repeats the authorization of the route. The host sets it before the handler runs. */
  authorize: ((exchange: Exchange) => void) | undefined;
  /** Of the path. The host sets them before the handler runs. */
  params: RouteParams = noParams;
  /** The further callers of the route. The host sets it before the handler runs. */
  authenticator: RouteAuthenticator | undefined;
  /** The body, where the host has read it. */
  content: Buffer = noContent;
  /** Whether the host sends an answer that the handler has at once, together with answers to other requests. */
  holdsAnswer = false;
  /** Such an answer. */
  answer: PlaneResponse | undefined;
  readonly #identify: Identify;
  readonly #random: Random;
  #requestId: string | undefined;
  /** Null until it is known. */
  #host: string | undefined | null = null;

  constructor(
    request: Request,
    response: Response,
    path: string,
    query: URLSearchParams,
    identify: Identify,
    around: ExchangeParts,
  ) {
    this.request = request;
    this.response = response;
    this.path = path;
    this.query = query;
    this.clock = around.clock;
    this.bodyWithinMs = around.bodyWithinMs;
    this.answers = around.answers;
    this.#identify = identify;
    this.#random = around.random;
  }

  /** Verifies the credential now. A long request calls it again. Throws HANSA_UNAUTHENTICATED. */
  identify(): Caller {
    const caller = this.#identify.find(this.request);
    if (caller === undefined) throw this.#identify.refusal(this.request);
    this.caller = caller;
    return caller;
  }

  /** Like `identify`, also with the authenticator of the route. At once, unless that one must wait. */
  identifyForRoute(): void | Promise<void> {
    const { find, present } = this.#identify;
    const known = find(this.request);
    if (known !== undefined) {
      this.caller = known;
      return undefined;
    }
    const found = present && this.authenticator?.authenticate(present(this));
    if (found instanceof Promise) return found.then((caller) => this.#settle(caller));
    this.#settle(found);
  }

  #settle(caller: Caller | undefined): void {
    if (caller === undefined) throw this.#identify.refusal(this.request);
    this.caller = caller;
  }

  get host(): string | undefined {
    if (this.#host === null) this.#host = hostOf(this.request.rawHeaders);
    return this.#host;
  }

  get serverName(): string | undefined {
    const name = (this.request.socket as Partial<TLSSocket> | undefined)?.servername;
    // node:tls has `false` where the client sends no server name.
    return typeof name === 'string' && name !== '' ? name : undefined;
  }

  get requestId(): string {
    this.#requestId ??= this.#random.uuid();
    return this.#requestId;
  }

  /** Where the request comes from (source-address.ts). Undefined on the admin socket. */
  get address(): string | undefined {
    return addressOf(this.request);
  }

  /** Whom the request counts for. Strangers count by address. */
  get payer(): string {
    return this.caller === anonymous ? `address ${sourceOf(this.address ?? '')}` : this.caller.user;
  }
}

const noParams: RouteParams = {};
const noContent = Buffer.alloc(0);

/** Undefined where there is no host, or several that differ (RFC 9112 §3.2, RFC 9113 §8.3.1). */
function hostOf(rawHeaders: readonly string[]): string | undefined {
  let host: string | undefined;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    if (name !== ':authority' && (name.length !== 4 || name.toLowerCase() !== 'host')) continue;
    const value = rawHeaders[at + 1];
    if (host !== undefined && host !== value) return undefined;
    host = value;
  }
  return host;
}

const noQuery = new URLSearchParams();

export function parseQuery(url: string, questionMark: number): URLSearchParams {
  return questionMark < 0 ? noQuery : new URLSearchParams(url.slice(questionMark + 1));
}

/**
 * Reads a body of at most `limit` bytes. Rejects a longer one as early as possible: at once if
 * Content-Length says so, otherwise at the limit. Also rejects a body that arrives too slowly, which
 * node:http checks only for HTTP/1.1.
 */
export async function readBody(exchange: Exchange, limit: number): Promise<Buffer> {
  const body = await collect(exchange, limit);
  // The credential or the right may have been revoked while the body arrived.
  if (exchange.authenticator === undefined) exchange.identify();
  else await exchange.identifyForRoute();
  exchange.authorize?.(exchange);
  return body;
}

/**
 * The body of a request over HTTP/1.1 that has arrived completely; undefined where it has not. Call it once.
 * Throws HANSA_TOO_LARGE, and HANSA_BAD_REQUEST where the client has gone.
 */
export function takeBody({ request }: Exchange, limit: number): Buffer | undefined {
  if (request.httpVersionMajor !== 1 || !request.complete) return undefined;
  if (request.destroyed) throw endedEarly();
  if (request.readableLength > limit) throw tooLarge(limit);
  return (request.read() as Buffer | null) ?? noContent;
}

/** Throws HANSA_TOO_LARGE where the headers announce a body that is too long. */
export function refuseLongBody({ request }: Exchange, limit: number): void {
  if (Number(request.headers['content-length']) > limit) throw tooLarge(limit);
}

/** Reads a JSON body of at most `limit` bytes. Undefined if it is empty. */
export async function readJson(exchange: Exchange, limit: number): Promise<unknown> {
  return parseJsonBody(await readBody(exchange, limit));
}

function collect(exchange: Exchange, limit: number): Promise<Buffer> {
  const { request } = exchange;
  return new Promise((resolve, reject) => {
    refuseLongBody(exchange, limit);
    // Also a complete body is gone then, and no event follows.
    if (request.destroyed) throw endedEarly();
    let late: Timer | undefined;
    let isOver = false;
    const end = (): void => {
      isOver = true;
      late?.cancel();
    };
    // Most bodies arrive together with the headers, and are complete by then.
    queueMicrotask(() => {
      if (isOver || request.complete) return;
      late = exchange.clock.timer(exchange.bodyWithinMs, () => refuse(tooSlow()));
    });
    const refuse = (error: Error): void => {
      end();
      request.removeAllListeners('data');
      request.resume();
      reject(error);
    };
    const body = new GatheredBytes();
    request.on('data', (chunk: Buffer) => {
      if (body.length + chunk.length > limit) refuse(tooLarge(limit));
      else body.add(chunk);
    });
    request.on('end', () => {
      end();
      resolve(body.take());
    });
    request.on('error', refuse);
    request.on('aborted', () => refuse(endedEarly()));
  });
}

function endedEarly(): HansaError {
  return new HansaError('HANSA_BAD_REQUEST', 'The request ended before its body did.');
}

function tooLarge(limit: number): HansaError {
  return new HansaError('HANSA_TOO_LARGE', `Request entity too large: limit is ${limit}`);
}

function tooSlow(): HansaError {
  return new HansaError('HANSA_TIMEOUT', 'The body of the request did not arrive in time.');
}

export function respond(
  exchange: Exchange,
  status: number,
  contentType: string,
  body: Buffer | string,
  extra?: Readonly<Record<string, string>>,
): void {
  const { response, request } = exchange;
  const length = typeof body === 'string' ? Buffer.byteLength(body) : body.length;
  const headers = headersOf(contentType, extra, exchange.warnings);
  headers['content-length'] = length;
  // The compatibility layer of HTTP/2 has the same methods with narrower types.
  (response as ServerResponse).writeHead(status, headers);
  if (request.method === 'HEAD') response.end();
  else exchange.answers.end(response, exchange.payer, body, length);
}

/** Responds with a body that is made while the client reads it. Resolves when all of it is written. */
export async function respondInPieces(
  exchange: Exchange,
  status: number,
  contentType: string,
  body: AnswerBody,
): Promise<void> {
  const { response, request, warnings } = exchange;
  const writeHead = (): void => {
    const headers = headersOf(contentType, undefined, warnings);
    if (body.length !== undefined) headers['content-length'] = body.length;
    (response as ServerResponse).writeHead(status, headers);
  };
  if (request.method === 'HEAD') {
    writeHead();
    response.end();
  } else await exchange.answers.send(response, exchange.payer, writeHead, body);
}

/** The headers of every response, besides its length. */
export function headersOf(
  contentType: string,
  extra: Readonly<Record<string, string>> | undefined,
  warnings: readonly string[],
): Record<string, string | number | string[]> {
  const headers: Record<string, string | number | string[]> = {
    'content-type': contentType,
    'cache-control': 'no-cache, private',
  };
  if (warnings.length > 0) headers['warning'] = warnings.map((text) => `299 - ${quoted(text)}`);
  return extra === undefined ? headers : Object.assign(headers, extra);
}

export function respondJson(exchange: Exchange, status: number, value: unknown): void {
  respond(exchange, status, 'application/json', JSON.stringify(value));
}

/** A quoted-string of RFC 9110; control characters would end the header. */
function quoted(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return `"${text.replace(/[\u0000-\u001f\u007f-\uffff]/g, '?').replace(/["\\]/g, '\\$&')}"`;
}
