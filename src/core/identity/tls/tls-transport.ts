// The TLS transport between sites. The caller verifies the server before the first byte of a request;
// for Web PKI servers OpenSSL also verifies the certificate. tls-connection.ts sends the requests.

import { isIP, type Socket } from 'node:net';
import { connect, createSecureContext, type SecureContext } from 'node:tls';
import type { Clock } from '../../clock/clock.ts';
import { HansaError } from '../../errors/error.ts';
import { inWords } from './connect-failure.ts';
import { dial } from './dial.ts';
import { contextOptionsOf, type TlsCredential } from './options.ts';
import { TlsConnection } from './tls-connection.ts';
import type { Connection, ConnectOptions, Transport } from './transport.ts';
import { webContext, WebJudge } from './web-transport.ts';

const defaultPort = 443;

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
