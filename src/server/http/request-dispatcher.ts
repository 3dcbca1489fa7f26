// Dispatches the requests of the api listener and the admin socket: authenticates, applies limits,
// finds the route or resource, and converts errors into responses.

import { apiVersion } from '../../api/object.ts';
import type { Authorizer } from '../../core/access/authorizer.ts';
import type { Caller } from '../../core/access/identity.ts';
import type { Clock, Random } from '../../core/clock/clock.ts';
import { HansaError, toHansaError } from '../../core/errors/error.ts';
import type { Log } from '../../core/log/log.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import { type ApiCheck, apiCheck } from '../../core/plane/route-access.ts';
import type { ResourceHandler, ResourceRequest } from '../resources/handler.ts';
import type { OpenStreams } from '../listeners/stranger-limits.ts';
import type { Answers } from './answers.ts';
import {
  Exchange,
  type ExchangeParts,
  type Identify,
  parseQuery,
  type Request,
  respond,
  respondJson,
  type Response,
} from './exchange.ts';
import { BodyRequests } from './body-requests.ts';
import { identified, refuseImpersonation } from './identified.ts';
import type { Limits } from './limits.ts';
import { Room } from './room.ts';
import { RouteTable, type Route } from './routes.ts';
import { httpStatusOf, statusOf } from './status.ts';
import { abandonBody, isBeyondLastAnswer } from './unread-body.ts';
import { refuseForeignPage, requireJson } from './web-pages.ts';

export interface RequestDispatcherParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly answers: Answers;
  /** Timeout for receiving a body. Default: one minute. */
  readonly bodyWithinMs?: number;
  readonly resources: ResourceHandler;
  readonly routes: readonly Route[];
  readonly authorizer: Pick<Authorizer, 'authorize' | 'authorizePath'>;
  /** Throws HANSA_TOO_MANY_REQUESTS if the caller has caused too many audit records. */
  readonly mayRecord?: (caller: Caller) => void;
  /** Records a denial in the audit log. */
  readonly denied: (
    caller: Caller,
    error: HansaError,
    request: { method: string; path: string; address: string | undefined },
  ) => void;
}

/** Methods that write no audit record except a denial. */
const reading: ReadonlySet<string> = new Set(['GET', 'HEAD']);

const resourcePrefix = `/apis/${apiVersion}/`;

/** From a tenth of a millisecond to ten seconds. */
const durationBuckets = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];

/** Clients that pipeline for speed have fewer requests in progress. */
const maxPipelined = 64;

type CheckedRoute = Route & { readonly check: ApiCheck };

interface RouteSeries {
  readonly count: { add(): void };
  readonly duration: { observe(seconds: number): void };
}

export class RequestDispatcher {
  readonly #parts: RequestDispatcherParts;
  readonly #routes: RouteTable<CheckedRoute>;
  readonly #around: ExchangeParts;
  readonly #requests;
  readonly #durations;
  /** By verb and HTTP status. */
  readonly #series = new Map<string, Map<number, RouteSeries>>();
  /** Number of waiting responses, by connection. */
  readonly #queues = new WeakMap<object, { length: number }>();
  #draining = false;

