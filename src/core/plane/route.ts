// The contract of an HTTP route: what a plane declares, what its handler receives and answers.

import type { Caller } from '../access/identity.ts';
import type { Certificate } from '../identity/certificate.ts';
import type { ValidatedSvid } from '../identity/svid-validator.ts';

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
