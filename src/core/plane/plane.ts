// What a plane is given, and what it adds to a site. Planes live in folders of their own, know
// nothing of each other, and meet only in the store. Nothing here knows a plane.

import type { ServerHttp2Stream } from 'node:http2';
import type { Kind } from '../../api/kind.ts';
import type { Resource } from '../../api/object.ts';
import type { TrustDomain } from '../../api/trust-domain.ts';
import type { Requester } from '../access/audit-draft.ts';
import type { Caller } from '../access/identity.ts';
import type { Audit } from '../audit/log.ts';
import type { Clock, Random } from '../clock/clock.ts';
import type { SiteAuthority } from '../identity/authority.ts';
import type { BundleSource } from '../identity/bundle.ts';
import type { Certificate } from '../identity/certificate.ts';
import type { SiteCredentials } from '../identity/site-credentials.ts';
import type { TlsCredential } from '../identity/tls-options.ts';
import type { ValidatedSvid } from '../identity/svid-validator.ts';
import type { Transport } from '../identity/transport.ts';
import type { Log } from '../log/log.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Controller } from '../reconcile/controller.ts';
import type { ResourceClient } from '../reconcile/resource-client.ts';
import type { Sealer } from '../store/sealer.ts';
import type { Commit, Expectation, Store } from '../store/store.ts';

export interface PlaneContext {
  readonly trustDomain: TrustDomain;
  readonly version: string;
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly audit: Pick<Audit, 'record' | 'deny' | 'later'>;
  readonly sealer: Sealer;
  readonly authority: SiteAuthority;
  readonly credentials: Pick<SiteCredentials, 'current' | 'onRenewal'>;
  /** Our own bundle and those of every trust domain that this site believes now, none that is stale. */
  readonly bundles: BundleSource;
  /** The same, stale ones included: for what goes on between sites, never for workloads. */
  readonly heldBundles: BundleSource;
  readonly transport: Transport;
  /** The absolute path of the data folder, for sockets. */
  readonly dataDir: string;
  /** The URL of the federation listener as others reach it. */
  readonly advertiseURL: () => string;
  /** The resources of a kind, on the write path that everybody uses. */
  resources<R extends Resource>(kind: Kind): ResourceClient<R>;
}

/** A request to a route of a plane: from another site, or from the owner of this one. */
export interface PlaneRequest {
  readonly method: string;
  readonly path: string;
  /** What stands for `*` at the end of the route's path. */
  readonly segment: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly address: string | undefined;
  /** Under which the audit log and the site's log name it. */
  readonly requestId: string;
  /** On the federation listener: who presented a certificate that `bundles` verifies; undefined where nobody did. */
  readonly peer: ValidatedSvid | undefined;
  /** On the federation listener: what was presented, believed or not, leaf first. */
  readonly peerChain: readonly Certificate[];
  /** On the api listener and the admin socket: who asks. */
  readonly caller: Caller | undefined;
  /** Reads the whole body, at most so many bytes (HANSA_TOO_LARGE). */
  body(limit: number): Promise<Buffer>;
}

export interface PlaneResponse {
  readonly status: number;
  readonly contentType: string;
  /** Ready-made bytes where possible. */
  readonly body: Buffer | string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The same object answers many requests, and never changes: it is made ready to be sent but once. */
  readonly repeats?: true;
}

/** Throwing a HansaError answers as everywhere: its code decides the status. */
interface AnyRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** A whole path, or one that ends in `/*`, which stands for exactly one further segment. */
  readonly path: string;
  handle(request: PlaneRequest): PlaneResponse | Promise<PlaneResponse>;
}

/** A route on the api listener and the admin socket. */
export interface ApiRoute extends AnyRoute {
  readonly listener: 'api';
  /**
   * Throws where the caller may not. The host asks before `handle`, and again when the body has
   * arrived: a slow body must not outlast the right to send it. Must be quick and without I/O.
   */
  readonly authorize: (request: PlaneRequest) => void;
}

/**
 * Nobody is asked for a certificate on `web`, where the Web PKI rules: what is there is for all. On
 * `federation` a route authorises its peer itself, and again after it has read a body.
 */
