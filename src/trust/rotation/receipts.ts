// Reads which peers hold the current bundle of this site. Peering writes the receipts into the status of
// each FederationPeer.

import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
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
  /** Whether it rejects this site: it answered the newest message so. */
  readonly rejects: boolean;
}

/** Live peers that do not hold the bundle. */
export interface Unconfirmed {
  /** Those that a rotation waits for. */
  readonly waits: readonly string[];
  /** Those that it goes on without. */
  readonly goesOn: readonly string[];
}

type StatusCondition = NonNullable<NonNullable<FederationPeer['status']>['conditions']>[number];

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
        rejects: status?.conditions?.some(isRejection) === true,
      };
    });
  }

  /**
   * A rotation waits for live peers that do not hold the bundle. It also waits for a silent peer, which could
   * not verify this site when it is back, unless it has been silent for longer than the deadline. It does not
   * wait for a silent peer that rejects this site. That peer has suspended or revoked this site, and then it
   * either fetches the bundle all the same or needs no bundle; or it does not hold the active authority either.
   */
  unconfirmed(nowMs: number, deadlineMs: number): Unconfirmed {
    const live = this.all().filter(({ holds, state }) => !holds && isLive(state));
    const isWaitedFor = ({ state, sinceMs, rejects }: PeerReceipt): boolean =>
      state !== 'degraded' || (!rejects && nowMs - sinceMs < deadlineMs);
    const { true: waits = [], false: goesOn = [] } = Object.groupBy(live, (one) =>
      isWaitedFor(one) ? 'true' : 'false',
    );
    return { waits: waits.map(({ peer }) => peer), goesOn: goesOn.map(({ peer }) => peer) };
  }
}

function isRejection({ type, reason, status }: StatusCondition): boolean {
  return type === 'Reachable' && status === 'False' && reason === 'Refused';
}

/** The live states. */
export function isLive(state: string): boolean {
  return state === 'enrolled' || state === 'active' || state === 'degraded';
}
