// The handshake records of this site, in both roles: which record a peer follows, which peer each
// record created, and when it ended. Only this file and the redemption of an invitation change the
// state of a record, and only along the table of peer states.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import type { TrustDomain } from '../../api/values/trust-domain.ts';
import type { SpentApproval } from '../../core/approvals/approval-gate.ts';
import type { Commit, Store } from '../../core/store/store.ts';
import { nextHandshakeState } from '../peers/peer-states.ts';
import { acceptingFrom, pins, stands } from './crossing.ts';
import {
  type AcceptanceRecord,
  acceptanceRecords,
  type InvitationRecord,
  invitationRecords,
  type Peering,
  type Records,
  type Redemption,
} from './records.ts';

export class Peerings {
  readonly #trustDomain: TrustDomain;
  readonly invitations: Records<InvitationRecord>;
  readonly acceptances: Records<AcceptanceRecord>;

  constructor(trustDomain: TrustDomain, store: Store) {
    this.#trustDomain = trustDomain;
    this.invitations = invitationRecords(store);
    this.acceptances = acceptanceRecords(store);
  }

  /** The record that this peer follows. Undefined if it no longer exists or belongs to another peer. */
  of({
    metadata,
    status,
  }: FederationPeer): (Peering & Partial<Redemption & AcceptanceRecord>) | undefined {
    const { name, uid } = metadata;
    const { role, invitation = '' } = status ?? {};
    const acceptance = this.acceptances.get(name)?.value;
    const redeemed = this.invitations.get(invitation)?.value.redeemed;
    const record =
      role === 'acceptor'
        ? acceptance?.invitation === invitation && acceptance
        : redeemed?.trustDomain === name && redeemed;
    // Records of earlier versions may have no uid.
    return record && (record.madeUid ?? uid) === uid ? record : undefined;
  }

  /** The invitation that this site is accepting from the same site, if this redemption wins over it. */
  crossing(peer: FederationPeer | undefined, redeemed: Redemption): string | undefined {
    if (!stands(this.#trustDomain, redeemed.trustDomain)) return undefined;
    return acceptingFrom(this.acceptances, peer, redeemed.provenKeys);
  }

  /** Whether a site with one of these keys (hex) created this peer by redeeming. */
  hasRedeemed(name: string, keys: readonly string[], ofPeer: string | undefined): boolean {
    const redeemed = this.invitations.get(ofPeer ?? '')?.value.redeemed;
    return (
      redeemed?.trustDomain === name &&
      redeemed.state !== 'revoked' &&
      pins(keys, redeemed.provenKeys)
    );
  }

  /** Takes a step with a redemption. Changes nothing where its state does not allow the step. */
  step(
    invitation: string,
    event: 'accept' | 'revoke',
    audit?: NonNullable<Commit['audit']>,
    isIt: (redeemed: Redemption) => boolean = () => true,
    spent?: SpentApproval,
  ): Promise<void> {
    return this.invitations.change(
      invitation,
      (record) => {
        const { redeemed } = record;
        if (redeemed === undefined || !isIt(redeemed)) return undefined;
        const state = nextHandshakeState(redeemed.state, event);
        const approval = spent === undefined ? {} : { approval: spent.uid };
        return state && { ...record, redeemed: { ...redeemed, state, ...approval } };
      },
      audit,
      spent,
    );
  }

  /** Ends the peerings of a revoked or deleted peer, so that none of them creates a peer again. */
  close(name: string, uid: string): Promise<void> {
    return this.#end(name, ({ replaces }) => replaces !== uid);
  }

  /**
   * Cancels the open invitations for a peer that an operator ended at this time: everything that this site gave
   * it ends. An invitation that is created afterwards can make it a peer again.
   */
  async cancelInvitations(name: string, endedAtMs: number): Promise<void> {
    for (const kept of this.invitations.list()) {
      if (kept.value.for !== name || kept.value.createdAtMs >= endedAtMs) continue;
      await this.invitations.change(kept.name, (record) => {
        const { redeemed, cancelled } = record;
        if (redeemed !== undefined || cancelled !== undefined) return undefined;
        return {
          ...record,
          cancelled: { atMs: endedAtMs, by: `the end of the peering with ${name}` },
        };
      });
    }
  }

  /** Ends the peerings whose peer no longer exists. `uid` is the current peer of this name. */
  closeOrphans(name: string, uid: string | undefined): Promise<void> {
    return this.#end(name, ({ madeUid }) => madeUid !== undefined && madeUid !== uid);
  }

  /** Ends the redemptions of this peer but the one that it follows, or will follow. */
  async closeOthers(peer: FederationPeer): Promise<void> {
    const { name, uid } = peer.metadata;
    const followed = this.invitations.get(peer.status?.invitation ?? '');
    for (const { name: invitation, value } of this.invitations.list()) {
      const { redeemed, createdAtMs } = value;
      if (redeemed?.trustDomain !== name || invitation === followed?.name) continue;
      // The peer was read before that one was made.
      if (followed !== undefined && createdAtMs > followed.value.createdAtMs) continue;
      if (this.crossing(peer, redeemed) !== undefined) continue;
      await this.step(invitation, 'revoke', undefined, ({ madeUid }) => (madeUid ?? uid) === uid);
    }
  }

  async #end(name: string, isIt: (redeemed: Redemption) => boolean): Promise<void> {
    for (const kept of this.invitations.list()) {
      if (kept.value.redeemed?.trustDomain !== name) continue;
      await this.step(kept.name, 'revoke', undefined, isIt);
    }
  }

  /** Binds the redemption to the peer with this uid. Resolves to false if it ended or belongs to another. */
  async bind(invitation: string, uid: string): Promise<boolean> {
    await this.invitations.change(invitation, (record) => {
      const { redeemed } = record;
      if (redeemed?.state === 'revoked' || redeemed?.madeUid !== undefined) return undefined;
      return redeemed && { ...record, redeemed: { ...redeemed, madeUid: uid } };
    });
    const redeemed = this.invitations.get(invitation)?.value.redeemed;
    return redeemed?.madeUid === uid && redeemed.state !== 'revoked';
  }

  /** Whether the redemption can still create a peer, or has created one that is not revoked. */
  isOpen(invitation: string): boolean {
    return this.invitations.get(invitation)?.value.redeemed?.state !== 'revoked';
  }
}
