// The federation listener: serves only the routes and gRPC methods of planes. It verifies the SVID of a
// caller on every request against the bundles that the site trusts now. A gRPC method that does not
// declare who may call is public.

import type { TLSSocket } from 'node:tls';
import { sourceOf } from '../../core/access/failure-limit.ts';
import type { HansaError } from '../../core/errors/error.ts';
import type { FederationRoute } from '../../core/plane/route.ts';
import type { PlaneRpc } from '../../core/plane/stream.ts';
import type { BundleSource } from '../../core/identity/bundle/bundle.ts';
import { PeerAuthenticator } from '../../core/identity/tls/peer-authenticator.ts';
import { brokenRule } from '../../core/identity/x509/rules.ts';
import type { ValidatedSvid } from '../../core/identity/x509/svid-validator.ts';
import type { Exchange, Request, Response } from '../http/exchange.ts';
import type { Limits } from '../http/limits.ts';
import { peerOf } from '../http/plane-exchange.ts';
import { PlaneDispatcher, type PlaneDispatcherParts } from '../http/plane-dispatcher.ts';
import { isRpc, RpcDispatcher } from '../http/rpc.ts';
import { addressOf } from '../http/source-address.ts';
import { CallerQuota } from '../http/caller-quota.ts';
import { afterPreparation } from '../http/after-preparation.ts';
import type { HandshakeBudget } from './handshake-budget.ts';
import type { Release } from './stranger-limits.ts';

export interface FederationDispatcherParts extends PlaneDispatcherParts {
  readonly routes: readonly FederationRoute[];
  readonly bundles: BundleSource;
  /** Default: no limit on what strangers cost. */
  readonly handshakes?: Pick<HandshakeBudget, 'budget' | 'proven'>;
  readonly rpcs?: readonly PlaneRpc[];
  /** Records a denial in the audit log. `peer` is a verified SPIFFE ID, or undefined. */
  readonly denied: (
    peer: string | undefined,
    error: HansaError,
    request: { readonly route: string; readonly address: string | undefined },
  ) => void;
}

/** A peer sends little more than heartbeats and announcements, and a stranger redeems an invitation. */
const mostOfOnePeer = 32;
const mostOfOneAddress = 16;
/** A site or an agent needs one stream of each kind, and a second one while it reconnects. */
const mostStreamsOfOneIdentity = 16;
/** An agent has one stream. A second one replaces it, and a few more may still be closing. */
const mostStreamsOfOneAgent = 4;

export class FederationDispatcher {
  readonly #peers: PeerAuthenticator;
  readonly #dispatcher: PlaneDispatcher;
  readonly #rpcs: RpcDispatcher;
  /** Places of peers by trust domain, and of strangers by address. Strangers can hold at most half. */
  readonly #peerShares: CallerQuota;
  readonly #strangerShares: CallerQuota;
  /** Streams, by identity and by address. All limits are per process: each replica limits what it serves. */
  readonly #knownStreams: CallerQuota;
  readonly #strangerStreams: CallerQuota;
  /** Streams of agents: they last, like watches, and are as many as the machines of the site. */
  readonly #agentStreams: CallerQuota;

  constructor(parts: FederationDispatcherParts) {
    const { clock, bundles, handshakes } = parts;
    this.#peers = new PeerAuthenticator({
      clock,
      bundles,
      ...(handshakes && { budget: handshakes.budget, proven: handshakes.proven }),
    });
    this.listener = afterPreparation(this.#peers, this.#dispatch);
    const all = parts.limits.maxConcurrentRequests;
    this.#peerShares = new CallerQuota({ each: mostOfOnePeer, all });
    this.#strangerShares = new CallerQuota({ each: mostOfOneAddress, all: Math.ceil(all / 2) });
    this.#knownStreams = new CallerQuota({ each: mostStreamsOfOneIdentity, all });
    this.#strangerStreams = new CallerQuota({ each: mostOfOneAddress, all: Math.ceil(all / 2) });
    this.#agentStreams = new CallerQuota({
      each: mostStreamsOfOneAgent,
      all: parts.limits.maxWatches,
    });
    this.#dispatcher = new PlaneDispatcher(parts, {
      name: 'federation',
      whose: 'other sites',
      peers: this.#peers,
      share: (exchange) => this.#share(exchange),
      refused: (exchange, route, error) => {
        if (!refusals.has(error.code)) return;
        const peer = peerOf(exchange, this.#peers)?.id.toString();
        parts.denied(peer, error, { route, address: exchange.address });
      },
    });
    this.#rpcs = new RpcDispatcher({
      ...parts,
      rpcs: parts.rpcs ?? [],
      directories: parts.directories ?? {},
      svidOf: (request) => this.#svidOf(request),
      enter: (request, svid, allow) => this.#enterStream(request, svid, allow, parts.limits),
      refused: (request, route, error, svid) =>
        parts.denied(svid?.id.toString(), error, {
          route,
          address: addressOf(request),
        }),
    });
  }

  /** From now on, every response asks the client to close the connection. */
  drain(): void {
    this.#dispatcher.drain();
    this.#rpcs.drain();
  }

  /** `release` takes the stream out of the limits for strangers. */
  readonly listener: (request: Request, response: Response, release?: Release) => void;

  readonly #dispatch = (request: Request, response: Response, release?: Release): void => {
    if (isRpc(request)) this.#rpcs.listener(request, response, release);
    else this.#dispatcher.listener(request, response);
  };

  #svidOf(request: Request): ValidatedSvid | undefined {
    try {
      return this.#peers.authenticate(request.socket as TLSSocket);
    } catch (error) {
      if (brokenRule(error) === undefined) throw error;
      return undefined;
    }
  }

  /** A stream can last long, so it counts against other limits than requests. */
  #enterStream(
    request: Request,
    svid: ValidatedSvid | undefined,
    allow: PlaneRpc['allow'],
    limits: Limits,
  ): () => void {
    const address = addressOf(request) ?? '';
    const identity = svid?.id.toString();
    // Many agents may share one address.
    limits.spend(identity ?? address);
    if (identity === undefined) return this.#strangerStreams.enter(sourceOf(address));
    return (allow === 'agent' ? this.#agentStreams : this.#knownStreams).enter(identity);
  }

  /** For requests with a body, which may arrive slowly. Others need no place. */
  #share(exchange: Exchange): () => void {
    const peer = peerOf(exchange, this.#peers);
    return peer === undefined
      ? this.#strangerShares.enter(sourceOf(exchange.address ?? ''))
      : this.#peerShares.enter(peer.id.trustDomain.name);
  }
}

const refusals: ReadonlySet<string> = new Set([
  'HANSA_FORBIDDEN',
  'HANSA_UNAUTHENTICATED',
  'HANSA_CERTIFICATE_INVALID',
  'HANSA_TOO_MANY_REQUESTS',
  'HANSA_TIMEOUT',
]);
