// The contract of an HTTP route: who may call it, and the input and output of its handler. The
// server checks the caller before the handler runs and again when the body is complete, so handlers
// do not authorize callers.

import type { GrantTarget } from '../../api/grants.ts';
import type { GrantScope, GrantTargetType } from '../../api/kinds/federation-grant.ts';
import type { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Caller } from '../access/identity.ts';
import type { KindName } from '../access/presets.ts';
import type { HansaError } from '../errors/error.ts';
import type { Certificate } from '../identity/x509/certificate.ts';
import type { ValidatedSvid } from '../identity/x509/svid-validator.ts';

/** The names in braces of a path such as `/hansa/v1/tokens/{name}`. Each stands for one segment. */
export type ParamNames<P extends string> = string extends P
  ? string
  : P extends `${string}{${infer Name}}${infer Rest}`
    ? Name | ParamNames<Rest>
    : never;

export type Params<P extends string> = Readonly<Record<ParamNames<P>, string>>;

/** What a request is about, as far as path and connection say it. */
export interface RouteTarget<P extends string = string> {
  readonly path: string;
  /** Decoded values of the path's parameters. */
  readonly params: Params<P>;
  /** The Host header or `:authority` as it came; undefined where there is none, or several that differ. */
  readonly host: string | undefined;
  /** The server name of the TLS connection (SNI). */
  readonly serverName: string | undefined;
}

/** A request to a route, as every handler receives it. */
export interface AnyRequest<P extends string = string> extends RouteTarget<P> {
  readonly method: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly address: string | undefined;
  /** The id of the request in the audit log and the site's log. */
  readonly requestId: string;
  /** Reads the whole body, at most `limit` bytes (HANSA_TOO_LARGE). */
  body(limit: number): Promise<Buffer>;
  /**
   * Reads a JSON body of at most `limit` bytes; HANSA_BAD_REQUEST where it is not JSON. `parse`
   * receives undefined where the body is empty.
   */
  json<T>(limit: number, parse: (value: unknown) => T): Promise<T>;
}

export interface ApiRequest<P extends string = string> extends AnyRequest<P> {
  readonly caller: Caller;
  /** The body, where the route declares `readsBody`. Otherwise empty. */
  readonly content: Buffer;
}

export interface FederationRequest<P extends string = string> extends AnyRequest<P> {
  /** The SVID of the connection, where the site's bundles verify it now. */
  readonly svid: ValidatedSvid | undefined;
  /** The certificates that the caller presented, verified or not, leaf first. */
  readonly peerChain: readonly Certificate[];
}

export interface PeerRequest<P extends string = string> extends FederationRequest<P> {
  readonly peer: LivePeer;
}

export interface AgentRequest<P extends string = string> extends FederationRequest<P> {
  readonly agent: JoinedAgent;
}

export interface PlaneResponse {
  readonly status: number;
  readonly contentType: string;
  /** Prebuilt bytes where possible. */
  readonly body: Buffer | string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The same immutable object answers many requests, so the server prepares it once. */
  readonly repeats?: true;
}

/** A right on a kind, as roles grant it. */
export interface Right<P extends string = string> {
  readonly verb: string;
  readonly kind: KindName;
  readonly subresource?: string;
  /** The object: the value of this path parameter. */
  readonly nameFrom?: ParamNames<P>;
  /** The object: always this one. */
  readonly name?: string;
  /**
   * The object, computed from the request, and how the table of routes shows it. Pure and quick. May throw a
   * HansaError, which answers the request.
   */
  readonly nameOf?: {
    readonly request: (target: RouteTarget<P>) => string;
    readonly shown: string;
  };
  /** Whether this request needs the right, and when, in words. Undefined: every request does. */
  readonly only?: {
    readonly needed: (params: Readonly<Record<ParamNames<P>, string>>) => boolean;
    readonly when: string;
  };
}

/** Everyone. The site does not look at credentials, and the caller is anonymous. */
interface PublicAccess {
  readonly allow: 'public';
}

