// Which peers hold the bundle of this site as it is published now. Peering writes what each peer
// tells into the status of its FederationPeer; here it is only read.

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
  /** Whether it told that it holds the bundle as it is published now. */
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
        // A peer that leaves out keys that it does not know has another hash, but the same sequence. A
        // higher one is of a life of this site that was lost with its store.
        holds:
          published !== undefined &&
          receipt !== undefined &&
          (receipt.hash === published.hash || receipt.sequence === published.sequence),
      };
    });
  }

  /**
   * Who is to be waited for: live peers that do not hold the bundle. One that has fallen silent would
   * be locked out when it comes back, so it is waited for too; but not one that has been silent for as
   * long as anybody would be waited for.
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

/** Peers that are believed and heard, or should be. */
export function isLive(state: string): boolean {
  return state === 'enrolled' || state === 'active' || state === 'degraded';
}
