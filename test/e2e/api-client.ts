// Clients of a site for the end-to-end tests: requests and watches over HTTP/1.1, HTTP/2 and the
// admin socket, and raw bytes that a normal client cannot send.

import { readFileSync } from 'node:fs';
import { type IncomingHttpHeaders, request as plainRequest } from 'node:http';
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2';
import { Agent, request as tlsRequest } from 'node:https';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { connect as connectTls, type TLSSocket } from 'node:tls';

export const resources = '/apis/hansa.dev/v1alpha1';

/** As much of an object, Status or list as the tests look at. */
export interface Thing {
  readonly kind?: string;
  readonly metadata: {
    readonly name?: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: unknown;
  readonly items?: readonly Thing[];
  readonly message?: string;
  readonly reason?: string;
  readonly code?: number;
  readonly columnDefinitions?: unknown;
  readonly rows?: readonly { readonly cells: readonly unknown[]; readonly object: Thing }[];
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The body, parsed when it is asked for. */
  readonly body: Thing;
}

export interface Target {
  /** https://host:port, or the path of the admin socket. */
  readonly origin: string;
  readonly caFile?: string;
  readonly token?: string;
  readonly certificate?: string;
  readonly key?: string;
  /** A certificate from the future of a moved clock does not verify; then only the bytes matter. */
  readonly verify?: boolean;
}

export interface RequestOptions {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export function answerOf(status: number, headers: IncomingHttpHeaders, text: string): Answer {
  return {
    status,
    headers,
    text,
    get body() {
      return JSON.parse(text) as Thing;
    },
  };
}

export class ApiClient {
  readonly target: Target;
  readonly #agent: Agent | undefined;

  constructor(target: Target, connections = 32) {
    this.target = target;
    if (target.origin.startsWith('https:')) {
      this.#agent = new Agent({
        keepAlive: true,
        maxSockets: connections,
        rejectUnauthorized: target.verify ?? true,
        ...tlsOptions(target),
      });
    }
  }

  close(): void {
    this.#agent?.destroy();
  }

