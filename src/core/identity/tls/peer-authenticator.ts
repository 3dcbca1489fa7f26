// Authenticates the TLS client on every request, from memory while nothing changes. A peer that loses its
// bundle, or whose certificate expires, is rejected at its next request, even on an open connection.

import type { TLSSocket } from 'node:tls';
import { type Peer, readPeer } from './peer-chain.ts';
import { ChainVerifier, type ChainVerifierParts } from '../x509/chain-verifier.ts';
import { refuse } from '../x509/rules.ts';
import { svidOf, type ValidatedSvid } from '../x509/svid-validator.ts';

export interface PeerAuthenticatorParts extends ChainVerifierParts {
  readonly clock: { now(): number };
  /** Called with each request of a connection whose chain is valid. */
  readonly proven?: (peer: Peer) => void;
}

export class PeerAuthenticator {
  readonly #parts: PeerAuthenticatorParts;
  readonly #chains: ChainVerifier;
  /** Peers whose signatures the site has not verified, because their source had no budget left. */
  readonly #unverified = new WeakSet<Peer>();

  constructor(parts: PeerAuthenticatorParts) {
    this.#parts = parts;
    this.#chains = new ChainVerifier(parts);
  }

  /**
   * Call it before each request, and wait where it returns a promise: then signatures must be verified, which
   * happens off the main thread, in turns of `source`. Undefined for all but the first request of a connection,
   * and the first after some changes of a bundle. The promise never rejects.
   */
  prepare(socket: TLSSocket, source: string): Promise<void> | undefined {
    const peer = readPeer(socket);
    this.#unverified.delete(peer);
    if (peer.refusal !== undefined || peer.chain.length === 0) return undefined;
    const nowMs = this.#parts.clock.now();
    const known = this.#chains.recall(peer.chain, nowMs);
    if (known?.svid !== undefined) this.#parts.proven?.(peer);
    return known === undefined ? this.#verify(peer, source, nowMs) : undefined;
  }

  async #verify(peer: Peer, source: string, nowMs: number): Promise<void> {
    try {
      const verdict = await this.#chains.judgeFor(source, peer.chain, nowMs);
      if (verdict === undefined) this.#unverified.add(peer);
      else if (verdict.svid !== undefined) this.#parts.proven?.(peer);
    } catch {
      // `authenticate` tries again, and reports the error.
    }
  }

  /**
   * Undefined where the peer presented no certificate. Throws HANSA_CERTIFICATE_INVALID where it
   * presented an invalid one. A few comparisons after `prepare`. Where the bundle has changed since then, it
   * verifies what the change needs: one signature with the key of an authority, and those below it.
   */
  authenticate(socket: TLSSocket): ValidatedSvid | undefined {
    const peer = readPeer(socket);
    if (peer.refusal !== undefined) throw peer.refusal;
    if (peer.chain.length === 0) return undefined;
    if (this.#unverified.has(peer)) throw outOfBudget();
    return svidOf(this.#chains.judge(peer.chain, this.#parts.clock.now()));
  }
}

function outOfBudget(): unknown {
  return refuse(
    'signature',
    'the site has verified too many wrong signatures for its address or network, and verifies this one later',
  );
}
