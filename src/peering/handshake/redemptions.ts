// The invitations of this site that were redeemed: which peer each created, when it ended, and how it
// relates to a crossing acceptance.

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

  /** The invitation that this site is accepting from the same site, if this redemption wins over it. */
  crossing(peer: FederationPeer | undefined, redeemed: Redemption): string | undefined {
    if (!stands(this.#trustDomain, redeemed.trustDomain)) return undefined;
    return acceptingFrom(this.#acceptances, peer, redeemed.provenKeys);
  }

  /** Whether a site with one of these keys (hex) created this peer by redeeming. */
  hasRedeemed(name: string, keys: readonly string[], ofPeer: string | undefined): boolean {
    const redeemed = this.#invitations.get(ofPeer ?? '')?.value.redeemed;
    return (
      redeemed?.trustDomain === name && redeemed.over !== true && pins(keys, redeemed.provenKeys)
    );
  }

  /** Ends the redemptions of a revoked or deleted peer, so that none of them creates a peer again. */
  close(name: string, uid: string): Promise<void> {
    return this.#end(name, ({ replaces }) => replaces !== uid);
  }

  /** Ends the redemptions whose peer no longer exists. `uid` is the current peer of this name. */
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

  /** Binds the redemption to the peer with this uid. Resolves to false if it ended or belongs to another. */
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

  /** Whether the redemption can still create a peer, or has created one that is not revoked. */
  isOpen(invitation: string): boolean {
    return this.#invitations.get(invitation)?.value.redeemed?.over !== true;
  }

  /** Whether a revocation ended the redemption that created this peer. */
  isOver({ metadata, status }: FederationPeer): boolean {
    const redeemed = this.#invitations.get(status?.invitation ?? '')?.value.redeemed;
    return redeemed?.madeUid === metadata.uid && redeemed.over === true;
  }
}
