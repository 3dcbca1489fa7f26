// Decides whether a site may redeem an invitation of this site, and what the redemption does: whether an
// operator must confirm the site, and which peer it becomes. A preview and a redemption take the same
// decision. Writes nothing but the audit records of denials.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { ApprovalMode } from '../../core/approvals/policy.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError, toHansaError } from '../../core/errors/error.ts';
import type { Bundle, BundleSource } from '../../core/identity/bundle/bundle.ts';
import { fingerprintOf, keyDigests } from '../../core/identity/bundle/fingerprint.ts';
import { sharesAuthority } from '../../core/identity/bundle/shares-authority.ts';
import type { Store } from '../../core/store/store.ts';
import { peeringError, type PeeringErrorCode } from '../errors.ts';
import { agreeOnVersion, type RedeemRequest } from '../messages.ts';
import { federationsCollection } from '../peers/peer-federation.ts';
import type { PeerRepository } from '../peers/peer-repository.ts';
import { isReenrolling } from '../peers/peer-states.ts';
import { ago } from './contest.ts';
import { acceptanceFor, acceptingFrom, confirms, crossed, stands } from './crossing.ts';
import { existingReferenceTo } from './existing-references.ts';
import type { Peerings } from './peerings.ts';
import type { InvitationRecord, Kept } from './records.ts';
import { isBoundTo, provenBundle, provenKeys, type Stranger } from './redeemer.ts';

export interface AdmissionParts {
  readonly trustDomain: TrustDomain;
  readonly store: Store;
  readonly clock: Clock;
  readonly own: { readonly bundle: Bundle };
  readonly bundles: BundleSource;
  readonly peers: Pick<PeerRepository, 'get'>;
  /** How much consent a confirmation needs now. */
  readonly confirmMode: () => ApprovalMode;
}

/** What a site that redeems has proven. */
export interface Proof {
  readonly bundle: Bundle;
  /** The bundle as the site sent it. */
  readonly document: string;
  /** SHA-256, in hex, of the keys that verified its certificate. */
  readonly proven: readonly string[];
}

/** What a redemption does now. */
export interface Outcome {
  /** Why an operator of this site must confirm the site. Absent if none has to. */
  readonly confirmation?: string;
  /** The uid of the revoked peer of this name that the new peer replaces. */
  readonly replaces?: string;
  /** The uid of the Approval of an acceptance that confirmed the site. */
  readonly approval?: string;
}

/** Records a denial. The audit log gets the reason, and the stranger the message. */
export type Deny = (code: PeeringErrorCode, message: string, reason: string) => HansaError;

export class Admission {
  readonly #parts: AdmissionParts;
  readonly #peerings: Peerings;

  constructor(parts: AdmissionParts, peerings: Peerings) {
    this.#parts = parts;
    this.#peerings = peerings;
  }

  /** Before anything else: no answer of a version that the other site does not know. */
  agree(theirs: readonly number[], claimed: TrustDomain, deny: Deny): number {
    try {
      return agreeOnVersion(theirs, claimed.name);
    } catch (error) {
      const { message } = toHansaError(error);
      throw deny('HANSA_CONTRACT_VERSION', message, 'no contract version in common');
    }
  }

  /** Throws if no site of this name can use the invitation. */
  checkUsable(record: InvitationRecord, claimed: TrustDomain, deny: Deny): void {
    const { clock, trustDomain } = this.#parts;
    const { name } = trustDomain;
    if (record.for !== undefined && record.for !== claimed.name) {
      throw deny(
        'HANSA_INVITATION_REFUSED',
        `Cannot accept the invitation: it is not for ${claimed.name}. Ask ${name} for a new one.`,
        `the invitation is for ${record.for}`,
      );
    }
    const { redeemed, cancelled } = record;
    if (cancelled !== undefined) {
      throw deny(
        'HANSA_INVITATION_REFUSED',
        `Cannot accept the invitation: ${name} cancelled it. Ask its operator for a new one.`,
        `${cancelled.by} cancelled the invitation`,
      );
    }
    if (redeemed === undefined && clock.now() >= record.expiresAtMs) {
      throw deny(
        'HANSA_INVITATION_EXPIRED',
        `Cannot accept the invitation: it expired ${ago(clock.now() - record.expiresAtMs)}. Ask ${name} for a new one.`,
        'the invitation has expired',
      );
    }
  }

