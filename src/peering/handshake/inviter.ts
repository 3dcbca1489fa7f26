// The inviter's side of the handshake: creates invitations, answers previews, and lets one site redeem
// each. The audit log gets the exact reason of every denial. The stranger gets only what it needs.

import { TrustDomain } from '../../api/values/trust-domain.ts';
import { requestedBy, type Requester } from '../../core/access/audit-draft.ts';
import type { SpentApproval } from '../../core/approvals/approval-gate.ts';
import type { Audit } from '../../core/audit/log.ts';
import type { Random } from '../../core/clock/clock.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import {
  Admission,
  type AdmissionParts,
  type Deny,
  type Outcome,
  type Proof,
} from './admission.ts';
import { type Claim, recordContest } from './contest.ts';
import { confirms } from './crossing.ts';
import { fingerprintOf, keyDigests } from '../../core/identity/bundle/fingerprint.ts';
import {
  defaultInvitationSeconds,
  encodeInvitation,
  invitationId,
  maxInvitationSeconds,
  previewProof,
  sameBytes,
  secretDigest,
  shortId,
} from './invitation.ts';
import type { PreviewAnswer, PreviewRequest, RedeemRequest } from '../messages.ts';
import { isSameRedeemer, redeemerActor, refusedActor, type Stranger } from './redeemer.ts';
import { initialState } from '../peers/peer-states.ts';
import { Peerings } from './peerings.ts';
import type { AcceptanceRecord, InvitationRecord, Kept, Records, Redemption } from './records.ts';
import { agreedFeatures } from '../features.ts';
import { peeringError } from '../errors.ts';

export interface InviterParts extends AdmissionParts {
  readonly random: Random;
  readonly audit: Pick<Audit, 'record' | 'deny'>;
  readonly advertiseURL: () => string;
  /** Fingerprints of the current and the previous leaf certificate of the federation listener. */
  readonly ownLeaves: () => readonly string[];
  /** The offers that are already granted to this trust domain. */
  readonly offersFor: (trustDomain: string) => readonly string[];
}

export interface InviteOptions {
  readonly for?: TrustDomain;
  /** The fingerprint of the only keys that may redeem it. Requires `for`. */
  readonly forKeys?: string;
  readonly ttlSeconds?: number;
  /** The uid of the peer that it re-enrols. Requires `for`. */
  readonly reenrols?: string;
}

/** An invitation that is not stored yet. */
export interface NewInvitation {
  readonly made: MadeInvitation;
  readonly record: InvitationRecord;
  /** Whom it is for, in words. */
  readonly words: string;
}

export interface MadeInvitation {
  /** Its public id, for `hansa peer invitation`. */
  readonly id: string;
  readonly invitation: string;
  readonly expiresAtMs: number;
  readonly fingerprint: string;
}

/** More than a site needs. Bounds the effect of a faulty script. */
const maxOutstanding = 1000;

export class Inviter {
  readonly #parts: InviterParts;
  readonly #peerings: Peerings;
  readonly #admission: Admission;

  constructor(parts: InviterParts) {
    this.#parts = parts;
    this.#peerings = new Peerings(parts.trustDomain, parts.store);
    this.#admission = new Admission(parts, this.#peerings);
  }

  get invitations(): Records<InvitationRecord> {
    return this.#peerings.invitations;
  }

