// TLS clients that know whom they want to talk to by SPIFFE ID. The server's chain is verified
// against its trust domain's bundle before the connection is handed out: no byte of a request
// reaches anyone else.

import { Agent, type AgentOptions, type RequestOptions } from 'node:https';
import { isIP } from 'node:net';
import type { Duplex } from 'node:stream';
import { connect, createSecureContext, type SecureContext, type TLSSocket } from 'node:tls';
import type { SpiffeId } from '../../api/spiffe-id.ts';
import type { Clock } from '../clock/clock.ts';
import { HansaError } from '../errors/error.ts';
import type { Bundle, BundleSource } from './bundle.ts';
import { readPeerChain } from './peer-chain.ts';
import { refuse } from './rules.ts';
import { type ValidatedSvid, validateChain } from './svid-validator.ts';
import { contextOptions, type TlsCredential } from './tls-options.ts';

const defaultTimeoutMs = 10_000;

export interface SvidConnectOptions {
  readonly host: string;
  readonly port: number;
  /** Who must answer. */
  readonly expected: SpiffeId;
  readonly bundles: BundleSource;
  readonly clock: Clock;
  /** Our own SVID; without it we come as nobody. */
  readonly credential?: TlsCredential;
  readonly alpnProtocols?: readonly string[];
  /** Until the server is verified. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface SvidConnection {
  readonly socket: TLSSocket;
  readonly server: ValidatedSvid;
}

/**
 * Rejects with HANSA_CERTIFICATE_INVALID where another answers than expected, HANSA_UNREACHABLE
 * where nobody does, and HANSA_TIMEOUT.
 */
export function connectSvid(options: SvidConnectOptions): Promise<SvidConnection> {
  return connectWith(secureContextOf(options.credential), options);
}

function secureContextOf(credential: TlsCredential | undefined): SecureContext {
  return createSecureContext({
    ...contextOptions,
    ca: [],
    ...(credential && { cert: credential.certificateChain, key: credential.privateKey }),
  });
}

function connectWith(
  secureContext: SecureContext,
  options: SvidConnectOptions,
): Promise<SvidConnection> {
  const { host, port, expected, bundles, clock, signal } = options;
  const timeoutMs = options.timeoutMs ?? defaultTimeoutMs;
  const where = `${host}:${port}`;
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const socket = connect({
      host,
      port,
      secureContext,
      // Addresses are no server names (RFC 6066 §3).
      ...(isIP(host) === 0 && { servername: host }),
      // OpenSSL has no roots to judge by: the validator below does.
      rejectUnauthorized: false,
      ...(options.alpnProtocols && { ALPNProtocols: [...options.alpnProtocols] }),
    });
    const settle = (): void => {
      timer.cancel();
      signal?.removeEventListener('abort', onAbort);
      socket.removeListener('error', onError);
      socket.removeListener('close', onClose);
    };
    const fail = (error: unknown): void => {
      settle();
      // What a dying socket still says interests nobody.
      socket.on('error', () => {});
      socket.destroy();
      reject(error);
    };
    const unreachable = (why: string, cause?: unknown): void =>
      fail(new HansaError('HANSA_UNREACHABLE', `Cannot connect to ${where}: ${why}.`, { cause }));
    const onError = (cause: Error): void => unreachable(cause.message, cause);
    const onClose = (): void => unreachable('it closed the connection during the handshake');
    const onAbort = (): void => fail(signal?.reason);
    const timer = clock.timer(timeoutMs, () =>
      fail(
        new HansaError(
          'HANSA_TIMEOUT',
          `Cannot connect to ${where}: it did not complete a handshake in ${timeoutMs} ms.`,
        ),
      ),
    );
    signal?.addEventListener('abort', onAbort, { once: true });
    socket.once('error', onError);
    socket.once('close', onClose);
    socket.once('secureConnect', () => {
      try {
        const server = verifyServer(socket, expected, bundles, clock.now());
        settle();
        resolve({ socket, server });
      } catch (caught) {
        fail(caught);
      }
    });
  });
}

function verifyServer(
  socket: TLSSocket,
  expected: SpiffeId,
  bundles: BundleSource,
  nowMs: number,
): ValidatedSvid {
  const server = validateChain(readPeerChain(socket), bundles, nowMs);
  if (!server.id.equals(expected)) {
    throw refuse(
      'expected-id',
      `the server is ${server.id.toString()}, and ${expected.toString()} was expected`,
    );
  }
  return server;
}

/** Connections to one server, under one bundle and one credential of ours. */
class SvidAgent extends Agent {
  readonly #expected: SpiffeId;
  readonly #bundles: BundleSource;
  readonly #clock: Clock;
  readonly #secureContext: SecureContext;
  readonly #servers = new WeakMap<Duplex, ValidatedSvid>();
  #retired = false;
  #destroyed = false;