export interface PublicRoute extends AnyRoute {
  readonly listener: 'federation' | 'web';
  readonly authorize?: undefined;
}

export type PlaneRoute = ApiRoute | PublicRoute;

/** One call of a bidirectional gRPC method. Messages are bytes: what they mean is the plane's. */
export interface PlaneCall {
  readonly address: string | undefined;
  /** RFC 5705, RFC 8446 §7.5: bytes that only the two ends of this very connection can know. */
  exportKeyingMaterial(label: string, length: number): Buffer;
  /** The next message, or undefined where the caller has ended its half. Rejects where the call is over or late. */
  read(): Promise<Buffer | undefined>;
  write(message: Uint8Array): Promise<void>;
  /** Aborted when the caller is gone or the site stops. */
  readonly signal: AbortSignal;
}

/**
 * A bidirectional gRPC method on the federation listener. Returning ends the call with OK; throwing a
 * HansaError ends it with the gRPC status of its code. Messages are bounded and must come in time.
 */
export interface PlaneRpc {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** Of one message; a larger one ends the call with RESOURCE_EXHAUSTED. */
  readonly maxMessageBytes: number;
  /** For the call as a whole. */
  readonly withinMs: number;
  handle(call: PlaneCall): Promise<void>;
}

/**
 * A gRPC method on the admin socket, for whoever owns the site: no one else can open it. The plane is
 * given the stream of a POST with this path and does everything from there, also its bounds.
 */
export interface AdminCall {
  /** `/package.Service/Method`. */
  readonly path: string;
  handle(stream: ServerHttp2Stream): void;
}

/** The certificate of the web listener, and the answers to ACME challenges. */
export interface WebCertificate {
  /** Undefined until there is one: then no handshake succeeds, but for challenges. */
  readonly current: TlsCredential | undefined;
  /** Calls on every change from now on; returns how to stop that. Must not throw. */
  onChange(listener: () => void): () => void;
  /** RFC 8737: what a handshake with ALPN `acme-tls/1` for this name gets; undefined where none is open. */
  challengeFor(serverName: string): TlsCredential | undefined;
}

export interface Accompaniment extends Pick<Commit, 'put' | 'delete'> {
  /** What the change asks for, for its audit row. Never holds a secret. */
  readonly meaning?: string;
}

/** Started after the store, the identity and the writer, before any listener takes a connection. */
export interface RunningPlane {
  readonly controllers: readonly Controller[];
  readonly routes: readonly PlaneRoute[];
  readonly rpcs?: readonly PlaneRpc[];
  readonly adminCalls?: readonly AdminCall[];
  /** Of the one plane that keeps the web listener's certificate. */
  readonly webCertificate?: WebCertificate;
  /**
   * What a schema cannot say about a new or changed object of one of the plane's kinds: called with
   * the object as it would be stored, before the commit, and with what it takes the place of. Throws
   * to refuse (HANSA_INVALID); what is allowed but unwise goes to `warn`. What it returns must still
   * hold at the commit, or it is asked again. Must be quick and without I/O.
   */
  readonly admit?: (
    kind: Kind,
    next: Pick<Resource, 'metadata' | 'spec'>,
    live: Pick<Resource, 'spec'> | undefined,
    warn: (text: string) => void,
  ) => readonly Expectation[];
  /**
   * What is committed together with a new, changed or deleted object of one of the plane's kinds:
   * records of the plane's own that must not be there without the change, nor it without them. Called
   * after `admit`, again where the commit was overtaken. Must be quick, without I/O, and must not throw.
   */
  readonly accompany?: (
    kind: Kind,
    next: Pick<Resource, 'metadata' | 'spec'> | undefined,
    live: Pick<Resource, 'metadata' | 'spec'> | undefined,
    by: Requester,
  ) => Accompaniment | undefined;
  /** Why the plane is not ready, by part, for /readyz. */
  readonly health?: ReadonlyMap<string, () => string | undefined>;
  /** Addresses that the plane itself opened (the workload socket), for status and the greeting. */
  readonly endpoints?: Readonly<Record<string, string>>;
  stop(): Promise<void>;
}

export interface Plane {
  readonly name: string;
  readonly kinds: readonly Kind[];
  start(context: PlaneContext): Promise<RunningPlane>;
}
