// Kept connections for node:https: one agent per server, bundle hash and credential, so that no
// request goes over a connection that was verified by an older trust than the present one.

import { Agent, type AgentOptions, type RequestOptions } from 'node:https';
import type { Duplex } from 'node:stream';
import type { SecureContext } from 'node:tls';
import type { SpiffeId } from '../../api/spiffe-id.ts';
import type { Clock } from '../clock/clock.ts';
import type { Bundle, BundleSource } from './bundle.ts';
import { refuse } from './rules.ts';
import type { ValidatedSvid } from './svid-validator.ts';
import { connectWith, secureContextOf } from './tls-client.ts';
import type { TlsCredential } from './tls-options.ts';

/** Connections to one server, under one bundle and one credential of ours. */
class SvidAgent extends Agent {
  readonly #expected: SpiffeId;
  readonly #bundles: BundleSource;
  readonly #clock: Clock;
  readonly #secureContext: SecureContext;
  readonly #servers = new WeakMap<Duplex, ValidatedSvid>();
  /** No idle connection's server has a certificate that ends before this. */
  #earliestEndMs = Number.POSITIVE_INFINITY;
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
    this.#earliestEndMs = Math.min(this.#earliestEndMs, server.notAfterMs);
    // It does return a boolean, whatever its type says.
    return super.keepSocketAlive(socket) as unknown as boolean;
  }

  override destroy(): void {
    this.#destroyed = true;
    super.destroy();
  }

  /** Closes idle connections whose server's certificate has ended since they became idle. */
  dropExpired(): void {
    if (this.#clock.now() <= this.#earliestEndMs) return;
    this.#earliestEndMs = Number.POSITIVE_INFINITY;
    this.#closeIdle((end) => {
      if (this.#clock.now() > end) return true;
      this.#earliestEndMs = Math.min(this.#earliestEndMs, end);
      return false;
    });
  }

  /** Requests under way are finished; idle connections are closed and none is kept any more. */
  retire(): void {
    this.#retired = true;
    this.#closeIdle(() => true);
  }

  #closeIdle(which: (endMs: number) => boolean): void {
    for (const sockets of Object.values(this.freeSockets)) {
      for (const socket of sockets ?? []) {
        if (which(this.#servers.get(socket)?.notAfterMs ?? 0)) socket.destroy();
      }
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
        known.agent.dropExpired();
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