  async invite(
    by: Requester,
    options: InviteOptions,
    spent?: SpentApproval,
  ): Promise<MadeInvitation> {
    const { made, record, words } = await this.prepare(by, options, spent);
    const row = this.#parts.audit.record({
      ...requestedBy(by),
      verb: 'peer.invite',
      kind: 'FederationPeer',
      ...(record.for === undefined ? {} : { name: record.for }),
      outcome: 'allow',
      reason: `invited ${words}`,
    });
    await this.invitations.put(made.id, undefined, record, [row], spent);
    return made;
  }

  /** Makes an invitation for the caller to store. No site can redeem it before. */
  async prepare(
    by: Requester,
    options: InviteOptions,
    spent?: SpentApproval,
  ): Promise<NewInvitation> {
    const { trustDomain, clock, random, own, advertiseURL } = this.#parts;
    const { ttlSeconds = defaultInvitationSeconds } = options;
    if (!Number.isSafeInteger(ttlSeconds) || ttlSeconds < 1 || ttlSeconds > maxInvitationSeconds) {
      throw new HansaError(
        'HANSA_BAD_REQUEST',
        `Cannot create an invitation for ${ttlSeconds} seconds. The range is 1 to ${maxInvitationSeconds}.`,
      );
    }
    if (options.for?.equals(trustDomain)) {
      throw new HansaError(
        'HANSA_BAD_REQUEST',
        `Cannot invite ${trustDomain.name}: it is this site.`,
      );
    }
    // A redeemed one stays until it expires, and belongs to a peer.
    const open = this.invitations.list().filter(({ value }) => value.redeemed === undefined);
    if (open.length >= maxOutstanding) {
      throw new HansaError(
        'HANSA_TOO_MANY_REQUESTS',
        `Cannot create an invitation: ${maxOutstanding} are outstanding. Wait until some have expired.`,
      );
    }
    const keys = keyDigests(own.bundle);
    const secret = Buffer.from(await random.bytes(32));
    const nowMs = clock.now();
    const expiresAtMs = Math.floor(nowMs / 1000 + ttlSeconds) * 1000;
    const digest = secretDigest(secret);
    const id = invitationId(digest);
    const { for: invited, forKeys, reenrols } = options;
    const keysWords = forKeys === undefined ? '' : ` with the fingerprint ${forKeys}`;
    const record: InvitationRecord = {
      digest: digest.toString('hex'),
      createdAtMs: nowMs,
      createdBy: by.caller.user,
      expiresAtMs,
      ...(invited === undefined ? {} : { for: invited.name }),
      ...(forKeys === undefined ? {} : { forKeys }),
      ...(reenrols === undefined ? {} : { reenrols }),
      ...(spent === undefined ? {} : { approval: spent.uid }),
    };
    const invitation = encodeInvitation({
      url: new URL(advertiseURL()),
      trustDomain,
      keys,
      secret,
      expiresAtMs,
      ...(invited === undefined ? {} : { for: invited }),
      ...(forKeys === undefined ? {} : { forKeys }),
      ...(reenrols === undefined ? {} : { reenrols: true }),
    });
    return {
      made: { id, invitation, expiresAtMs, fingerprint: fingerprintOf(keys) },
      record,
      words: `${invited?.name ?? 'any site'}${keysWords}, for ${ttlSeconds} seconds, by invitation ${shortId(id)}`,
    };
  }

  /** Answers what a redemption of the invitation does and offers. Does not redeem it. */
  async preview(request: PreviewRequest, stranger: Stranger): Promise<PreviewAnswer> {
    const claimed = request.trustDomain;
    const deny = this.#denier('invitation.preview', claimed.name, stranger);
    // Sites of version 1 do not list their versions here.
    const contractVersion = this.#admission.agree(request.contractVersions ?? [1], claimed, deny);
    const kept = this.invitations.get(request.invitation);
    if (kept === undefined)
      throw deny('HANSA_INVITATION_UNKNOWN', unknown, 'this site does not know the invitation');
    const digest = Buffer.from(kept.value.digest, 'hex');
    const shown = this.#parts
      .ownLeaves()
      .some((leaf) =>
        sameBytes(request.proof, previewProof(digest, request.challenge, leaf, claimed.name)),
      );
    if (!shown) {
      throw deny(
        'HANSA_INVITATION_UNKNOWN',
        unknown,
        'the caller does not know the secret of the invitation',
      );
    }
    this.#admission.checkUsable(kept.value, claimed, deny);
    const { redeemed } = kept.value;
    if (redeemed !== undefined && redeemed.trustDomain !== claimed.name) {
      throw await this.#contest(kept, redeemed, { trustDomain: claimed.name }, stranger);
    }
    const confirmation =
      redeemed === undefined
        ? (await this.#admission.outcome(kept, claimed, undefined, deny)).confirmation !== undefined
        : redeemed.state === 'proposed';
    const offers = this.#parts.offersFor(claimed.name);
    return { contractVersion, offers, confirmation };
  }

  /**
   * Redeems the invitation for the calling site. Idempotent for that site. Resolves to the id of the
   * invitation when the redemption is durable.
   */
  async redeem(request: RedeemRequest, stranger: Stranger): Promise<string> {
    const claimed = request.trustDomain;
    const deny = this.#denier('invitation.redeem', claimed.name, stranger);
    const version = this.#admission.agree(request.contractVersions, claimed, deny);
    const digest = secretDigest(request.secret);
    for (;;) {
      const kept = this.invitations.get(invitationId(digest));
      if (kept === undefined || !sameBytes(digest, Buffer.from(kept.value.digest, 'hex'))) {
        throw deny('HANSA_INVITATION_UNKNOWN', unknown, 'this site does not know the invitation');
      }
      const proof = this.#admission.prove(kept.value, request, stranger, deny);
      const { bundle } = proof;
      const { redeemed } = kept.value;
      if (redeemed !== undefined) {
        // The same name is not enough: the keys must be the same too.
        const isSame =
          redeemed.trustDomain === claimed.name &&
          isSameRedeemer(claimed, redeemed.bundle, bundle, stranger, this.#parts.clock.now());
        if (isSame) return kept.name;
        const fingerprint = fingerprintOf(keyDigests(bundle));
        throw await this.#contest(
          kept,
          redeemed,
          { trustDomain: claimed.name, fingerprint },
          stranger,
        );
      }
      const outcome = await this.#admission.outcome(kept, claimed, proof, deny);
      try {
        await this.#spend(kept, request, version, { ...proof, stranger }, outcome);
        return kept.name;
      } catch (error) {
        // A concurrent redemption was faster: check which site it was.
        if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
      }
    }
  }

  async #spend(
    kept: Kept<InvitationRecord>,
    request: RedeemRequest,
    version: number,
    { bundle, document, proven, stranger }: Proof & { readonly stranger: Stranger },
    outcome: Outcome,
  ): Promise<void> {
    const { clock, audit } = this.#parts;
    const claimed = request.trustDomain;
    const { confirmation } = outcome;
    const row = audit.record({
      actor: redeemerActor(claimed, stranger),
      verb: 'invitation.redeem',
      kind: 'FederationPeer',
      name: claimed.name,
      outcome: 'allow',
      reason:
        confirmation === undefined
          ? 'redeemed its invitation'
          : `redeemed an invitation, confirmation required: ${confirmation}`,
    });
    await this.invitations.put(
      kept.name,
      kept,
      {
        ...kept.value,
        redeemed: {
          state: confirmation === undefined ? 'accepted' : initialState,
          trustDomain: claimed.name,
          url: request.url.href,
          bundle: document,
          fingerprint: fingerprintOf(keyDigests(bundle)),
          provenKeys: proven,
          contractVersion: version,
          features: agreedFeatures(request),
          atMs: clock.now(),
          // Bound from the beginning: it never creates a peer.
          ...(kept.value.reenrols === undefined ? {} : { madeUid: kept.value.reenrols }),
          ...outcome,
        },
      },
      [row],
    );
  }

  /** An operator accepted an invitation of the site that waits, which counts as its confirmation. */
  async vouch(name: string, accepted: AcceptanceRecord, by: Requester): Promise<void> {
    if (confirms(accepted, this.#parts.confirmMode())) await this.confirm(name, by);
  }

  /** The operator admits the site that redeemed an invitation under this name. */
  async confirm(name: string, by: Requester, spent?: SpentApproval): Promise<void> {
    const { audit, peers } = this.#parts;
    const kept = this.redemptionOf(name, (await peers.get(name))?.status?.invitation);
    if (kept?.value.redeemed === undefined) {
      throw new HansaError(
        'HANSA_NOT_FOUND',
        `Cannot confirm ${name}: no site of that trust domain waits for confirmation.`,
      );
    }
    if (kept.value.redeemed.state !== 'proposed') return;
    const row = audit.record({
      ...requestedBy(by),
      verb: 'peer.confirm',
      kind: 'FederationPeer',
      name,
      outcome: 'allow',
      reason: `confirmed, with the fingerprint ${kept.value.redeemed.fingerprint}`,
    });
    await this.#peerings.step(kept.name, 'accept', [row], undefined, spent);
  }

  /**
   * The invitation that a site of this name redeemed and whose peer was not revoked since. Prefers
   * `ofPeer`, the invitation of the existing peer, and otherwise the newest.
   */
  redemptionOf(name: string, ofPeer?: string): Kept<InvitationRecord> | undefined {
    const open = this.invitations
      .list()
      .filter(
        ({ value }) => value.redeemed?.trustDomain === name && value.redeemed.state !== 'revoked',
      )
      .toSorted((a, b) => (b.value.redeemed?.atMs ?? 0) - (a.value.redeemed?.atMs ?? 0));
    return open.find((kept) => kept.name === ofPeer) ?? open[0];
  }

  #contest(
    kept: Kept<InvitationRecord>,
    redeemed: Redemption,
    other: Claim,
    stranger: Stranger,
  ): Promise<HansaError> {
    const parts = { ...this.#parts, invitations: this.invitations };
    return recordContest(parts, kept, redeemed, other, stranger);
  }

  #denier(verb: string, claimed: string, stranger: Stranger): Deny {
    return (code, message, reason) => {
      this.#parts.audit.deny({
        actor: refusedActor(stranger),
        verb,
        kind: 'FederationPeer',
        name: claimed,
        outcome: 'deny',
        code,
        reason,
      });
      return peeringError(code, message);
    };
  }
}

const unknown =
  'Cannot accept the invitation: the inviting site does not know it, or no longer keeps it. Ask its operator for a new one.';
