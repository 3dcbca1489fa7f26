// The contract of the Kubernetes client: one client talks to one API server with one credential over
// pooled connections.

/** How to reach an API server. */
export interface KubeEndpoint {
  /** https only, without user info. May have a path (Rancher). */
  readonly server: URL;
  /** PEM. The only accepted authorities; undefined: the public ones. */
  readonly caBundle?: string | undefined;
  /** The name in the server's certificate, if it differs from the host. */
  readonly tlsServerName?: string | undefined;
  readonly proxyURL?: URL | undefined;
}

/** What a request authenticates with. */
export type KubeCredential =
  | { readonly type: 'none' }
  | { readonly type: 'token'; readonly token: string }
  /** PEM. */
  | { readonly type: 'certificate'; readonly certificate: string; readonly key: string };

/** Where the credential comes from. It is asked for each request, so it must be quick while nothing changed. */
export interface KubeCredentialSource {
  /** Rejects with HANSA_UNAVAILABLE, with what to do, where there is none. */
  current(): KubeCredential | Promise<KubeCredential>;
  /** Called when the API server answered 401 to it, so that the source can look for a newer one. */
  refused?(credential: KubeCredential): void;
}

export interface KubeRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Absolute, below the path of the server. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Sent as JSON; a Buffer as it is. */
  readonly body?: unknown;
  /** Default `application/json`. */
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** For the whole request. Default 10 s. */
  readonly timeoutMs?: number;
  /** Of the response. Default 4 MiB. */
  readonly maxBytes?: number;
  readonly signal?: AbortSignal;
}

export interface KubeResponse {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

/** The path of a collection, as `/api/v1/namespaces/x/serviceaccounts`. */
export type CollectionPath = string;

export interface KubeClient {
  /**
   * Resolves with every HTTP status. Rejects with HANSA_UNREACHABLE (cannot resolve, connect, shake hands,
   * or no complete response in time), HANSA_CERTIFICATE_INVALID, HANSA_TOO_LARGE, HANSA_UNAVAILABLE (no
   * credential), or the reason of the signal. Retries only where the server cannot have seen the request
   * (a pooled connection that it had closed), and never after Retry-After: callers decide.
   */
  request(request: KubeRequest): Promise<KubeResponse>;
  /** The body as it arrives, for watches. The same rejections. */
  stream(request: KubeRequest): Promise<KubeStream>;
  /** These reject with a `KubeStatusError` for every status but 2xx. */
  get<T extends KubeObject>(path: string): Promise<T>;
  list<T extends KubeObject>(
    path: CollectionPath,
    query?: KubeRequest['query'],
  ): Promise<readonly T[]>;
  create<T extends KubeObject>(path: CollectionPath, object: unknown): Promise<T>;
  replace<T extends KubeObject>(path: string, object: unknown): Promise<T>;
  /** JSON merge patch. */
  patch<T extends KubeObject>(path: string, patch: unknown): Promise<T>;
  /** Server-side apply with the field manager `hansa`, without force unless told. */
  apply<T extends KubeObject>(
    path: string,
    object: KubeObject,
    options?: { readonly force?: boolean; readonly dryRun?: boolean },
  ): Promise<T>;
  /** Resolves where it is gone already. */
  delete(path: string): Promise<void>;
  /** Ends idle connections now and others when they are done. */
  close(): void;
}

export interface KubeStream {
  readonly status: number;
  readonly headers: KubeResponse['headers'];
  readonly body: AsyncIterable<Buffer>;
  close(): void;
}
