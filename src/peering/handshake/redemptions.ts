// Invitations of this site that were redeemed, as records: which peer each made, when it is over, and
// how it meets an acceptance that crosses it.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import type { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Store } from '../../core/store/store.ts';
import { acceptingFrom, pins, stands } from './crossing.ts';
import {
  type AcceptanceRecord,
  acceptancesCollection,
  type InvitationRecord,
  invitationsCollection,
  Records,
  type Redemption,
} from './records.ts';

export class Redemptions {
  readonly #trustDomain: TrustDomain;
  readonly #invitations: Records<InvitationRecord>;
  readonly #acceptances: Records<AcceptanceRecord>;

  constructor(trustDomain: TrustDomain, store: Store) {
    this.#trustDomain = trustDomain;
    this.#invitations = new Records(store, invitationsCollection);
    this.#acceptances = new Records(store, acceptancesCollection);
  }

  /** The invitation that this site is accepting from the same site, and over which this redemption stands. */
  crossing(peer: FederationPeer | undefined, redeemed: Redemption): string | undefined {
    if (!stands(this.#trustDomain, redeemed.trustDomain)) return undefined;
    return acceptingFrom(this.#acceptances, peer, redeemed.provenKeys);
  }

  /** Whether a site that proved itself by one of these keys, in hex, made this peer by redeeming. */
  hasRedeemed(name: string, keys: readonly string[], ofPeer: string | undefined): boolean {
    const redeemed = this.#invitations.get(ofPeer ?? '')?.value.redeemed;
    return (
      redeemed?.trustDomain === name && redeemed.over !== true && pins(keys, redeemed.provenKeys)
    );
  }

  /** A peer was revoked or deleted: whatever made it, or waited beside it, makes none any more. */
  close(name: string, uid: string): Promise<void> {
    return this.#end(name, ({ replaces }) => replaces !== uid);
  }

  /** Ends what made a peer that is gone, however it went. `uid` is the peer of this name now. */
  closeOrphans(name: string, uid: string | undefined): Promise<void> {
    return this.#end(name, ({ madeUid }) => madeUid !== undefined && madeUid !== uid);
  }

  async #end(name: string, isIt: (redeemed: Redemption) => boolean): Promise<void> {
    for (const kept of this.#invitations.list()) {
      await this.#invitations.change(kept.name, (record) => {
        const { redeemed } = record;
        if (redeemed?.trustDomain !== name || redeemed.over === true || !isIt(redeemed)) {
          return undefined;
        }
        return { ...record, redeemed: { ...redeemed, over: true } };
      });
    }
  }

  /** Resolves to whether the redemption makes the peer with this uid, and no other. */
  async bind(invitation: string, uid: string): Promise<boolean> {
    await this.#invitations.change(invitation, (record) => {
      const { redeemed } = record;
      if (redeemed === undefined || redeemed.over === true || redeemed.madeUid !== undefined) {
        return undefined;
      }
      return { ...record, redeemed: { ...redeemed, madeUid: uid } };
    });
    const redeemed = this.#invitations.get(invitation)?.value.redeemed;
    return redeemed?.madeUid === uid && redeemed.over !== true;
  }

  /** Whether what was redeemed may still make a peer, or has made one that is not revoked. */
  isOpen(invitation: string): boolean {
    return this.#invitations.get(invitation)?.value.redeemed?.over !== true;
  }

  /** Whether the redemption that made this peer was closed by a revocation. */
  isOver({ metadata, status }: FederationPeer): boolean {
    const redeemed = this.#invitations.get(status?.invitation ?? '')?.value.redeemed;
    return redeemed?.madeUid === metadata.uid && redeemed.over === true;
  }
}
