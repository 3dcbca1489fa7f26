// The level-triggered step of the handshake and of the life of a peer: reads the invitations,
// acceptances and objects of one trust domain and does what is missing. It can stop anywhere and run
// again, because every action is idempotent. `peer-acceptance.ts` takes the steps of an acceptance, and
// `acceptances.ts` calls the inviting site.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { parseTimestamp } from '../../api/values/date-time.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { SpentApproval } from '../../core/approvals/approval-gate.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { Requester } from '../../core/access/audit-draft.ts';
import type { ReconcileResult } from '../../core/reconcile/controller.ts';
import type { Sealer } from '../../core/store/sealing/sealer.ts';
import type { Store } from '../../core/store/store.ts';
import type { Acceptor } from './acceptor.ts';
import { contestText } from './contest.ts';
import type { Inviter } from './inviter.ts';
import { type PeerRepository, peeringWrites, peersCollection } from '../peers/peer-repository.ts';
import type { PeerFederations } from '../peers/peer-federation.ts';
import type { AcceptanceRecord, InvitationRecord, Kept, Records } from './records.ts';
import type { Peerings } from './peerings.ts';
import type { PeeringSettings } from '../settings.ts';
import type { SoftSteps } from './acceptance.ts';
import { Acceptances, unlessConflict } from './acceptances.ts';
import { PeerAcceptance, redeemedBecause } from './peer-acceptance.ts';
import { isReenrolling } from '../peers/peer-states.ts';
import { askedForDeletion, askedForState } from '../peers/wishes.ts';

export interface HandshakeParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly settings: Pick<PeeringSettings, 'confirmWithinMs'>;
  readonly sealer: Sealer;
  readonly peers: PeerRepository;
  readonly federations: PeerFederations;
  readonly inviter: Inviter;
  readonly peerings: Peerings;
  readonly acceptor: Acceptor;
  readonly softSteps: SoftSteps;
  /** Receives the key of the inviter's audit log. */
  readonly introduced?: (peer: FederationPeer, introduction: string) => Promise<void>;
}

export class Handshake {
  readonly #parts: HandshakeParts;
  readonly #acceptances: Acceptances;
  readonly #acceptance: PeerAcceptance;

  constructor(parts: HandshakeParts) {
    this.#parts = parts;
    this.#acceptances = new Acceptances(parts);
    this.#acceptance = new PeerAcceptance(parts);
  }

  get acceptances(): Records<AcceptanceRecord> {
    return this.#parts.peerings.acceptances;
  }

  /** Advances one peer as far as possible now. */
  async reconcile(name: string, signal: AbortSignal): Promise<ReconcileResult | undefined> {
    if (TrustDomain.problem(name) !== undefined) return undefined;
    const { peers, inviter } = this.#parts;
    const known = await peers.get(name);
    await this.#closeOrphans(name, known?.metadata.uid);
    if (known?.metadata.deletionTimestamp !== undefined) return this.#forget(known);
    const accepted = await this.#acceptances.redeem(name, signal);
    const redemption = inviter.redemptionOf(name, known?.status?.invitation);
    const redeemed = redemption === undefined ? undefined : await this.#admit(name, redemption);
    await this.#settle(name);
    if (redemption !== undefined) await this.#tellContest(name, redemption);
    const invited = await this.#awaitRedemption(name);
    await this.#prune(name);
    return soonest(accepted, redeemed, invited);
  }

  /** Only the inviter's part, for a site that has just redeemed and waits for the answer. */
  async admit(name: string): Promise<FederationPeer | undefined> {
    const { inviter, peers } = this.#parts;
    const known = await peers.get(name);
    await this.#closeOrphans(name, known?.metadata.uid);
    const redemption = inviter.redemptionOf(name, known?.status?.invitation);
    if (redemption !== undefined) await this.#admit(name, redemption);
    await this.#settle(name);
    return peers.get(name);
  }

  /** Repeats the soft steps of the acceptance that are not done. */
  retry(name: string, by: Requester): Promise<void> {
    return this.#acceptance.retry(name, by);
  }

  /**
   * Ends trust first, so that a later failure cannot keep it. An acceptance without a peer is
   * deleted.
   */
  async revoke(name: string, by: Requester, spent?: SpentApproval): Promise<void> {
    const { peers } = this.#parts;
    const acceptance = this.acceptances.get(name);
    const known = await peers.get(name);
    await this.#closeOrphans(name, known?.metadata.uid);
    if (known?.status?.state === undefined) {
      if (known === undefined && acceptance === undefined) {
        throw new HansaError('HANSA_NOT_FOUND', `Cannot revoke ${name}: it is not a peer.`);
      }
      // The peer has no state yet: ends the records that would create it.
      if (acceptance !== undefined) await this.#acceptances.drop(acceptance);
      if (known !== undefined) await this.#close(known);
    }
    await peers.demand(name, 'revoke', `${by.caller.user} revoked it`, by, spent);
    await this.#settle(name);
    // A former peer needs a confirmation, so a crash before this gives nothing away.
    await this.#parts.peerings.cancelInvitations(name, this.#parts.clock.now());
    await this.#prune(name);
  }