/** Who may call a route on the api listener and the admin socket. */
export type ApiAccess<P extends string = string> = PublicAccess | RestrictedAccess<P>;

type RestrictedAccess<P extends string> =
  /** Every caller with a valid credential. */
  | { readonly allow: 'authenticated' }
  /** Callers with a credential of one of these kinds. */
  | {
      readonly allow: 'credential';
      readonly via: readonly Caller['via'][];
      readonly refusal: (caller: Caller) => HansaError;
    }
  /** Callers who have all of these rights. */
  | { readonly allow: 'rights'; readonly rights: readonly [Right<P>, ...Right<P>[]] }
  /** Callers who may `get` the path itself, which is not a resource (the discovery role). */
  | { readonly allow: 'path' }
  /** Owners of the site: the admin socket, and certificates for `admin` that come from it. */
  | { readonly allow: 'owner'; readonly refusal: (caller: Caller) => HansaError };

/** Who may call a route or a stream on the federation listener. */
export type FederationAccess =
  /** Everyone, with or without a certificate. */
  | { readonly allow: 'public' }
  /** Everyone who presents a certificate. The handler verifies it with the content of the message. */
  | { readonly allow: 'certificate' }
  /** A site that is a live peer; with `scope`, one that holds a grant with this scope. */
  | ({ readonly allow: 'peer' } & NeededGrant)
  /** A machine that joined this site as an agent and was not forgotten. */
  | { readonly allow: 'agent' };

/** The grant that a live peer needs for a route. Without `scope`, it needs none. */
export interface NeededGrant<P extends string = string> {
  readonly scope?: GrantScope;
  /** The grant must name the object of this type that the path parameter names. Without it, any target suffices. */
  readonly target?: { readonly type: GrantTargetType; readonly nameFrom: ParamNames<P> };
  /**
   * `any`: a grant to any identity of the peer suffices, because its site issues all of them. Without
   * it, the grant must admit the SPIFFE ID of the site itself.
   */
  readonly identity?: 'any';
}

/** What a caller presents to a route that authenticates callers itself. */
export interface PresentedCredential extends RouteTarget {
  readonly headers: AnyRequest['headers'];
  readonly address: string | undefined;
  /** The client certificate, where the bundle of this site verifies it now. */
  readonly svid: ValidatedSvid | undefined;
  /** Whether the client presented a certificate, valid or not. */
  readonly hasCertificate: boolean;
  /** The connection, as key of caches. */
  readonly connection: object;
}

/** Callers that one route accepts in addition to users and tokens of the site. */
export interface RouteAuthenticator {
  /** For the table of routes: who they are. */
  readonly who: string;
  /**
   * The caller; undefined where the credential is not valid. Called only for requests over TLS without a
   * valid credential of the site, before the handler runs and again when the body is complete. Throws or
   * rejects with HANSA_UNAVAILABLE where it cannot check.
   */
  authenticate(presented: PresentedCredential): Caller | undefined | Promise<Caller | undefined>;
}

interface RouteBase<P extends string> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** A path; a segment `{name}` is a parameter. */
  readonly path: P;
}

type Answer = PlaneResponse | Promise<PlaneResponse>;

/** A route on the api listener and the admin socket. Throwing a HansaError answers with its status. */
export type ApiRoute<P extends string = string> = RouteBase<P> &
  // A public route reads, and says nothing about the site.
  (RestrictedAccess<P> | (PublicAccess & { readonly method: 'GET' })) &
  ApiRouteOptions & { readonly listener: 'api'; handle(request: ApiRequest<P>): Answer };

export interface ApiRouteOptions {
  /** Writes no audit record, so a caller beyond its record budget may still use it. */
  readonly rowless?: true;
  readonly authenticator?: RouteAuthenticator;
  /** Headers of all responses, those of errors included. */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * The site reads a body of at most this many bytes before the handler runs, which gets it as `content`.
   * A handler that then answers at once costs no promise. Without it, the handler reads the body itself.
   */
  readonly readsBody?: number;
  /** The handler checks Content-Type, as Kubernetes does. Otherwise the server requires application/json. */
  readonly checksMediaType?: true;
}