  constructor(parts: RequestDispatcherParts) {
    this.#parts = parts;
    const { clock, random, answers, bodyWithinMs = 60_000 } = parts;
    this.#around = { clock, random, answers, bodyWithinMs };
    this.#routes = new RouteTable(
      parts.routes.map((route) => ({ ...route, check: apiCheck(route, parts.authorizer) })),
    );
    this.#requests = parts.metrics.counter({
      name: 'hansa_api_requests_total',
      help: 'Requests to the API, by verb, resource and HTTP status.',
      labels: ['verb', 'resource', 'code'],
    });
    this.#durations = parts.metrics.histogram({
      name: 'hansa_api_request_duration_seconds',
      help: 'Time from the headers of a request to the end of the response, without watches.',
      labels: ['verb', 'resource'],
      buckets: durationBuckets,
    });
  }

  /** From now on, every response asks the client to close the connection. */
  drain(): void {
    this.#draining = true;
  }

  /**
   * The request listener of a server that authenticates with `identify` and has its own limits.
   * `strangers` limits the open streams of unauthenticated callers, for a server on the network.
   */
  listener(
    identify: Identify,
    limits: Limits,
    strangers?: OpenStreams,
  ): (request: Request, response: Response) => void {
    const room = new Room(limits);
    const withBody = new BodyRequests({
      clock: this.#parts.clock,
      room,
      strangers,
      answers: this.#parts.answers,
      mayRecord: this.#parts.mayRecord,
      refuse: (exchange, method, error) => this.#refuse(exchange, method, error),
      answered: (response, method, startedAt) => {
        const { count, duration } = this.#routeSeries(method, response.statusCode);
        count.add();
        duration.observe((this.#parts.clock.monotonic() - startedAt) / 1000);
      },
      failed: (response, error) => this.#fail(response, error),
    });
    return (request, response) => {
      if (isBeyondLastAnswer(request)) return;
      try {
        this.#serve(identify, room, strangers, withBody, request, response);
      } catch (error) {
        this.#fail(response, error);
      }
    };
  }

  #fail(response: Response, error: unknown): void {
    this.#parts.log.error('cannot send an error response', { error });
    response.destroy();
  }

  #serve(
    identify: Identify,
    room: Room,
    strangers: OpenStreams | undefined,
    withBody: BodyRequests,
    request: Request,
    response: Response,
  ): void {
    const startedAt = this.#parts.clock.monotonic();
    const url = request.url ?? '/';
    const questionMark = url.indexOf('?');
    const path = questionMark < 0 ? url : url.slice(0, questionMark);
    const method = request.method ?? 'GET';
    const exchange = new Exchange(
      request,
      response,
      path,
      parseQuery(url, questionMark),
      identify,
      this.#around,
    );
    if (this.#draining && request.httpVersionMajor === 1) response.setHeader('connection', 'close');
    const asked = path.startsWith(resourcePrefix)
      ? this.#parts.resources.parse(method, path.slice(resourcePrefix.length), exchange.query)
      : undefined;
    const isLongQueue = this.#isLongQueue(request, response);
    const found = asked === undefined ? this.#routes.find(method, path) : undefined;
    if (typeof found === 'object') {
      exchange.params = found.params;
      exchange.authenticator = found.route.authenticator;
      const { headers } = found.route;
      if (headers !== undefined) {
        for (const name of Object.keys(headers)) response.setHeader(name, headers[name] ?? '');
      }
      if (found.route.readsBody !== undefined && !isLongQueue) {
        withBody.serve(exchange, found.route, found.route.readsBody, method, startedAt);
        return;
      }
    }
    const served = this.#serveAny(exchange, asked, found, room, strangers, startedAt, isLongQueue);
    served.catch((error: unknown) => this.#fail(response, error));
  }

  async #serveAny(
    exchange: Exchange,
    asked: ResourceRequest | undefined,
    found: ReturnType<RouteTable<CheckedRoute>['find']>,
    room: Room,
    strangers: OpenStreams | undefined,
    startedAt: number,
    isLongQueue: boolean,
  ): Promise<void> {
    const { request, response } = exchange;
    const method = request.method ?? 'GET';
    const isWatch = asked?.verb === 'watch';
    let leave: (() => void) | undefined;
    try {
      if (isLongQueue) throw longQueue();
      if (isPublic(found)) {
        if (strangers?.admit(request) === false) return;
        leave = room.enter(false, exchange.payer);
      } else {
        const isIn = identified(exchange, room, strangers);
        if (isIn !== true && !(await isIn)) return;
        refuseForeignPage(exchange);
        refuseImpersonation(exchange);
        leave = room.enter(isWatch, exchange.caller.user);
      }
      if (isWatch) response.once('close', leave);
      await this.#dispatch(exchange, asked, found, method);
    } catch (caught) {
      this.#refuse(exchange, method, toHansaError(caught));
    } finally {
      if (leave !== undefined) {
        if (!isWatch) this.#parts.answers.hold(response, exchange.payer, leave);
        else if (response.writableEnded) leave();
      }
    }
    this.#observe(response, asked, method, startedAt);
  }

  /**
   * Responses to pipelined requests wait in memory for the one before. A client that sends hundreds
   * and reads none would make the site keep hundreds of lists.
   */
  #isLongQueue(request: Request, response: Response): boolean {
    // HTTP/2 does not queue. Over HTTP/1.1, only a waiting response has no socket yet.
    if (request.httpVersionMajor !== 1 || response.socket !== null) return false;
    const queue = this.#queues.get(request.socket) ?? { length: 0 };
    this.#queues.set(request.socket, queue);
    queue.length += 1;
    response.once('close', () => {
      queue.length -= 1;
    });
    return queue.length > maxPipelined;
  }

  async #dispatch(
    exchange: Exchange,
    asked: ResourceRequest | undefined,
    found: ReturnType<RouteTable<CheckedRoute>['find']>,
    method: string,
  ): Promise<void> {
    if (asked !== undefined) {
      if (!reading.has(method)) this.#parts.mayRecord?.(exchange.caller);
      await this.#parts.resources.handle(exchange, asked);
      return;
    }
    if (found === undefined) {
      respond(exchange, 404, 'text/plain; charset=utf-8', '404 page not found\n');
    } else if (found === 'method') {
      throw new HansaError(
        'HANSA_METHOD_NOT_ALLOWED',
        'the server does not allow this method on the requested resource',
      );
    } else {
      const { route, params } = found;
      if (!reading.has(method)) {
        if (route.rowless !== true) this.#parts.mayRecord?.(exchange.caller);
        exchange.authorize = (again) => route.check(again.caller, again);
      }
      route.check(exchange.caller, exchange);
      if (!reading.has(method) && route.checksMediaType !== true) requireJson(exchange.request);
      await route.handle(exchange, params);
    }
  }

  #refuse(exchange: Exchange, method: string, error: HansaError): void {
    const { response, request } = exchange;
    if (error.code === 'HANSA_INTERNAL') {
      this.#parts.log.error('request failed', {
        error: error.cause,
        method,
        path: exchange.path,
        requestId: exchange.requestId,
      });
    }
    if (error.code === 'HANSA_FORBIDDEN' || error.code === 'HANSA_UNAUTHENTICATED') {
      this.#parts.denied(exchange.caller, error, {
        // HTTP/2 accepts any method name. The log must not.
        method: knownVerb(method.toLowerCase()),
        path: exchange.path,
        address: exchange.address,
      });
    }
    if (response.headersSent || response.destroyed) {
      response.destroy();
      return;
    }
    const retryAfter = error.details?.retryAfterSeconds;
    if (retryAfter !== undefined) response.setHeader('retry-after', String(retryAfter));
    if (!request.complete) abandonBody(request, response, this.#parts.clock);
    respondJson(exchange, httpStatusOf(error), statusOf(error));
  }

  /** The series of requests that are not about resources. */
  #routeSeries(method: string, status: number): RouteSeries {
    const verb = knownVerb(method.toLowerCase());
    let ofVerb = this.#series.get(verb);
    if (ofVerb === undefined) this.#series.set(verb, (ofVerb = new Map()));
    let series = ofVerb.get(status);
    if (series === undefined) {
      series = {
        count: this.#requests.series({ verb, resource: '', code: String(status) }),
        duration: this.#durations.series({ verb, resource: '' }),
      };
      ofVerb.set(status, series);
    }
    return series;
  }

  #observe(
    response: Response,
    asked: ResourceRequest | undefined,
    method: string,
    startedAt: number,
  ): void {
    const verb = asked?.verb ?? method.toLowerCase();
    const resource = asked?.kind.plural ?? '';
    const code = String(response.statusCode);
    this.#requests.add({ verb: knownVerb(verb), resource, code });
    if (verb === 'watch') return;
    this.#durations.observe(
      { verb: knownVerb(verb), resource },
      (this.#parts.clock.monotonic() - startedAt) / 1000,
    );
  }
}

function isPublic(found: ReturnType<RouteTable<CheckedRoute>['find']>): boolean {
  return typeof found === 'object' && found.route.allow === 'public';
}

function longQueue(): HansaError {
  return new HansaError(
    'HANSA_TOO_MANY_REQUESTS',
    'Too many requests wait on this connection, please read their answers first.',
    { details: { retryAfterSeconds: 1 } },
  );
}

const verbs = new Set([
  'get',
  'list',
  'watch',
  'create',
  'update',
  'patch',
  'delete',
  'deletecollection',
  'post',
  'put',
  'head',
]);

/** Maps the untrusted method to a fixed set of label values. */
function knownVerb(verb: string): string {
  return verbs.has(verb) ? verb : 'other';
}
