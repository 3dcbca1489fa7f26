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
  /** http or https, without user info. The client reaches the server by CONNECT. */
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
  /** Absolute, below the path of the server, already encoded (see kube-path.ts). */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>> | undefined;
  /** Sent as JSON; a Buffer as it is. */
  readonly body?: unknown;
  /** Default `application/json`. */
  readonly contentType?: string | undefined;
  /** Names in lower case. They replace those that the client sends itself, except the credential. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** For the whole request; for a stream until the response begins. Default 10 s. */
  readonly timeoutMs?: number | undefined;
  /** Of the response. Default 4 MiB. A stream has no limit. */
  readonly maxBytes?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /**
   * Called each time right before bytes are sent, after any wait for a credential or a connection. Where it
   * throws, nothing is sent, and the request rejects with that error.
   */
  readonly beforeSend?: (() => void) | undefined;
  /**
   * Whether the request may be sent again where a pooled connection broke before any response. Default:
   * GET only. True for a POST that stores nothing, such as a TokenReview.
   */
  readonly resendable?: boolean | undefined;
  /**
   * Whether texts of a successful response are shown, logged or stored. The client then hides its credential in
   * the body, because a server or proxy may repeat it. In failures it always does.
   */
  readonly isQuoted?: boolean | undefined;
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

export interface KubePreconditions {
  readonly uid?: string | undefined;
  readonly resourceVersion?: string | undefined;
}

export interface KubeWriteOptions {
  readonly beforeSend?: KubeRequest['beforeSend'];
  /** Default `hansa`. Admission sees it, and the API server notes it in `managedFields`. */
  readonly fieldManager?: string | undefined;
}

/** The path of a collection, as `/api/v1/namespaces/x/serviceaccounts`. */
export type CollectionPath = string;

export interface KubeClient {
  /**
   * Resolves with every HTTP status but 3xx: redirects are not followed. Rejects with HANSA_UNREACHABLE
   * (`unreachableReason` in kube-errors.ts tells why), HANSA_CERTIFICATE_INVALID (the server's),
   * HANSA_TOO_LARGE, HANSA_UNAVAILABLE (no usable credential, or too many requests wait), or the reason of
   * the signal. Sends a request again only where a pooled connection broke before any response and the
   * request is `resendable`, and never after Retry-After: callers decide.
   */
  request(request: KubeRequest): Promise<KubeResponse>;
  /** The body as it arrives, for watches. The same rejections, also from the iterator. Not pooled. */
  stream(request: KubeRequest): Promise<KubeStream>;
  /** These reject with a `KubeStatusError` (kube-errors.ts) for every status but 2xx. */
  get<T extends KubeObject>(path: string): Promise<T>;
  /** Reads all pages. Items get the apiVersion and kind that lists leave out. Rejects with HANSA_TOO_LARGE. */
  list<T extends KubeObject>(
    path: CollectionPath,
    query?: KubeRequest['query'],
  ): Promise<readonly T[]>;
  create<T extends KubeObject>(
    path: CollectionPath,
    object: unknown,
    options?: KubeWriteOptions,
  ): Promise<T>;
  replace<T extends KubeObject>(
    path: string,
    object: unknown,
    options?: KubeWriteOptions,
  ): Promise<T>;
  /** JSON merge patch. */
  patch<T extends KubeObject>(path: string, patch: unknown): Promise<T>;
  /** Server-side apply with the field manager `hansa`, without force unless told. */
  apply<T extends KubeObject>(
    path: string,
    object: KubeObject,
    options?: { readonly force?: boolean; readonly dryRun?: boolean },
  ): Promise<T>;
  /** Resolves where it is gone already. Rejects with 409 where the object does not have the uid or version given. */
  delete(
    path: string,
    preconditions?: KubePreconditions,
    options?: Pick<KubeWriteOptions, 'beforeSend'>,
  ): Promise<void>;
  /** Ends idle connections now and others when they are done. Later requests work, without a pool. */
  close(): void;
}

export interface KubeStream {
  readonly status: number;
  readonly headers: KubeResponse['headers'];
  /** Can be iterated once. */
  readonly body: AsyncIterable<Buffer>;
  /** Ends the connection. An iteration then ends without an error. */
  close(): void;
}