  /** Verifies the connection with the bundle in the request. This binds name, keys and connection together. */
  prove(record: InvitationRecord, request: RedeemRequest, stranger: Stranger, deny: Deny): Proof {
    const { trustDomain, clock, own } = this.#parts;
    const claimed = request.trustDomain;
    const refuse = refuser(deny);
    if (claimed.equals(trustDomain)) {
      throw refuse(`${claimed.name} is the trust domain of the inviting site`);
    }
    if (request.bundle === undefined) {
      const why =
        request.hasCsr === true
          ? `${claimed.name} sent a CSR but no bundle, and only a child of ${trustDomain.name} may do that`
          : `${claimed.name} sent neither a bundle nor a CSR`;
      throw deny('HANSA_TRUST_MATERIAL', `Cannot accept the invitation: ${why}.`, why);
    }
    const bundle = provenBundle(claimed, request.bundle, stranger, clock.now());
    if (typeof bundle === 'string') throw refuse(bundle);
    if (sharesAuthority(bundle, own.bundle)) {
      throw refuse(`the bundle of ${claimed.name} contains an authority of ${trustDomain.name}`);
    }
    this.checkUsable(record, claimed, deny);
    this.#checkKeys(record, bundle, stranger, deny);
    const proven = provenKeys(bundle, stranger, clock.now());
    return { bundle, document: request.bundle, proven };
  }

