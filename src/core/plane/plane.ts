// What a plane is given, and what it adds to a site. Planes live in folders of their own, know
// nothing of each other, and meet only in the store. Nothing here knows a plane.

import type { Kind } from '../../api/kind.ts';
import type { Resource } from '../../api/object.ts';
import type { TrustDomain } from '../../api/trust-domain.ts';
import type { Caller } from '../access/identity.ts';
import type { Audit } from '../audit/log.ts';
import type { Clock, Random } from '../clock/clock.ts';
import type { SiteAuthority } from '../identity/authority.ts';
import type { BundleSource } from '../identity/bundle.ts';
import type { Certificate } from '../identity/certificate.ts';
import type { SiteCredentials } from '../identity/site-credentials.ts';
import type { ValidatedSvid } from '../identity/svid-validator.ts';
import type { Transport } from '../identity/transport.ts';
import type { Log } from '../log/log.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Controller } from '../reconcile/controller.ts';
import type { ResourceClient } from '../reconcile/resource-client.ts';
import type { Sealer } from '../store/sealer.ts';
import type { Store } from '../store/store.ts';

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
  /** Our own bundle and those of every trust domain that this site believes now. */
  readonly bundles: BundleSource;
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
}

/** Throwing a HansaError answers as everywhere: its code decides the status. Routes authorise for themselves. */
export interface PlaneRoute {
  readonly listener: 'federation' | 'api';
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** A whole path, or one that ends in `/*`, which stands for exactly one further segment. */
  readonly path: string;
  handle(request: PlaneRequest): PlaneResponse | Promise<PlaneResponse>;
}

/** Started after the store, the identity and the writer, before any listener takes a connection. */
export interface RunningPlane {
  readonly controllers: readonly Controller[];
  readonly routes: readonly PlaneRoute[];
  /**
   * What a schema cannot say about a new or changed object of one of the plane's kinds: called with
   * the object as it would be stored, before the commit, and with what it takes the place of. Throws
   * to refuse (HANSA_INVALID). Must be quick and without I/O.
   */
  readonly admit?: (
    kind: Kind,
    next: Pick<Resource, 'metadata' | 'spec'>,
    live: Pick<Resource, 'spec'> | undefined,
  ) => void;
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
