// Requests of other sites: the routes that planes bring, and nothing else. Callers are told apart by
// their SVIDs, judged on every request against what this site believes now.

import { sourceOf } from '../core/access/failure-limit.ts';
import { anonymous } from '../core/access/identity.ts';
import type { Clock, Random } from '../core/clock/clock.ts';
import { HansaError, toHansaError } from '../core/errors/error.ts';
import type { BundleSource } from '../core/identity/bundle.ts';
import { PeerAuthenticator } from '../core/identity/peer-authenticator.ts';
import type { Log } from '../core/log/log.ts';
import type { Metrics } from '../core/metrics/metrics.ts';
import type { PlaneRoute } from '../core/plane/plane.ts';
import {
  Exchange,
  parseQuery,
  type Request,
  respond,
  respondJson,
  type Response,
} from './http/exchange.ts';
import type { Limits } from './http/limits.ts';
import { answerPlane, peerOf } from './http/plane-exchange.ts';
import { RouteTable } from './http/routes.ts';
import { Shares } from './http/shares.ts';
import { httpStatusOf, statusOf } from './http/status.ts';
import { abandonBody, isBeyondLastAnswer } from './http/unread-body.ts';

export interface FederationFrontParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly limits: Limits;
  readonly bodyWithinMs: number;
  readonly bundles: BundleSource;
  readonly routes: readonly PlaneRoute[];
  /** Records a refusal in the audit log. `peer` is a SPIFFE ID that was proven, or undefined. */
  readonly denied: (
    peer: string | undefined,
    error: HansaError,
    request: { readonly route: string; readonly address: string | undefined },
  ) => void;
}

/** From a tenth of a millisecond to ten seconds. */
const durationBuckets = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10];
/** A peer sends a heartbeat, an announcement and little else; a stranger redeems an invitation. */
const mostOfOnePeer = 32;
const mostOfOneAddress = 16;
/** What a label says where no route was found: paths come from outside. */
const noRoute = 'none';

export class FederationFront {
  readonly #parts: FederationFrontParts;
  readonly #peers: PeerAuthenticator;
  readonly #routes: RouteTable;
  readonly #requests;
  readonly #durations;
  /** Peers by trust domain, strangers by address. Only half of all there is can be held by strangers. */
  readonly #peerShares: Shares;
  readonly #strangerShares: Shares;
  #draining = false;

  constructor(parts: FederationFrontParts) {
    this.#parts = parts;
    this.#peers = new PeerAuthenticator(parts.bundles);
    const all = parts.limits.maxConcurrentRequests;
    this.#peerShares = new Shares({ each: mostOfOnePeer, all });
    this.#strangerShares = new Shares({ each: mostOfOneAddress, all: Math.ceil(all / 2) });
    this.#routes = new RouteTable(
      parts.routes.map((route) => ({
        method: route.method,
        path: route.path,
        handle: (exchange, segment) => answerPlane(exchange, segment, route, this.#peers),
      })),
    );
    this.#requests = parts.metrics.counter({
      name: 'hansa_federation_requests_total',
      help: 'Requests of other sites, by route and HTTP status.',
      labels: ['route', 'code'],
    });
    this.#durations = parts.metrics.histogram({
      name: 'hansa_federation_request_duration_seconds',
      help: 'Time from the head of a request of another site to the end of its answer.',
      labels: ['route'],
      buckets: durationBuckets,
    });
  }

  /** From now on every answer asks its client to close the connection. */
  drain(): void {
    this.#draining = true;
  }

  readonly listener = (request: Request, response: Response): void => {
    if (isBeyondLastAnswer(request)) return;
    this.#serve(request, response).catch((error: unknown) => {
      this.#parts.log.error('a request could not even be refused', { error });
      response.destroy();
    });
  };

  async #serve(request: Request, response: Response): Promise<void> {
    const { clock } = this.#parts;
    const startedAt = clock.monotonic();
    const url = request.url ?? '/';
    const questionMark = url.indexOf('?');
    const path = questionMark < 0 ? url : url.slice(0, questionMark);
    const query = parseQuery(url, questionMark);
    const exchange = new Exchange(request, response, path, query, () => anonymous, this.#parts);
    if (this.#draining && request.httpVersionMajor === 1) response.setHeader('connection', 'close');
    let route = noRoute;
    let leave: (() => void) | undefined;
    try {
      leave = this.#enter(exchange);
      const found = this.#routes.find(request.method ?? 'GET', path);
      if (found === undefined) {
        respond(exchange, 404, 'text/plain; charset=utf-8', '404 page not found\n');
      } else if (found === 'method') {
        throw new HansaError(
          'HANSA_METHOD_NOT_ALLOWED',
          'This path does not support the method of the request.',
        );
      } else {
        route = found.route.path;
        await found.route.handle(exchange, found.segment);
      }
    } catch (caught) {
      this.#refuse(exchange, route, toHansaError(caught));
    } finally {
      leave?.();
    }
    this.#requests.add({ route, code: String(response.statusCode) });
    this.#durations.observe({ route }, (clock.monotonic() - startedAt) / 1000);
  }

  /** Whoever sends a body can take his time over it; what is answered at once needs no share. */
  #enter(exchange: Exchange): () => void {
    const address = exchange.address ?? '';
    const leave = this.#parts.limits.enter(false, address);
    if (exchange.request.method === 'GET') return leave;
    try {
      const peer = peerOf(exchange, this.#peers);
      const leaveShare =
        peer === undefined
          ? this.#strangerShares.enter(sourceOf(address))
          : this.#peerShares.enter(peer.id.trustDomain.name);
      return () => {
        leaveShare();
        leave();
      };
    } catch (error) {
      leave();
      throw error;
    }
  }

  #refuse(exchange: Exchange, route: string, error: HansaError): void {
    const { log, clock, denied } = this.#parts;
    const { request, response, address } = exchange;
    if (error.code === 'HANSA_INTERNAL') {
      log.error('a request failed', { error: error.cause, route, requestId: exchange.requestId });
    }
    if (refusals.has(error.code)) {
      denied(peerOf(exchange, this.#peers)?.id.toString(), error, { route, address });
    }
    if (response.headersSent || response.destroyed) {
      response.destroy();
      return;
    }
    const retryAfter = error.details?.retryAfterSeconds;
    if (retryAfter !== undefined) response.setHeader('retry-after', String(retryAfter));
    if (!request.complete) abandonBody(request, response, clock);
    respondJson(exchange, httpStatusOf(error), statusOf(error));
  }
}

const refusals: ReadonlySet<string> = new Set([
  'HANSA_FORBIDDEN',
  'HANSA_UNAUTHENTICATED',
  'HANSA_CERTIFICATE_INVALID',
  'HANSA_TOO_MANY_REQUESTS',
  'HANSA_TIMEOUT',
]);
