// Dispatches requests to the routes of planes on the federation and web listeners, which serve
// nothing else. Most responses are prebuilt, and the dispatcher sends them without creating a
// promise or a closure.

import { unauthorized } from '../../core/access/denial.ts';
import { anonymous } from '../../core/access/identity.ts';
import type { Clock, Random } from '../../core/clock/clock.ts';
import { HansaError, toHansaError } from '../../core/errors/error.ts';
import type { PeerAuthenticator } from '../../core/identity/tls/peer-authenticator.ts';
import type { Log } from '../../core/log/log.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import type { FederationRoute, WebRoute } from '../../core/plane/route.ts';
import { type Directories, federationCheck } from '../../core/plane/route-access.ts';
import type { Answers } from './answers.ts';
import {
  Exchange,
  type Identify,
  parseQuery,
  type Request,
  respond,
  respondJson,
  type Response,
} from './exchange.ts';
import type { Limits } from './limits.ts';
import { answerFederation, answerPlane } from './plane-exchange.ts';
import { type Found, type RouteParams, RouteTable } from './routes.ts';
import { httpStatusOf, statusOf } from './status.ts';
import { abandonBody, isBeyondLastAnswer } from './unread-body.ts';
import { refuseForeignPage, requireJson } from './web-pages.ts';

export interface PlaneDispatcherParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly limits: Limits;
  readonly bodyWithinMs: number;
  readonly answers: Answers;
  readonly routes: readonly (FederationRoute | WebRoute)[];
  /** Finds the peer or agent behind a caller. */
  readonly directories?: Directories;
}

export interface PlaneDispatcherSettings {
  /** Part of the names of its metrics. */
  readonly name: 'federation' | 'web';
  /** Who sends the requests, for the help of the metrics. */
  readonly whose: string;
  /** Set if callers may present an SVID. */
  readonly peers?: PeerAuthenticator;
  /** Takes a place for a request that may have a body, or throws. The result releases it after the response. */
  readonly share?: (exchange: Exchange) => () => void;
  /** Called for every rejected request, before the response. */
  readonly refused?: (exchange: Exchange, route: string, error: HansaError) => void;
}

/** From a tenth of a millisecond to ten seconds. */
const durationBuckets = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10];
/** The label value if no route matches, because paths are untrusted input. */
const noRoute = 'none';

interface ServedRoute {
  readonly method: string;
  readonly path: string;
  readonly handle: (exchange: Exchange, params: RouteParams) => void | Promise<void>;
}

function servedRoute(
  route: FederationRoute | WebRoute,
  peers: PeerAuthenticator | undefined,
  directories: Directories,
): ServedRoute {
  const { method, path } = route;
  if (route.listener === 'web') {
    return { method, path, handle: (exchange, params) => answerPlane(exchange, params, route) };
  }
  if (peers === undefined) throw new Error(`${path} needs a listener that asks for certificates`);
  const check = federationCheck(route, directories);
  return {
    method,
    path,
    handle: (exchange, params) => answerFederation(exchange, params, route, peers, check),
  };
}

export class PlaneDispatcher {
  readonly #parts: PlaneDispatcherParts;
  readonly #settings: PlaneDispatcherSettings;
  readonly #routes: RouteTable<ServedRoute>;
  readonly #durations;
  /** Counters by route. */
  readonly #served = new Map<string, Served>();
  #draining = false;