  /** Runs before the site serves, so that a peer stopped before a crash is not trusted after it. */
  async sweep(): Promise<void> {
    const { peers, federations } = this.#parts;
    const known = (await peers.list()).map(({ metadata }) => metadata.name);
    for (const name of new Set([...known, ...(await federations.names())])) {
      await this.distrust(name);
    }
  }

  /**
   * Ends trust in a peer that is missing, deleted, revoked, re-enrolling or to be suspended. Needs no lease: every
   * write is a compare-and-set, and trust must end before a crashed site gets its leases back.
   */
  async distrust(name: string): Promise<void> {
    const { peers, federations } = this.#parts;
    const known = await peers.get(name);
    await federations.removeOrphan(name, known?.metadata.uid);
    if (known?.metadata.deletionTimestamp !== undefined) return this.#forget(known);
    const { spec, status } = known ?? {};
    const isStopped =
      status?.state === 'revoked' ||
      status?.state === 'suspended' ||
      spec?.desiredState === 'suspended';
    if (isStopped) await this.#settle(name);
    if (isReenrolling(status)) await this.#acceptance.endLostTrust(name);
  }

  /** Creates the peer of an acceptance. Safe while the controller runs. */
  propose(name: string, record: AcceptanceRecord): Promise<FederationPeer | undefined> {
    return this.#acceptances.propose(name, record);
  }

