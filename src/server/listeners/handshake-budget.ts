// Limits what TLS handshakes with client certificates cost for one source. OpenSSL verifies the certificates
// of a client in the handshake, also of strangers: seven with P-521 keys take 10 ms of the main thread, and
// the largest message that OpenSSL reads takes 300 ms. So the site closes new connections of a source that is
// beyond its budget before their handshake. Certificates that this site then finds valid do not count.

import type { Socket } from 'node:net';
import type { Server, TLSSocket } from 'node:tls';
import { sourceOf } from '../../core/access/failure-limit.ts';
import { networkOf } from '../../core/audit/source-network.ts';
import type { Clock, Timer } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { handshakeCostMs } from '../../core/identity/tls/handshake-cost.ts';
import { type Peer, readPeer } from '../../core/identity/tls/peer-chain.ts';
import { strangerRate } from '../../core/identity/x509/chain-verifier.ts';
import { ConcurrencyLimiter } from '../../core/limits/concurrency-limiter.ts';
import type { SourceBudget, SourceRates } from '../../core/limits/source-budget.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import { plainAddress } from '../http/forwarded-for.ts';

/**
 * Milliseconds of CPU time. A source gets one twentieth of a core after a second at once. That is 1,000
 * handshakes with certificates that this site refuses, and 50 more each second, if their keys are usual ones
 * (P-256 or RSA): many machines behind one address whose SVIDs have expired. With seven P-521 keys, it is 66
 * handshakes, and 3 more each second.
 */
export const usualRates: SourceRates = {
  source: strangerRate,
  network: { burst: 4_000, perSecond: 200 },
};

/** What a valid chain may cost: a real hierarchy has three authorities at most, here with P-521 keys. */
const forgivenMs = 10;

/**
 * How many handshakes run at once, because their cost is known only at their end. Others wait. At 100 ms to
 * the site and back, 8 at once are 80 per second.
 */
const atOnce = { source: 8, network: 32 };
/** After this time, a handshake ends if another one waits for its turn. */
const patienceMs = 2_000;
/** A connection waits no longer than a handshake may take. */
const waitMs = 10_000;

export interface HandshakeBudgetParts {
  readonly clock: Clock;
  readonly budget: SourceBudget;
  readonly metrics: Metrics;
  /** Records a connection that was closed before its handshake. */
  readonly denied: (address: string, error: HansaError) => void;
}

const beyondBudget = new HansaError(
  'HANSA_TOO_MANY_REQUESTS',
  'The address or its network presented too many TLS client certificates that this site does not accept. The site closed the connection before its handshake.',
);

interface Handshake {
  readonly raw: Socket;
  readonly address: string;
  /** False where it has ended before. */
  readonly end: () => boolean;
}

type Begin = (socket: Socket) => void;

/** One for all listeners of a site. Per process: each replica limits what it serves. */
export class HandshakeBudget {
  readonly #parts: HandshakeBudgetParts;
  readonly #refused;
  /** By remote address and port, because node:tls does not expose the connection of a TLS socket. */
  readonly #running = new Map<string, Handshake>();
  readonly #turns = new Map<string, ConcurrencyLimiter>();
  /** How to return what the handshake of a connection cost. */
  readonly #charges = new WeakMap<Peer, () => void>();
  readonly #proven = new WeakSet<Peer>();

