// The TLS transport between sites. Each call uses one connection. The caller verifies the server
// before the first byte of a request; for Web PKI servers OpenSSL also verifies the certificate.
// Requests are HTTP/1.1, one after another, and redirects are not followed.

import { Agent, type IncomingMessage, request as httpRequest } from 'node:http';
import { isIP, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { connect, createSecureContext, type SecureContext, type TLSSocket } from 'node:tls';
import type { Clock, Timer } from '../../clock/clock.ts';
import { HansaError } from '../../errors/error.ts';
import { GatheredBytes } from '../../memory/gathered-bytes.ts';
import { inWords } from './connect-failure.ts';
import type { Certificate } from '../x509/certificate.ts';
import { dial } from './dial.ts';
import { readPeerChain } from './peer-chain.ts';
import { contextOptionsOf, type TlsCredential } from './options.ts';
import type {
  Connection,
  ConnectOptions,
  Transport,
  TransportRequest,
  TransportResponse,
} from './transport.ts';
import { webContext, WebJudge } from './web-transport.ts';

const defaultPort = 443;
const maxHeaderBytes = 16 * 1024;
/** Most interim responses (RFC 9110 §15.2) before the final one: a server needs one or two. */
const maxInterim = 8;

export interface TlsTransportOptions {
  readonly clock: Clock;
  /** Our current SVID. */
  readonly credential: () => TlsCredential;
}

export class TlsTransport implements Transport {
  readonly #options: TlsTransportOptions;
  /** One per credential, because reading its key costs as much as a handshake. */
  readonly #contexts = new WeakMap<TlsCredential, SecureContext>();
  readonly #asNobody = createSecureContext(contextOptionsOf(undefined));

  constructor(options: TlsTransportOptions) {
    this.#options = options;
  }

  async connect(options: ConnectOptions): Promise<Connection> {
    const { url, signal } = options;
    checkUrl(url);
    signal?.throwIfAborted();
    const { clock } = this.#options;
    const judge = options.web && new WebJudge(options.web, () => clock.now());
    const host = url.hostname.replace(/^\[|\]$/g, '');
    const startedMs = clock.monotonic();
    const dialled = await this.#dial(options, host);
    options.connected?.(dialled.remoteAddress ?? '');
    const socket = connect({
      socket: dialled,
      // The name that a Web PKI certificate must have.
      host,
      secureContext: this.#contextFor(options),
      // Addresses are no server names (RFC 6066 §3).
      ...(isIP(host) === 0 && { servername: host }),
      ALPNProtocols: ['http/1.1'],
      // OpenSSL has no roots here: `verify` decides. For Web PKI servers, its result is checked below.
      rejectUnauthorized: false,
      ...(judge && { checkServerIdentity: judge.check }),
    });
    const spentMs = clock.monotonic() - startedMs;
    const connection = new TlsConnection(socket, options, clock, judge, spentMs);
    await connection.verified;
    return connection;
  }

  async #dial(options: ConnectOptions, host: string): Promise<Socket> {
    const { url, timeoutMs, quietMs = timeoutMs, signal, checkAddress } = options;
    try {
      return await dial({
        host,
        port: url.port === '' ? defaultPort : Number(url.port),
        clock: this.#options.clock,
        timeoutMs: Math.min(timeoutMs, quietMs),
        signal,
        checkAddress,
      });
    } catch (cause) {
      if (cause instanceof HansaError || signal?.aborted === true) throw cause;
      throw new HansaError(
        'HANSA_UNREACHABLE',
        `Cannot call ${url.host}: ${inWords(cause as Error)}.`,
        { cause },
      );
    }
  }

  #contextFor({ web, asSite }: ConnectOptions): SecureContext {
    if (web !== undefined) return webContext(web);
    return asSite ? this.#contextOf(this.#options.credential()) : this.#asNobody;
  }

  #contextOf(credential: TlsCredential): SecureContext {
    let context = this.#contexts.get(credential);
    if (context === undefined) {
      context = createSecureContext(contextOptionsOf(credential));
      this.#contexts.set(credential, context);
    }
    return context;
  }
}

function checkUrl(url: URL): void {
  if (url.protocol !== 'https:') {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `Cannot call ${url.protocol}//${url.host}: sites only use https.`,
    );
  }
  if (url.username !== '' || url.password !== '') {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `Cannot call https://${url.host}: its URL must not contain a user or a password.`,
    );
  }
}

class TlsConnection implements Connection {
  /** Resolves when the server is verified; rejects where it is invalid or did not answer. */
  readonly verified: Promise<void>;
  readonly #socket: TLSSocket;
  readonly #where: string;
  readonly #agent: Agent;
  /** Why the connection ended. Pending calls reject with it. */
  #ended: unknown;
  readonly #waiting = new Set<(reason: unknown) => void>();
  readonly #release: () => void;
  readonly #clock: Clock;
  readonly #quietMs: number | undefined;
  #quiet: Timer | undefined;
  #heardAtMs = 0;
  #chain: readonly Certificate[] = [];

