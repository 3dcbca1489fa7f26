// Reads which peers hold the current bundle of this site. Peering writes the receipts into the status of
// each FederationPeer.

import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { parseTimestamp } from '../../api/values/date-time.ts';
import { lastPublished } from '../../core/identity/bundle/published-bundle.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';

export const peersCollection = federationPeerKind.plural;

export interface PeerReceipt {
  readonly peer: string;
  readonly state: string;
  /** Since when it is in this state. */
  readonly sinceMs: number;
  /** Whether its receipt confirms the current bundle. */
  readonly holds: boolean;
}

const peers = kindReader(federationPeerKind);

/** O(peers). */
export class Receipts {
  readonly #store: Pick<Store, 'get' | 'list'>;

  constructor(store: Pick<Store, 'get' | 'list'>) {
    this.#store = store;
  }

  all(): readonly PeerReceipt[] {
    const published = lastPublished(this.#store);
    return this.#store.list(peersCollection).entries.map((entry) => {
      const { status } = peers.of(entry);
      const { receipt } = status ?? {};
      return {
        peer: entry.name,
        state: status?.state ?? '',
        sinceMs: parseTimestamp(status?.since ?? '') ?? 0,
        // A peer that skips unknown keys has another hash, but the same sequence. A higher sequence is from
        // an earlier life of this site, before its store was lost.
        holds:
          published !== undefined &&
          receipt !== undefined &&
          (receipt.hash === published.hash || receipt.sequence === published.sequence),
      };
    });
  }

  /**
   * The peers that a rotation waits for: live peers that do not hold the bundle. It also waits for a
   * silent peer, which could not verify this site when it is back, unless it has been silent for longer
   * than the deadline.
   */
  unconfirmed(nowMs: number, deadlineMs: number): readonly string[] {
    return this.all()
      .filter(
        ({ holds, state, sinceMs }) =>
          !holds && isLive(state) && (state !== 'degraded' || nowMs - sinceMs < deadlineMs),
      )
      .map(({ peer }) => peer);
  }
}

/** The live states. */
export function isLive(state: string): boolean {
  return state === 'enrolled' || state === 'active' || state === 'degraded';
}