  constructor(
    expected: SpiffeId,
    bundle: Bundle,
    credential: TlsCredential | undefined,
    clock: Clock,
    options: AgentOptions,
  ) {
    // maxCachedSessions: a resumed session would not show the server's chain.
    super({ keepAlive: true, ...options, maxCachedSessions: 0 });
    this.#expected = expected;
    // This bundle and no later one: with a later one there is another agent.
    this.#bundles = {
      bundleFor: (asked) => (asked.equals(bundle.trustDomain) ? bundle : undefined),
    };
    this.#clock = clock;
    this.#secureContext = secureContextOf(credential);
  }

  override createConnection(
    options: RequestOptions,
    callback?: (error: Error | null, socket: Duplex) => void,
  ): undefined {
    void this.#connect(options, (error, socket) => {
      // Without a socket, where there is an error: node looks at one of them only.
      if (socket === undefined) (callback as ((error: unknown) => void) | undefined)?.(error);
      else callback?.(null, socket);
    });
    return undefined;
  }

  async #connect(
    options: RequestOptions,
    done: (error: unknown, socket?: Duplex) => void,
  ): Promise<void> {
    try {
      const { socket, server } = await connectWith(this.#secureContext, {
        host: options.host ?? options.hostname ?? 'localhost',
        port: Number(options.port ?? 443),
        expected: this.#expected,
        bundles: this.#bundles,
        clock: this.#clock,
      });
      if (this.#destroyed) {
        // Trust was withdrawn while the handshake was under way.
        socket.destroy();
        throw refuse('no-bundle', `connections to ${this.#expected.toString()} were closed`);
      }
      this.#servers.set(socket, server);
      done(null, socket);
    } catch (caught) {
      done(caught);
    }
  }

  /** node asks this before it keeps an idle connection. */
  override keepSocketAlive(socket: Duplex): boolean {
    const server = this.#servers.get(socket);
    if (this.#retired || server === undefined || this.#clock.now() > server.notAfterMs)
      return false;
    // It does return a boolean, whatever its type says.
    return super.keepSocketAlive(socket) as unknown as boolean;
  }

  override destroy(): void {
    this.#destroyed = true;
    super.destroy();
  }

  /** Requests under way are finished; idle connections are closed and none is kept any more. */
  retire(): void {
    this.#retired = true;
    for (const sockets of Object.values(this.freeSockets)) {
      for (const socket of sockets ?? []) socket.destroy();
    }
  }
}

export interface SvidAgentsOptions {
  readonly bundles: BundleSource;
  readonly clock: Clock;
  /** Our SVID as it is now; undefined where we come as nobody. */
  readonly credential: () => TlsCredential | undefined;
  readonly agent?: Pick<AgentOptions, 'maxSockets' | 'maxFreeSockets' | 'timeout' | 'scheduling'>;
}

/** So many servers at once; beyond that, the one that was asked for longest ago goes. */
const maxAgents = 1024;

interface AgentGeneration {
  readonly bundleHash: string;
  readonly credential: TlsCredential | undefined;
  readonly agent: SvidAgent;
}

/** One agent per server, bundle hash and credential, for node:https. */
export class SvidAgents {
  readonly #options: SvidAgentsOptions;
  readonly #agents = new Map<string, AgentGeneration>();

  constructor(options: SvidAgentsOptions) {
    this.#options = options;
  }

  /** Ask for each request anew. Throws HANSA_CERTIFICATE_INVALID where there is no bundle (any more). */
  agentFor(expected: SpiffeId): Agent {
    const key = expected.toString();
    const known = this.#agents.get(key);
    const bundle = this.#options.bundles.bundleFor(expected.trustDomain);
    if (bundle === undefined) {
      // Trust was withdrawn: what is under way ends too.
      known?.agent.destroy();
      this.#agents.delete(key);
      throw refuse(
        'no-bundle',
        `this site holds no bundle of the trust domain ${expected.trustDomain.name}`,
      );
    }
    const credential = this.#options.credential();
    if (known !== undefined) {
      this.#agents.delete(key);
      if (known.bundleHash === bundle.hash && known.credential === credential) {
        this.#agents.set(key, known);
        return known.agent;
      }
      known.agent.retire();
    }
    const { clock, agent: settings = {} } = this.#options;
    const agent = new SvidAgent(expected, bundle, credential, clock, settings);
    this.#agents.set(key, { bundleHash: bundle.hash, credential, agent });
    this.#evict();
    return agent;
  }

  #evict(): void {
    for (const [key, { agent }] of this.#agents) {
      if (this.#agents.size <= maxAgents) return;
      agent.retire();
      this.#agents.delete(key);
    }
  }

  /** Closes every connection. */
  close(): void {
    for (const { agent } of this.#agents.values()) agent.destroy();
    this.#agents.clear();
  }
}