/** The web listener asks for no certificate: its routes are public. */
export interface WebRoute<P extends string = string> extends RouteBase<P> {
  readonly listener: 'web';
  readonly allow: 'public';
  handle(request: AnyRequest<P>): Answer;
}

interface FederationRouteBase<P extends string> extends RouteBase<P> {
  readonly listener: 'federation';
}

export type FederationRoute<P extends string = string> =
  | (FederationRouteBase<P> & {
      readonly allow: 'public' | 'certificate';
      handle(request: FederationRequest<P>): Answer;
    })
  | (FederationRouteBase<P> & {
      readonly allow: 'peer';
      handle(request: PeerRequest<P>): Answer;
    } & NeededGrant<P>)
  | (FederationRouteBase<P> & {
      readonly allow: 'agent';
      handle(request: AgentRequest<P>): Answer;
    });

export type PlaneRoute<P extends string = string> = ApiRoute<P> | WebRoute<P> | FederationRoute<P>;

/** Declares a route, so that its handler sees the parameters of its path by name. */
export function route<const P extends string>(declared: PlaneRoute<P>): PlaneRoute {
  return declared as unknown as PlaneRoute;
}

/** Another site that this site trusts now. */
export interface LivePeer {
  readonly name: string;
  readonly uid: string;
  readonly trustDomain: TrustDomain;
}

/** A machine that joined this site. */
export interface JoinedAgent {
  readonly name: string;
  /** Set if the agent has renewed this SVID. Open streams continue with it, new ones are refused. */
  readonly superseded?: true;
}

/**
 * The live peers, according to the current store. One plane provides it. Methods are quick and
 * without I/O, because the server calls them for each request and each message of a stream.
 */
export interface PeerDirectory {
  /** The peer, or why the caller is not a peer. */
  find(svid: ValidatedSvid | undefined): LivePeer | string;
  /**
   * Why no grant covers a call of the peer from this address; undefined where one does. Throws
   * HANSA_TOO_MANY_REQUESTS instead of the reason, while the peer has had too many denials of such calls.
   */
  lacks(peer: LivePeer, need: PeerNeed, address: string | undefined): string | undefined;
  /** Records that the caller is not a live peer, with the reason; returns the error for the caller. */
  refuse(request: Refused, reason: string): HansaError;
  /** Records that a live peer lacks a grant, with the reason; the error for the caller only says "denied". */
  deny(request: Refused, peer: LivePeer, reason: string): HansaError;
  /** Calls `listener` after each change that can end the trust in a peer. Returns how to stop. */
  onChange(listener: () => void): () => void;
}

/** What a grant must cover. */
export interface PeerNeed {
  readonly scope: GrantScope;
  readonly target?: GrantTarget;
  readonly identity?: 'any';
}

/** A rejected caller, as far as it is known. */
export interface Refused
  extends Pick<FederationRequest, 'path' | 'address' | 'svid' | 'peerChain'> {
  /** Decoded values of the path's parameters; absent for streams. */
  readonly params?: Readonly<Record<string, string>>;
  /** Whether the site admitted the same call before. */
  readonly wasAdmitted?: boolean;
}

/** The agents that joined. Same rules as PeerDirectory. */
export interface AgentDirectory {
  find(svid: ValidatedSvid | undefined): JoinedAgent | string;
  /**
   * Reports an SVID that the agent has renewed, unless the call is open. Returns the error for the caller:
   * HANSA_UNAUTHENTICATED where the site has no such agent (any more), otherwise HANSA_FORBIDDEN, which a
   * newer SVID can cure.
   */
  refuse(request: Refused, reason: string): HansaError;
  /**
   * Calls `listener` after each change that can end the trust in agents: with their names, or undefined
   * for all. Returns how to stop.
   */
  onChange(listener: (agents: readonly string[] | undefined) => void): () => void;
}