  constructor(parts: PlaneDispatcherParts, settings: PlaneDispatcherSettings) {
    this.#parts = parts;
    this.#settings = settings;
    const { peers, name, whose } = settings;
    this.#routes = new RouteTable(
      parts.routes.map((route) => servedRoute(route, peers, parts.directories ?? {})),
    );
    parts.metrics.observe(
      {
        name: `hansa_${name}_requests_total`,
        help: `Requests from ${whose}, by route and HTTP status.`,
        labels: ['route', 'code'],
      },
      (report) => {
        for (const { route, counts } of this.#served.values()) {
          for (const [code, count] of counts) report({ route, code: String(code) }, count);
        }
      },
    );
    this.#durations = parts.metrics.histogram({
      name: `hansa_${name}_request_duration_seconds`,
      help: `Time from the headers of a request from ${whose} to the end of the response.`,
      labels: ['route'],
      buckets: durationBuckets,
    });
  }

  /** From now on, every response asks the client to close the connection. */
  drain(): void {
    this.#draining = true;
  }

  readonly listener = (request: Request, response: Response): void => {
    if (isBeyondLastAnswer(request)) return;
    const startedAt = this.#parts.clock.monotonic();
    const url = request.url ?? '/';
    const questionMark = url.indexOf('?');
    const path = questionMark < 0 ? url : url.slice(0, questionMark);
    const query = parseQuery(url, questionMark);
    const exchange = new Exchange(request, response, path, query, nobody, this.#parts);
    if (this.#draining && request.httpVersionMajor === 1) response.setHeader('connection', 'close');
    if (request.method === 'GET' || request.method === 'HEAD') this.#read(exchange, startedAt);
    else void this.#write(exchange, startedAt);
  };

  /** Requests without a body. */
  #read(exchange: Exchange, startedAt: number): void {
    const { limits } = this.#parts;
    let route = noRoute;
    let taken = false;
    try {
      limits.take(exchange);
      taken = true;
      const found = this.#find(exchange);
      if (found !== undefined) {
        route = found.route.path;
        const answering = found.route.handle(exchange, found.params);
        if (answering instanceof Promise) {
          taken = false;
          void this.#finish(exchange, route, answering, startedAt, () => limits.give());
          return;
        }
      }
    } catch (caught) {
      this.#refuse(exchange, route, caught);
    }
    if (taken) limits.give();
    this.#observe(exchange, route, startedAt);
  }

  /** Requests with a body, which may arrive slowly. */
  async #write(exchange: Exchange, startedAt: number): Promise<void> {
    const { limits } = this.#parts;
    let route = noRoute;
    let leave: (() => void) | undefined;
    const answer = async (): Promise<void> => {
      limits.take(exchange);
      leave = () => limits.give();
      refuseForeignPage(exchange);
      requireJson(exchange.request);
      const leaveShare = this.#settings.share?.(exchange);
      leave = () => {
        limits.give();
        leaveShare?.();
      };
      const found = this.#find(exchange);
      if (found === undefined) return;
      route = found.route.path;
      await found.route.handle(exchange, found.params);
    };
    try {
      await answer();
    } catch (caught) {
      this.#refuse(exchange, route, caught);
    }
    leave?.();
    this.#observe(exchange, route, startedAt);
  }

  async #finish(
    exchange: Exchange,
    route: string,
    answering: Promise<void>,
    startedAt: number,
    leave: () => void,
  ): Promise<void> {
    try {
      await answering;
    } catch (caught) {
      this.#refuse(exchange, route, caught);
    }
    leave();
    this.#observe(exchange, route, startedAt);
  }

  /** Undefined if it has already answered 404. */
  #find(exchange: Exchange): Found<ServedRoute> | undefined {
    const found = this.#routes.find(exchange.request.method ?? 'GET', exchange.path);
    if (found === undefined) {
      respond(exchange, 404, 'text/plain; charset=utf-8', '404 page not found\n');
      return undefined;
    }
    if (found === 'method') {
      throw new HansaError(
        'HANSA_METHOD_NOT_ALLOWED',
        'This path does not support the request method.',
      );
    }
    return found;
  }

  /** Never throws. */
  #refuse(exchange: Exchange, route: string, caught: unknown): void {
    try {
      this.#answerRefusal(exchange, route, toHansaError(caught));
    } catch (error) {
      this.#parts.log.error('cannot send an error response', { error });
      exchange.response.destroy();
    }
  }

  #answerRefusal(exchange: Exchange, route: string, error: HansaError): void {
    const { log, clock } = this.#parts;
    const { request, response } = exchange;
    if (error.code === 'HANSA_INTERNAL') {
      log.error('request failed', { error: error.cause, route, requestId: exchange.requestId });
    }
    this.#settings.refused?.(exchange, route, error);
    if (response.headersSent || response.destroyed) {
      response.destroy();
      return;
    }
    const retryAfter = error.details?.retryAfterSeconds;
    if (retryAfter !== undefined) response.setHeader('retry-after', String(retryAfter));
    if (!request.complete) abandonBody(request, response, clock);
    respondJson(exchange, httpStatusOf(error), statusOf(error));
  }

  #observe(exchange: Exchange, route: string, startedAt: number): void {
    const { response } = exchange;
    this.#parts.answers.hold(response, exchange.payer, nothing);
    let served = this.#served.get(route);
    if (served === undefined) {
      served = { route, counts: new Map() };
      this.#served.set(route, served);
    }
    const { counts } = served;
    counts.set(response.statusCode, (counts.get(response.statusCode) ?? 0) + 1);
    this.#durations.observe(served, (this.#parts.clock.monotonic() - startedAt) / 1000);
  }
}

/** An answer that is sent slowly keeps no place: its memory is limited, and most callers are strangers. */
const nothing = (): void => undefined;
/** Routes of this dispatcher check callers themselves. */
const nobody: Identify = { find: () => anonymous, refusal: () => unauthorized('nobody') };

interface Served {
  readonly route: string;
  /** By HTTP status. */
  readonly counts: Map<number, number>;
}