  /** As inviter: admits the site that redeemed, after any required confirmation. */
  async #admit(name: string, kept: Kept<InvitationRecord>): Promise<ReconcileResult | undefined> {
    const { peers, clock, peerings, inviter } = this.#parts;
    const { redeemed } = kept.value;
    if (redeemed === undefined) return undefined;
    const peer = await peers.propose({
      name,
      url: redeemed.url,
      role: 'inviter',
      invitation: kept.name,
      replaces: redeemed.replaces,
      madeUid: redeemed.madeUid,
      bind: (uid) => peerings.bind(kept.name, uid),
      instead: peerings.crossing(await peers.get(name), redeemed),
      fingerprint: redeemed.fingerprint,
      reason: redeemedBecause(redeemed),
    });
    if (peer?.status?.invitation !== kept.name || peer.status.state !== 'proposed')
      return undefined;
    if (redeemed.state !== 'proposed') return undefined;
    const leftMs = redeemed.atMs + this.#parts.settings.confirmWithinMs - clock.now();
    if (leftMs > 0) return { requeueAfterMs: Math.min(leftMs, 60_000) };
    const late = 'no operator of this site confirmed it in time';
    if (isReenrolling(peer.status)) {
      await peers.letGo(peer, late, [inviter.invitations.unchanged(kept.name, kept)]);
    } else await peers.step(name, 'revoke', late);
    return undefined;
  }

  /** Of a peer that re-enrols by an invitation of this site: until a site redeems it or it ends. */
  async #awaitRedemption(name: string): Promise<ReconcileResult | undefined> {
    const { peers, inviter, clock } = this.#parts;
    const peer = await peers.get(name);
    const { role, invitation } = peer?.status ?? {};
    if (peer === undefined || !isReenrolling(peer.status)) return undefined;
    if (role !== 'inviter' || invitation === undefined) return undefined;
    const kept = inviter.invitations.get(invitation);
    if (kept?.value.redeemed !== undefined) return undefined;
    const { cancelled, expiresAtMs = 0 } = kept?.value ?? {};
    const leftMs = expiresAtMs - clock.now();
    if (cancelled === undefined && leftMs > 0) return { requeueAfterMs: Math.ceil(leftMs) };
    const ended = cancelled === undefined ? 'expired' : `was cancelled by ${cancelled.by}`;
    await peers.letGo(peer, `the invitation to re-enrol it ${ended}`, [
      inviter.invitations.unchanged(invitation, kept),
    ]);
    return undefined;
  }

  async #tellContest(name: string, { name: id, value }: Kept<InvitationRecord>): Promise<void> {
    const { contested, redeemed } = value;
    if (contested === undefined || redeemed === undefined) return;
    await this.#parts.peers.noteContest(name, id, contestText(contested, redeemed));
  }

  /** Applies the state: keeps the SPIFFEFederation, and suspends or resumes as `spec` says. */
  async #settle(name: string): Promise<void> {
    const { peers, federations, peerings } = this.#parts;
    let peer = await this.#acceptance.advance(name);
    // The bundle document that verified the peer in the handshake.
    const bootstrap = peer && peerings.of(peer)?.bundle;
    if (peer?.status?.state !== undefined && peer.status.state !== 'revoked')
      peer = await peers.hold(peer);
    const wanted = peer?.spec.desiredState;
    const isSuspended = peer?.status?.state === 'suspended';
    const asked = peer && askedForState(this.#parts.store, peer, peeringWrites);
    const who = asked?.user ?? 'an operator of this site';
    if (wanted === 'suspended' && !isSuspended) {
      peer = await peers.step(name, 'suspend', `${who} suspended it`, undefined, asked?.as);
    } else if (wanted === 'active' && isSuspended) {
      peer = await peers.step(name, 'resume', `${who} resumed it`, undefined, asked?.as);
    }
    if (peer === undefined) return;
    switch (peer.status?.state) {
      case 'enrolled':
      case 'active':
      case 'degraded':
        await federations.keep(peer, bootstrap, false).catch(unlessConflict);
        await this.#acceptance.complete(peer);
        break;
      case 'suspended':
        await federations.keep(peer, bootstrap, true).catch(unlessConflict);
        break;
      case 'revoked':
        await federations.remove(name);
        this.#parts.store.facts.delete(peersCollection, name);
        await this.#close(peer);
        await peers.release(name);
        return;
      case 'proposed':
      case 'accepted':
      case undefined:
        return;
    }
    // Removes the federation again if the peer was revoked between read and write.
    if ((await peers.get(name))?.status?.state === 'revoked') await federations.remove(name);
  }

  /** The object is being deleted: revokes the peer, then removes the finalizer. */
  async #forget(peer: FederationPeer): Promise<undefined> {
    const { peers, federations } = this.#parts;
    const { name, deletionTimestamp = '' } = peer.metadata;
    const asked = askedForDeletion(this.#parts.store, peer, peeringWrites);
    const why = asked === undefined ? 'its object was deleted' : `${asked.user} deleted it`;
    await peers.step(name, 'revoke', why, undefined, asked?.as);
    await federations.remove(name);
    await this.#close(peer);
    const deletedAtMs = parseTimestamp(deletionTimestamp) ?? 0;
    await this.#parts.peerings.cancelInvitations(name, deletedAtMs);
    await peers.release(name);
    return undefined;
  }

  /**
   * Ends every record that could create this peer again, except one that replaces it. Idempotent.
   * Does not rely on finalizers, because users can remove them.
   */
  async #close(peer: FederationPeer): Promise<void> {
    const { name, uid } = peer.metadata;
    const kept = this.acceptances.get(name);
    if (kept !== undefined && kept.value.replaces !== uid && kept.value.state !== 'revoked') {
      await this.#acceptances.drop(kept);
    }
    await this.#parts.peerings.close(name, uid);
  }

  /** Ends the records of a peer that was deleted without its finalizer. `uid` is the current peer of this name. */
  async #closeOrphans(name: string, uid: string | undefined): Promise<void> {
    const { peerings, federations } = this.#parts;
    await federations.removeOrphan(name, uid);
    const kept = this.acceptances.get(name);
    const madeUid = kept?.value.madeUid;
    if (kept !== undefined && madeUid !== undefined && madeUid !== uid)
      await this.#acceptances.drop(kept);
    await peerings.closeOrphans(name, uid);
  }

  /** Deletes old records. The acceptor may redeem again until its first heartbeat, so they stay until then. */
  async #prune(name: string): Promise<void> {
    const { peers, inviter, clock } = this.#parts;
    const state = (await peers.get(name))?.status?.state;
    const finished = state === undefined || !['proposed', 'accepted', 'enrolled'].includes(state);
    for (const kept of inviter.invitations.list()) {
      const { expiresAtMs, redeemed } = kept.value;
      if (clock.now() < expiresAtMs) continue;
      if (redeemed === undefined || (redeemed.trustDomain === name && finished)) {
        await inviter.invitations.delete(kept).catch(unlessConflict);
      }
    }
  }
}

function soonest(
  ...results: readonly (ReconcileResult | undefined)[]
): ReconcileResult | undefined {
  const delays = results.flatMap((result) => result?.requeueAfterMs ?? []);
  return delays.length === 0 ? undefined : { requeueAfterMs: Math.min(...delays) };
}
