// The Kubernetes client over HTTP/1.1 and TLS: one API server, one source of credentials, and a pool
// of connections for the current client certificate. Nothing is opened before the first request.

import type { SecureContext } from 'node:tls';
import type { Clock } from '../clock/clock.ts';
import { HansaError } from '../errors/error.ts';
import { type BegunStream, callForResponse, callForStream } from './call.ts';
import { ConnectionPool } from './connection-pool.ts';
import { hideSecretIn } from './hide-tokens.ts';
import type {
  KubeCredential,
  KubeCredentialSource,
  KubeEndpoint,
  KubeRequest,
  KubeResponse,
  KubeStream,
} from './kube-client.ts';
import { KubeVerbs } from './kube-verbs.ts';
import { checkEndpoint, kubeContext, openConnection } from './open-connection.ts';

/** RFC 6750 §2.1: printable ASCII without spaces. Kubernetes' own tokens have about 1 KiB. */
const bearerToken = /^[\x21-\x7e]{1,65536}$/;

export interface HttpKubeClientOptions {
  readonly endpoint: KubeEndpoint;
  readonly credentials: KubeCredentialSource;
  readonly clock: Clock;
  /** Default 64. */
  readonly maxConnections?: number | undefined;
  /** Requests that wait for a connection. Default 1024. */
  readonly maxWaiting?: number | undefined;
  /** Default 64. Streams have connections of their own. */
  readonly maxStreams?: number | undefined;
}

type Certificate = Extract<KubeCredential, { type: 'certificate' }>;

export class HttpKubeClient extends KubeVerbs {
  readonly #options: HttpKubeClientOptions;
  readonly #base: string;
  /** The lines that all requests have. */
  readonly #fixedHeaders: string;
  #certificate: Certificate | undefined;
  /** With the certificate above. */
  #context: SecureContext | undefined;
  /** With the context above. */
  #pool: ConnectionPool | undefined;
  #token: string | undefined;
  #authorization = '';
  #streams = 0;
  #isClosed = false;

  /** Throws a TypeError for an endpoint that cannot be used. */
  constructor(options: HttpKubeClientOptions) {
    const { server } = options.endpoint;
    checkEndpoint(options.endpoint);
    super(server.host, options.clock);
    this.#options = options;
    this.#base = server.pathname.replace(/\/+$/, '');
    this.#fixedHeaders = ` HTTP/1.1\r\nhost: ${server.host}\r\nuser-agent: hansa\r\n`;
  }

  async request(request: KubeRequest): Promise<KubeResponse> {
    request.signal?.throwIfAborted();
    const { credentials, clock } = this.#options;
    const source = credentials.current();
    const credential = source instanceof Promise ? await source : source;
    const bytes = this.#bytesOf(request, credential);
    const pool = this.#poolFor(credential);
    const secret = secretOf(credential);
    const { where } = this;
    const response = await callForResponse({ request, bytes, pool, where, clock, secret });
    if (response.status === 401) credentials.refused?.(credential);
    return secret === undefined ? response : withoutSecret(request, response, secret);
  }

  async stream(request: KubeRequest): Promise<KubeStream> {
    request.signal?.throwIfAborted();
    const { credentials, clock, maxStreams = 64 } = this.#options;
    const credential = await credentials.current();
    if (this.#streams >= maxStreams) {
      throw new HansaError(
        'HANSA_UNAVAILABLE',
        `Cannot read a stream of the API server ${this.where}: ${maxStreams} streams are open already.`,
      );
    }
    const bytes = this.#bytesOf(request, credential);
    const pool = this.#newPool(this.#contextFor(credential), 1);
    // It keeps no connection.
    pool.close();
    this.#streams++;
    let begun: BegunStream;
    try {
      const secret = secretOf(credential);
      begun = await callForStream({ request, bytes, pool, where: this.where, clock, secret });
    } catch (error) {
      this.#streams--;
      throw error;
    }
    if (begun.head.status === 401) credentials.refused?.(credential);
    return this.#streamOf(begun, request.signal);
  }

  close(): void {
    this.#isClosed = true;
    this.#pool?.close();
  }