  constructor(
    socket: TLSSocket,
    options: ConnectOptions,
    clock: Clock,
    judge: WebJudge | undefined,
    /** The part of `timeoutMs` that connecting took. */
    spentMs: number,
  ) {
    const { url, timeoutMs, signal } = options;
    this.#socket = socket;
    this.#clock = clock;
    this.#quietMs = options.quietMs;
    this.#where = url.host;
    this.#agent = new OneSocketAgent(socket, () => this.#unreachable('it closed the connection'));
    const timer = clock.timer(timeoutMs - spentMs, () =>
      this.#end(this.#unreachable(`it did not answer within ${timeoutMs} ms`)),
    );
    const onAbort = (): void => this.#end(signal?.reason);
    signal?.addEventListener('abort', onAbort, { once: true });
    this.#release = () => {
      timer.cancel();
      this.#quiet?.cancel();
      signal?.removeEventListener('abort', onAbort);
    };
    socket.on('error', (cause: Error) =>
      this.#end(cause instanceof HansaError ? cause : this.#unreachable(inWords(cause), cause)),
    );
    socket.on('close', () => this.#end(this.#unreachable('it closed the connection')));
    this.#heard();
    this.verified = new Promise((resolve, reject) => {
      this.#waiting.add(reject);
      socket.once('secureConnect', () => {
        try {
          this.#heard();
          if (judge === undefined) this.#chain = readPeerChain(socket);
          else judge.judge(socket);
          options.verify(this.#chain);
          this.#waiting.delete(reject);
          resolve();
        } catch (caught) {
          this.#end(caught);
        }
      });
    });
  }

  get peerChain(): readonly Certificate[] {
    return this.#chain;
  }

  request(request: TransportRequest, maxBytes: number): Promise<TransportResponse> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    return new Promise((resolve, reject) => {
      const settle = (act: () => void): void => {
        this.#waiting.delete(fail);
        act();
      };
      const fail = (reason: unknown): void => settle(() => reject(reason));
      this.#waiting.add(fail);
      const { method, path, headers = {}, body } = request;
      const out = httpRequest({
        agent: this.#agent,
        method,
        path,
        headers: {
          host: this.#where,
          ...headers,
          ...(body && { 'content-length': body.byteLength }),
        },
        maxHeaderSize: maxHeaderBytes,
      });
      out.on('error', (cause: Error) => {
        this.#end(this.#unreachable(inWords(cause), cause));
      });
      let interim = 0;
      out.on('information', () => {
        interim++;
        if (interim <= maxInterim) return;
        this.#end(this.#unreachable(`it sent more than ${maxInterim} interim responses`));
      });
      out.on('response', (answer) => {
        this.#heard();
        readAll(answer, maxBytes, this.#where, () => this.#heard()).then(
          (whole) =>
            settle(() =>
              resolve({
                status: answer.statusCode ?? 0,
                headers: flatHeaders(answer.headers),
                body: whole,
              }),
            ),
          (error: unknown) =>
            // A half-read response makes the connection unusable.
            this.#end(error),
        );
      });
      out.end(body);
    });
  }

  /** Restarts the idle timeout when data arrives. Cheap, because some servers send byte by byte. */
  #heard(): void {
    const quietMs = this.#quietMs;
    if (quietMs === undefined || this.#ended !== undefined) return;
    this.#heardAtMs = this.#clock.monotonic();
    this.#quiet ??= this.#clock.timer(quietMs, () => this.#listen(quietMs));
  }

  #listen(quietMs: number): void {
    const leftMs = this.#heardAtMs + quietMs - this.#clock.monotonic();
    if (leftMs <= 0) this.#end(this.#unreachable(`it sent nothing for ${quietMs} ms`));
    else this.#quiet = this.#clock.timer(leftMs, () => this.#listen(quietMs));
  }

  close(): void {
    this.#end(this.#unreachable('the connection was closed'));
  }

  #end(reason: unknown): void {
    if (this.#ended !== undefined) return;
    this.#ended = reason ?? this.#unreachable('the call was cancelled');
    this.#release();
    this.#agent.destroy();
    this.#socket.destroy();
    for (const reject of this.#waiting) reject(this.#ended);
    this.#waiting.clear();
  }

  #unreachable(why: string, cause?: unknown): HansaError {
    return new HansaError('HANSA_UNREACHABLE', `Cannot call ${this.#where}: ${why}.`, { cause });
  }
}

/** Hands out the one socket that was verified, and never opens another. */
class OneSocketAgent extends Agent {
  #socket: TLSSocket | undefined;
  readonly #gone: () => Error;

  constructor(socket: TLSSocket, gone: () => Error) {
    super({ keepAlive: true, maxSockets: 1 });
    this.#socket = socket;
    this.#gone = gone;
  }

  override createConnection(
    _options: unknown,
    callback?: (error: Error | null, stream: Duplex) => void,
  ): TLSSocket | undefined {
    const socket = this.#socket;
    this.#socket = undefined;
    // Do not throw: node calls this inside the code that closes the socket.
    if (socket === undefined) (callback as ((error: Error) => void) | undefined)?.(this.#gone());
    return socket;
  }
}

function readAll(
  answer: IncomingMessage,
  maxBytes: number,
  where: string,
  heard: () => void,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const tooLarge = (): void => {
      answer.destroy();
      reject(
        new HansaError(
          'HANSA_TOO_LARGE',
          `Cannot read the response of ${where}: it has more than ${maxBytes} bytes.`,
        ),
      );
    };
    if (Number(answer.headers['content-length']) > maxBytes) {
      tooLarge();
      return;
    }
    const body = new GatheredBytes();
    answer.on('data', (chunk: Buffer) => {
      heard();
      if (body.length + chunk.length > maxBytes) tooLarge();
      else body.add(chunk);
    });
    answer.on('end', () => resolve(body.take()));
    answer.on('error', (cause: Error) =>
      reject(
        new HansaError(
          'HANSA_UNREACHABLE',
          `Cannot call ${where}: the connection ended before the response was complete.`,
          { cause },
        ),
      ),
    );
  });
}

function flatHeaders(headers: IncomingMessage['headers']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(', ') : (value ?? ''),
    ]),
  );
}