  constructor(parts: HandshakeBudgetParts) {
    this.#parts = parts;
    this.#refused = parts.metrics.counter({
      name: 'hansa_tls_refused_connections_total',
      help: 'Connections that the site closed before their TLS handshake, because their address or network presented too many client certificates that the site does not accept.',
    });
  }

  /** What is left for certificates that are refused. */
  get budget(): SourceBudget {
    return this.#parts.budget;
  }

  /** Call it before anything else listens for connections. A trusted proxy has many clients, so it has no limit. */
  guard(server: Server, isProxy: (address: string) => boolean): void {
    const [begin, ...others] = server.listeners('connection') as Begin[];
    if (begin === undefined || others.length > 0) {
      throw new Error('only node:tls may listen for connections so far');
    }
    server.removeAllListeners('connection');
    server.on('connection', (raw: Socket) => {
      const address = plainAddress(raw.remoteAddress ?? '');
      if (isProxy(address)) begin.call(server, raw);
      else void this.#begin(raw, address, () => begin.call(server, raw));
    });
    server.prependListener('secureConnection', (socket: TLSSocket) => {
      const handshake = this.#running.get(keyOf(socket));
      if (handshake === undefined) return;
      // Then node:tls has decrypted what arrived behind the handshake, and its size is known.
      setImmediate(() => this.#charge(handshake, socket));
    });
  }

  /** The certificates of this connection are valid, so what is usual for them does not count. */
  readonly proven = (peer: Peer): void => {
    this.#proven.add(peer);
    this.#charges.get(peer)?.();
    this.#charges.delete(peer);
  };

  #charge({ raw, address, end }: Handshake, socket: TLSSocket): void {
    // It has failed meanwhile, and was charged.
    if (!end()) return;
    const { budget } = this.#parts;
    const peer = readPeer(socket);
    const costMs = handshakeCostMs(peer, raw.bytesRead - socket.bytesRead);
    const usualMs = Math.min(costMs, forgivenMs);
    if (costMs > usualMs) budget.charge(address, costMs - usualMs);
    if (usualMs > 0 && !this.#proven.has(peer)) {
      this.#charges.set(peer, budget.charge(address, usualMs));
    }
  }

  async #begin(raw: Socket, address: string, begin: () => void): Promise<void> {
    if (this.#isRefused(raw, address)) return;
    // Until node:tls has it. Without a listener, a client that resets a connection that waits ends the process.
    raw.on('error', () => undefined);
    const late = this.#parts.clock.timer(waitMs, () => raw.destroy());
    // A client that sends nothing costs nothing, and would hold up those behind its address.
    await hasSpoken(raw);
    if (raw.destroyed) {
      late.cancel();
      return;
    }
    const source = sourceOf(address);
    await this.#inTurn(source, atOnce.source, () =>
      this.#inTurn(`network ${networkOf(address)}`, atOnce.network, async (network) => {
        late.cancel();
        // The others may have spent the budget meanwhile.
        if (raw.destroyed || this.#isRefused(raw, address)) return;
        const isWaitedFor = () => network.isWaitedFor || this.#turns.get(source)?.isWaitedFor;
        await this.#handshake(raw, address, begin, () => isWaitedFor() === true);
      }),
    );
  }

  #isRefused(raw: Socket, address: string): boolean {
    if (this.#parts.budget.waitSeconds(address) === undefined) return false;
    this.#refused.add({});
    this.#parts.denied(address, beyondBudget);
    raw.destroy();
    return true;
  }

  /** Resolves at the end of the handshake. */
  #handshake(
    raw: Socket,
    address: string,
    begin: () => void,
    isWaitedFor: () => boolean,
  ): Promise<void> {
    const key = keyOf(raw);
    return new Promise((resolve) => {
      let patience: Timer;
      const wait = (): void => {
        patience = this.#parts.clock.timer(patienceMs, () => {
          // Where this site was slow itself, what the client has sent comes first.
          setImmediate(() => {
            if (this.#running.get(key)?.raw !== raw) return;
            if (isWaitedFor()) raw.destroy();
            else wait();
          });
        });
      };
      const failed = (): void => {
        this.#parts.budget.charge(address, handshakeCostMs(undefined, raw.bytesRead));
        end();
      };
      const end = (): boolean => {
        patience.cancel();
        raw.off('close', failed);
        resolve();
        return this.#running.delete(key);
      };
      wait();
      raw.once('close', failed);
      this.#running.set(key, { raw, address, end });
      begin();
    });
  }

  async #inTurn(
    key: string,
    most: number,
    work: (limiter: ConcurrencyLimiter) => Promise<void>,
  ): Promise<void> {
    let limiter = this.#turns.get(key);
    if (limiter === undefined) {
      limiter = new ConcurrencyLimiter({
        clock: this.#parts.clock,
        atOnce: most,
        // Handshakes end by themselves.
        patienceMs: 2 * waitMs,
        mostWaiting: Infinity,
      });
      this.#turns.set(key, limiter);
    }
    const turns = limiter;
    await turns.run(() => work(turns));
    if (turns.isIdle && this.#turns.get(key) === turns) this.#turns.delete(key);
  }
}

/** Resolves when the first bytes have arrived, which node:tls then reads, or when the connection has closed. */
function hasSpoken(raw: Socket): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      raw.off('readable', done);
      raw.off('close', done);
      resolve();
    };
    raw.on('readable', done);
    raw.on('close', done);
  });
}

function keyOf(socket: Socket): string {
  return `${socket.localAddress} ${socket.localPort} ${socket.remoteAddress} ${socket.remotePort}`;
}