  /** A rejection leaves the invitation open for the site with the right keys. */
  #checkKeys(record: InvitationRecord, bundle: Bundle, stranger: Stranger, deny: Deny): void {
    const { trustDomain, clock } = this.#parts;
    const { forKeys } = record;
    if (forKeys === undefined || isBoundTo(forKeys, bundle, stranger, clock.now())) return;
    const found = fingerprintOf(keyDigests(bundle));
    throw deny(
      'HANSA_INVITATION_REFUSED',
      `Cannot accept the invitation: it is for a ${bundle.trustDomain.name} with other keys than this site has (fingerprint ${found}). Send the operator of ${trustDomain.name} the fingerprint from hansa status, and ask for a new invitation.`,
      `the invitation is for the fingerprint ${forKeys}, but the site has ${found}`,
    );
  }

  /**
   * What happens if a site of this name redeems the invitation now. Throws if it cannot become a peer.
   * A preview has no proof: then a site whose invitation this site is accepting counts as that site.
   */
  async outcome(
    kept: Kept<InvitationRecord>,
    claimed: TrustDomain,
    proof: Proof | undefined,
    deny: Deny,
  ): Promise<Outcome> {
    const { peers, trustDomain, confirmMode } = this.#parts;
    const { acceptances } = this.#peerings;
    const { value: record } = kept;
    const known = await peers.get(claimed.name);
    const state = known?.status?.state;
    const again = this.#startsOver(record, known, deny);
    const proven = proof?.proven ?? 'unproven';
    const accepting = acceptingFrom(acceptances, known, proven);
    if (accepting !== undefined && proof !== undefined && !stands(trustDomain, claimed.name)) {
      throw crossed(trustDomain, claimed.name);
    }
    const isForIt = again && known?.status?.invitation === kept.name;
    if (again && !isForIt && accepting === undefined) {
      throw refuser(deny)(`a newer invitation to re-enrol ${claimed.name} has replaced it`);
    }
    if (accepting === undefined && !isForIt && state !== undefined && state !== 'revoked') {
      // Crossing invitations: the other one was faster, and its redemption may still be under way there.
      if (proof === undefined && known?.status?.role === 'acceptor') {
        throw peeringError(
          'HANSA_PEER_STATE',
          `Cannot accept the invitation: ${claimed.name} is already a peer (${state}) of ${trustDomain.name}, by an invitation of ${claimed.name}.`,
        );
      }
      throw refuser(deny)(
        `${claimed.name} is already a peer (${state}), and the inviting site must revoke or re-enrol it first`,
      );
    }
    if (proof !== undefined) {
      this.#checkForeign(claimed, proof.bundle, deny);
      this.#checkLost(claimed, proof.bundle, known, deny);
    }
    // An operator who accepted an invitation of the same site has thereby confirmed it.
    const accepted = acceptanceFor(acceptances, claimed.name, proven);
    const isConfirmed = accepted !== undefined && confirms(accepted, confirmMode());
    const confirmation = isConfirmed ? undefined : this.#confirmation(record, claimed);
    const approval = isConfirmed ? accepted.approval : undefined;
    // A peer that a crash left without a state is not a revoked one, so it is not replaced.
    const replaces = state === 'revoked' ? known?.metadata.uid : undefined;
    return {
      ...(confirmation === undefined ? {} : { confirmation }),
      ...(replaces === undefined ? {} : { replaces }),
      ...(approval === undefined ? {} : { approval }),
    };
  }

  #confirmation(record: InvitationRecord, claimed: TrustDomain): string | undefined {
    if (record.for === undefined) return 'the invitation was for any trust domain';
    if (record.reenrols !== undefined) {
      return record.forKeys === undefined
        ? 'it has new keys, and the invitation to re-enrol it names none'
        : undefined;
    }
    return existingReferenceTo(this.#parts.store, claimed.name);
  }

  /** Whether the invitation is for a peer that re-enrols. Throws if that peer does not, or no longer exists. */
  #startsOver(
    { reenrols }: InvitationRecord,
    known: FederationPeer | undefined,
    deny: Deny,
  ): boolean {
    if (reenrols === undefined) return false;
    if (known?.metadata.uid === reenrols && isReenrolling(known.status)) return true;
    throw refuser(deny)('it was to re-enrol a peer, and that has ended');
  }

  /** Others may have the keys that the peer lost, so they prove nothing. */
  #checkLost(
    claimed: TrustDomain,
    bundle: Bundle,
    known: FederationPeer | undefined,
    deny: Deny,
  ): void {
    if (!isReenrolling(known?.status)) return;
    const lost = new Set(known?.status?.lostKeys);
    if (!keyDigests(bundle).some((key) => lost.has(key.toString('hex')))) return;
    throw deny(
      'HANSA_INVITATION_REFUSED',
      `Cannot accept the invitation: it is for new keys of ${claimed.name}, and the bundle of ${claimed.name} has a key from before. To replace all keys there: hansa trust rotate --emergency --fresh`,
      `its bundle contains a key that ${claimed.name} has lost`,
    );
  }

  /** No key may belong to another trust domain. */
  #checkForeign(claimed: TrustDomain, bundle: Bundle, deny: Deny): void {
    const { store, bundles } = this.#parts;
    for (const { name } of store.list(federationsCollection).entries) {
      if (name === claimed.name || TrustDomain.problem(name) !== undefined) continue;
      const other = bundles.bundleFor(TrustDomain.parse(name));
      if (other !== undefined && sharesAuthority(bundle, other)) {
        // Do not tell the stranger whose keys they are.
        throw deny(
          'HANSA_INVITATION_REFUSED',
          `Cannot accept the invitation: the bundle of ${claimed.name} contains an authority of another trust domain.`,
          `its bundle contains an authority of ${name}`,
        );
      }
    }
  }
}

function refuser(deny: Deny): (why: string) => HansaError {
  return (why) => deny('HANSA_INVITATION_REFUSED', `Cannot accept the invitation: ${why}.`, why);
}