  #streamOf({ head, body, connection }: BegunStream, signal: AbortSignal | undefined): KubeStream {
    let isClosed = false;
    const onAbort = (): void => connection.destroy();
    const onEnd = (): void => {
      this.#streams--;
      signal?.removeEventListener('abort', onAbort);
    };
    // A stream that is not read reports nothing; one that is read throws.
    body.on('error', () => undefined);
    if (connection.socket.closed) onEnd();
    else connection.socket.once('close', onEnd);
    signal?.addEventListener('abort', onAbort, { once: true });
    if (signal?.aborted === true) onAbort();
    return {
      status: head.status,
      headers: head.headers,
      body: (async function* () {
        try {
          for await (const chunk of body as AsyncIterable<Buffer>) yield chunk;
        } catch (error) {
          if (isClosed) return;
          signal?.throwIfAborted();
          throw error;
        }
      })(),
      close: () => {
        isClosed = true;
        connection.destroy();
      },
    };
  }

  #poolFor(credential: KubeCredential): ConnectionPool {
    const context = this.#contextFor(credential);
    this.#pool ??= this.#newPool(context, this.#options.maxConnections ?? 64);
    return this.#pool;
  }

  #contextFor(credential: KubeCredential): SecureContext {
    const certificate = credential.type === 'certificate' ? credential : undefined;
    const isSame =
      certificate?.certificate === this.#certificate?.certificate &&
      certificate?.key === this.#certificate?.key;
    if (this.#context !== undefined && isSame) return this.#context;
    const context = kubeContext(this.#options.endpoint, certificate);
    this.#pool?.close();
    this.#pool = undefined;
    this.#certificate = certificate;
    this.#context = context;
    return context;
  }

  #newPool(context: SecureContext, maxConnections: number): ConnectionPool {
    const { endpoint, clock, maxWaiting = 1024 } = this.#options;
    const pool = new ConnectionPool({
      where: this.where,
      open: (signal) => openConnection({ endpoint, context, clock, signal }),
      clock,
      maxConnections,
      maxWaiting,
    });
    if (this.#isClosed) pool.close();
    return pool;
  }

  /** The whole request (RFC 9112 §3). Nothing that is put in can end a line. */
  #bytesOf(request: KubeRequest, credential: KubeCredential): Buffer {
    const { method, body, headers = {}, contentType = 'application/json' } = request;
    const path = this.#base + request.path + queryOf(request.query);
    if (!request.path.startsWith('/') || !/^[\x21-\x7e]*$/.test(path))
      throw new TypeError('the path of a request is not encoded');
    let head = method + ' ' + path + this.#fixedHeaders;
    if (headers['accept'] === undefined) head += 'accept: application/json\r\n';
    if (credential.type === 'token') head += this.#authorizationOf(credential.token);
    for (const name of Object.keys(headers)) {
      if (!reservedHeaders.has(name)) head += headerLine(name, headers[name] as string);
    }
    if (body === undefined) return Buffer.from(`${head}\r\n`, 'latin1');
    const content = Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
    head += headerLine('content-type', contentType);
    head += `content-length: ${content.length}\r\n\r\n`;
    const bytes = Buffer.allocUnsafe(head.length + content.length);
    bytes.write(head, 'latin1');
    content.copy(bytes, head.length);
    return bytes;
  }

  #authorizationOf(token: string): string {
    if (token === this.#token) return this.#authorization;
    if (!bearerToken.test(token)) {
      throw new HansaError(
        'HANSA_UNAVAILABLE',
        `Cannot ask the API server ${this.where}: the bearer token for it is empty, too long, or contains spaces or control characters. Use another token.`,
      );
    }
    this.#token = token;
    this.#authorization = `authorization: Bearer ${token}\r\n`;
    return this.#authorization;
  }
}

function secretOf(credential: KubeCredential): string | undefined {
  return credential.type === 'token' ? credential.token : undefined;
}

function withoutSecret(request: KubeRequest, response: KubeResponse, secret: string): KubeResponse {
  const { status, headers, body } = response;
  if (status < 300 && request.isQuoted !== true) return response;
  const isBinary = headers['content-type']?.includes('protobuf') === true;
  const hidden = hideSecretIn(body, secret, isBinary);
  if (hidden === body) return response;
  // A request about the credential itself, such as its TokenReview, which the response must echo.
  const asked = request.body ?? null;
  const isAbout =
    status < 300 && (Buffer.isBuffer(asked) ? asked : JSON.stringify(asked)).includes(secret);
  return isAbout ? response : { status, headers, body: hidden };
}

/** They frame the request or name its sender. */
const reservedHeaders = new Set([
  'host',
  'user-agent',
  'authorization',
  'content-type',
  'content-length',
  'transfer-encoding',
  'connection',
  'upgrade',
  'expect',
]);

function headerLine(name: string, value: string): string {
  if (!/^[a-z0-9-]+$/.test(name) || !/^[\t\x20-\x7e]*$/.test(value)) {
    throw new TypeError(`the header ${JSON.stringify(name)} of a request is malformed`);
  }
  return `${name}: ${value}\r\n`;
}

function queryOf(query: KubeRequest['query']): string {
  const text = query === undefined ? '' : new URLSearchParams(query).toString();
  return text === '' ? '' : `?${text}`;
}
