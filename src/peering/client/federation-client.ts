// Calls the federation API of live peers, over the kept connections.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { KeptConnections } from '../../core/identity/tls/kept-connections.ts';
import { peeringError } from '../errors.ts';
import { pathBelow } from '../handshake/acceptor.ts';
import { isLive } from '../peers/peer-states.ts';
import type { PeeringSettings } from '../settings.ts';
import { refusalOf } from './remote-error.ts';

export interface FederationClientParts {
  readonly connections: Pick<KeptConnections, 'call'>;
  readonly settings: Pick<PeeringSettings, 'callTimeoutMs'>;
}

export class FederationClient {
  readonly #parts: FederationClientParts;

  constructor(parts: FederationClientParts) {
    this.#parts = parts;
  }

  /**
   * The body of a successful answer. HANSA_FORBIDDEN: the peer answered that this site lacks a grant.
   * HANSA_PEER_REFUSED: the peer does not accept this site as a peer. HANSA_PEER_STATE: this site does
   * not call the peer in its state.
   */
  async get(
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