  request(method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const outgoing = this.#open(method, path, options);
      outgoing.on('error', reject);
      outgoing.on('response', (response) => {
        collect(response).then(
          (text) => resolve(answerOf(response.statusCode ?? 0, response.headers, text)),
          reject,
        );
      });
      outgoing.end(bytesOf(options.body));
    });
  }

  /**
   * Sends the head of a request and the first byte of its body, then waits for `meanwhile` before it
   * sends the rest. The site is at work on the request by then: it has answered 100 Continue.
   */
  slowly(
    method: string,
    path: string,
    options: RequestOptions,
    meanwhile: () => Promise<unknown>,
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const bytes = bytesOf(options.body) ?? Buffer.alloc(0);
      const outgoing = this.#open(method, path, {
        ...options,
        headers: {
          ...options.headers,
          expect: '100-continue',
          'content-length': String(bytes.length),
        },
      });
      outgoing.on('error', reject);
      outgoing.on('continue', () => {
        outgoing.write(bytes.subarray(0, 1));
        meanwhile().then(() => outgoing.end(bytes.subarray(1)), reject);
      });
      outgoing.on('response', (response) => {
        collect(response).then(
          (text) => resolve(answerOf(response.statusCode ?? 0, response.headers, text)),
          reject,
        );
      });
      outgoing.flushHeaders();
    });
  }

  get(path: string): Promise<Answer> {
    return this.request('GET', path);
  }

  /** Resolves when the head of the answer is there; a refusal rejects with its body. */
  watch(path: string, headers: Readonly<Record<string, string>> = {}): Promise<WatchReader> {
    return new Promise((resolve, reject) => {
      const outgoing = this.#open('GET', path, { headers });
      outgoing.on('error', reject);
      outgoing.on('response', (response) => {
        if (response.statusCode === 200) {
          resolve(new WatchReader(response, () => outgoing.destroy()));
          return;
        }
        collect(response).then(
          (text) => reject(new Refusal(answerOf(response.statusCode ?? 0, response.headers, text))),
          reject,
        );
      });
      outgoing.end();
    });
  }

  #open(method: string, path: string, { body, headers }: RequestOptions) {
    const all = {
      ...(this.target.token === undefined ? {} : { authorization: `Bearer ${this.target.token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    };
    const { origin } = this.target;
    if (this.#agent === undefined)
      return plainRequest({ socketPath: origin, method, path, headers: all, agent: false });
    const { hostname, port } = new URL(origin);
    return tlsRequest({ host: hostname, port, method, path, headers: all, agent: this.#agent });
  }
}

/** A watch that was answered with something else than a stream. */
export class Refusal extends Error {
  readonly answer: Answer;

  constructor(answer: Answer) {
    super(`refused with ${answer.status}: ${answer.text}`);
    this.answer = answer;
  }
}

export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object: Thing;
}

/** The events of one watch, in order. */
export class WatchReader {
  readonly #events: WatchEvent[] = [];
  #wake: (() => void) | undefined;
  #over = false;
  readonly #abort: () => void;
  /** Resolves when the stream is over: true where it ended properly, false where it was cut. */
  readonly ended: Promise<boolean>;

  constructor(stream: Readable, abort: () => void) {
    this.#abort = abort;
    let rest = '';
    stream.setEncoding('utf8');
    stream.on('data', (text: string) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) this.#events.push(JSON.parse(line) as WatchEvent);
      this.#wake?.();
    });
    this.ended = new Promise((resolve) => {
      const over = (proper: boolean): void => {
        this.#over = true;
        this.#wake?.();
        resolve(proper && rest === '');
      };
      stream.on('end', () => over(true));
      stream.on('error', () => over(false));
      stream.on('close', () => over(false));
    });
  }

  /** Undefined where the stream is over. */
  async next(): Promise<WatchEvent | undefined> {
    for (;;) {
      const event = this.#events.shift();
      if (event !== undefined || this.#over) return event;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** The first event that fits, and those before it. */
  async until(fits: (event: WatchEvent) => boolean): Promise<readonly WatchEvent[]> {
    const seen: WatchEvent[] = [];
    for (;;) {
      const event = await this.next();
      if (event === undefined)
        throw new Error(`the watch ended after ${seen.map(told).join(', ') || 'nothing'}`);
      seen.push(event);
      if (fits(event)) return seen;
    }
  }

  /** Everything until the stream is over. */
  async rest(): Promise<readonly WatchEvent[]> {
    const seen: WatchEvent[] = [];
    for (let event = await this.next(); event !== undefined; event = await this.next())
      seen.push(event);
    return seen;
  }

  close(): void {
    this.#abort();
  }
}

/** `ADDED a`, for comparing sequences of events. */
export function told({ type, object }: WatchEvent): string {
  return `${type} ${object.metadata?.name ?? object.rows?.[0]?.object.metadata.name ?? object.reason ?? ''}`.trim();
}

export function named(name: string): (event: WatchEvent) => boolean {
  return (event) => event.object.metadata.name === name;
}

/** One HTTP/2 connection. */
export class Http2Client {
  readonly session: ClientHttp2Session;
  readonly #target: Target;

  constructor(target: Target) {
    this.#target = target;
    this.session = connectHttp2(target.origin, {
      rejectUnauthorized: target.verify ?? true,
      ...tlsOptions(target),
    });
    this.session.on('error', () => undefined);
  }

  open(method: string, path: string, headers: Readonly<Record<string, string>> = {}) {
    const { token } = this.#target;
    return this.session.request(
      {
        ':method': method,
        ':path': path,
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...headers,
      },
      { endStream: method === 'GET' },
    );
  }

  request(method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const stream = this.open(method, path, {
        ...(options.body === undefined ? {} : { 'content-type': 'application/json' }),
        ...options.headers,
      });
      stream.on('error', reject);
      stream.on('response', (headers) => {
        collect(stream).then(
          (text) => resolve(answerOf(headers[':status'] ?? 0, headers, text)),
          reject,
        );
      });
      if (method !== 'GET') stream.end(bytesOf(options.body));
    });
  }

  watch(path: string): Promise<WatchReader> {
    return new Promise((resolve, reject) => {
      const stream = this.open('GET', path);
      stream.on('error', reject);
      stream.on('response', (headers) => {
        if (headers[':status'] === 200) resolve(new WatchReader(stream, () => stream.close()));
        else
          collect(stream).then(
            (text) => reject(new Refusal(answerOf(headers[':status'] ?? 0, headers, text))),
            reject,
          );
      });
    });
  }

  close(): void {
    this.session.destroy();
  }
}

/** A TLS connection on which a test says what it likes. */
export class RawConnection {
  readonly socket: TLSSocket;
  #text = '';
  #wake: (() => void) | undefined;
  #closed = false;

  private constructor(socket: TLSSocket) {
    this.socket = socket;
    socket.setEncoding('latin1').on('data', (text: string) => {
      this.#text += text;
      this.#wake?.();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.#closed = true;
      this.#wake?.();
    });
  }

  static open(target: Target): Promise<RawConnection> {
    return new Promise((resolve, reject) => {
      const { hostname, port } = new URL(target.origin);
      const socket = connectTls({
        host: hostname,
        port: Number(port),
        rejectUnauthorized: target.verify ?? true,
        ALPNProtocols: ['http/1.1'],
        ...tlsOptions(target),
      });
      socket.once('error', reject);
      socket.once('secureConnect', () => {
        socket.off('error', reject);
        resolve(new RawConnection(socket));
      });
    });
  }

  send(text: string | Buffer): void {
    this.socket.write(text);
  }

  /** Everything that came so far, as soon as it fits or the other side has closed. */
  async until(pattern: RegExp): Promise<string> {
    while (!pattern.test(this.#text) && !this.#closed) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.#text;
  }

  /** Everything until the other side closes. */
  closed(): Promise<string> {
    return this.until(/(?!)/);
  }

  close(): void {
    this.socket.destroy();
  }
}

function tlsOptions({ caFile, certificate, key }: Target) {
  return {
    ...(caFile === undefined ? {} : { ca: readFileSync(caFile) }),
    ...(certificate === undefined ? {} : { cert: certificate }),
    ...(key === undefined ? {} : { key }),
  };
}

function bytesOf(body: unknown): Buffer | undefined {
  if (body === undefined) return undefined;
  if (Buffer.isBuffer(body)) return body;
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
}

async function collect(stream: Readable): Promise<string> {
  let text = '';
  for await (const chunk of stream.setEncoding('utf8')) text += chunk as string;
  return text;
}

export function role(
  name: string,
  more: { labels?: Record<string, string>; filler?: string } = {},
) {
  return {
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'Role',
    metadata: {
      name,
      ...(more.labels === undefined ? {} : { labels: more.labels }),
      ...(more.filler === undefined ? {} : { annotations: { filler: more.filler } }),
    },
    spec: { rules: [{ kinds: ['Site'], verbs: ['get'] }] },
  };
}

export function adminClient(dataDir: string): ApiClient {
  return new ApiClient({ origin: join(dataDir, 'admin.sock') });
}

/** Shown once, by the site; throws where it is refused. */
export async function createToken(
  admin: ApiClient,
  name: string,
  roleName: string,
  ttlSeconds?: number,
): Promise<string> {
  const answer = await admin.request('POST', '/hansa/v1/tokens', {
    body: { name, role: roleName, ...(ttlSeconds === undefined ? {} : { ttlSeconds }) },
  });
  if (answer.status !== 201) throw new Refusal(answer);
  return (JSON.parse(answer.text) as { token: string }).token;
}
