// Reads the federation API of live peers: catalogs, capabilities, bundles. These calls use the connections of
// other planes and not those of heartbeats, so however many of them wait, the peering stays alive.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Audit } from '../../core/audit/log.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { KeptConnections } from '../../core/identity/tls/kept-connections.ts';
import { peeringError } from '../errors.ts';
import { pathBelow } from '../handshake/acceptor.ts';
import { isLive } from '../peers/peer-states.ts';
import { isAboutAnswer, recordRefusedMessage } from '../peers/refused-message.ts';
import type { PeeringSettings } from '../settings.ts';
import { refusalOf } from './remote-error.ts';

export interface FederationClientParts {
  readonly connections: Pick<KeptConnections, 'call'>;
  readonly settings: Pick<PeeringSettings, 'callTimeoutMs'>;
  readonly audit: Pick<Audit, 'deny'>;
}

/** What the answer to a question must be. */
export interface Expected<T> {
  readonly maxBytes: number;
  /** Throws HANSA_BAD_REQUEST or HANSA_BUNDLE_INVALID for anything else. */
  readonly parse: (body: Buffer) => T;
}

/** Reads that wait for one peer. A quarter of `planeCallLimits`, so that other planes can call it too. */
const mostReads = 16;

export class FederationClient {
  readonly #parts: FederationClientParts;
  readonly #reads = new Map<string, number>();

  constructor(parts: FederationClientParts) {
    this.#parts = parts;
  }

  /**
   * A successful answer. One that is too large, or that `parse` refuses, is in the audit log. HANSA_FORBIDDEN: the
   * peer answered that this site lacks a grant. HANSA_PEER_REFUSED: the peer does not accept this site as a peer.
   * HANSA_PEER_STATE: this site does not call the peer in its state. HANSA_UNAVAILABLE: too many reads wait for the peer already.
   */
  async read<T>(
    peer: FederationPeer,
    path: string,
    { maxBytes, parse }: Expected<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    const { name } = peer.metadata;
    const reads = this.#reads.get(name) ?? 0;
    if (reads >= mostReads) {
      throw new HansaError(
        'HANSA_UNAVAILABLE',
        `Cannot ask ${name}: ${reads} questions already wait for its answer. Try again later.`,
      );
    }
    this.#reads.set(name, reads + 1);
    try {
      return parse(await this.#get(peer, path, maxBytes, signal));
    } catch (error) {
      if (isAboutAnswer(error)) recordRefusedMessage(this.#parts.audit, name, { path }, error);
      throw error;
    } finally {
      const left = (this.#reads.get(name) ?? 1) - 1;
      if (left === 0) this.#reads.delete(name);
      else this.#reads.set(name, left);
    }
  }

  async #get(
    peer: FederationPeer,
    path: string,
    maxBytes: number,
    signal?: AbortSignal,
  ): Promise<Buffer> {
    const { name } = peer.metadata;
    const isSuspended = peer.spec.desiredState === 'suspended';
    const state = isSuspended ? 'suspended' : peer.status?.state;
    if (!isLive(state)) {
      throw peeringError(
        'HANSA_PEER_STATE',
        `Cannot call ${name}: it is ${state ?? 'not enrolled'}. To see why: hansa peer show ${name}`,
      );
    }
    const url = new URL(peer.spec.url);
    const response = await this.#parts.connections.call(
      { trustDomain: TrustDomain.parse(name), url },
      { method: 'GET', path: pathBelow(url, path) },
      {
        maxBytes,
        timeoutMs: this.#parts.settings.callTimeoutMs,
        idempotent: true,
        ...(signal === undefined ? {} : { signal }),
      },
    );
    const refusal = refusalOf(name, response);
    if (refusal !== undefined) throw refusal;
    return response.body;
  }
}
