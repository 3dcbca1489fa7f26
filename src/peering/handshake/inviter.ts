// The inviter's side of the handshake: creates invitations, answers previews, and lets one site redeem
// each. The audit log gets the exact reason of every denial. The stranger gets only what it needs.

import { TrustDomain } from '../../api/values/trust-domain.ts';
import { requestedBy, type Requester } from '../../core/access/audit-draft.ts';
import type { SpentApproval } from '../../core/approvals/approval-gate.ts';
import type { ApprovalMode } from '../../core/approvals/policy.ts';
import type { Audit } from '../../core/audit/log.ts';
import type { Clock, Random } from '../../core/clock/clock.ts';
import { HansaError, hasCode, toHansaError } from '../../core/errors/error.ts';
import type { Bundle, BundleSource } from '../../core/identity/bundle/bundle.ts';
import { federationsCollection } from '../peers/peer-federation.ts';
import { sharesAuthority } from '../../core/identity/bundle/shares-authority.ts';
import type { Store } from '../../core/store/store.ts';
import { ago, type Claim, recordContest } from './contest.ts';
import { acceptanceFor, acceptingFrom, confirms, crossed, stands } from './crossing.ts';
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
import { existingReferenceTo } from './existing-references.ts';
import {
  agreeOnVersion,
  type PreviewAnswer,
  type PreviewRequest,
  type RedeemRequest,
} from '../messages.ts';
import type { PeerRepository } from '../peers/peer-repository.ts';
import {
  isBoundTo,
  isSameRedeemer,
  provenBundle,
  provenKeys,
  redeemerActor,
  refusedActor,
  type Stranger,
} from './redeemer.ts';
import { initialState } from '../peers/peer-states.ts';
import { Peerings } from './peerings.ts';
import type { AcceptanceRecord, InvitationRecord, Kept, Records, Redemption } from './records.ts';
import { agreedFeatures } from '../features.ts';
import { peeringError, type PeeringErrorCode } from '../errors.ts';

export interface InviterParts {
  readonly trustDomain: TrustDomain;
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly audit: Pick<Audit, 'record' | 'deny'>;
  readonly own: { readonly bundle: Bundle };
  readonly bundles: BundleSource;
  readonly peers: Pick<PeerRepository, 'get'>;
  readonly advertiseURL: () => string;
  /** Fingerprints of the current and the previous leaf certificate of the federation listener. */
  readonly ownLeaves: () => readonly string[];
  /** How much consent a confirmation needs now. */
  readonly confirmMode: () => ApprovalMode;
  /** The offers that are already granted to this trust domain. */
  readonly offersFor: (trustDomain: string) => readonly string[];
}

export interface InviteOptions {
  readonly for?: TrustDomain;
  /** The fingerprint of the only keys that may redeem it. Requires `for`. */
  readonly forKeys?: string;
  readonly ttlSeconds?: number;
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

  constructor(parts: InviterParts) {
    this.#parts = parts;
    this.#peerings = new Peerings(parts.trustDomain, parts.store);
  }

  get invitations(): Records<InvitationRecord> {
    return this.#peerings.invitations;
  }

  async invite(
    by: Requester,
    options: InviteOptions,
    spent?: SpentApproval,
  ): Promise<MadeInvitation> {
    const { trustDomain, clock, random, own, audit, advertiseURL } = this.#parts;
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
    if (this.invitations.list().length >= maxOutstanding) {
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
    const { for: invited, forKeys } = options;
    const keysWords = forKeys === undefined ? '' : ` with the fingerprint ${forKeys}`;
    const record: InvitationRecord = {
      digest: digest.toString('hex'),
      createdAtMs: nowMs,
      createdBy: by.caller.user,
      expiresAtMs,
      ...(invited === undefined ? {} : { for: invited.name }),
      ...(forKeys === undefined ? {} : { forKeys }),
      ...(spent === undefined ? {} : { approval: spent.uid }),
    };
    const row = audit.record({
      ...requestedBy(by),
      verb: 'peer.invite',
      kind: 'FederationPeer',
      ...(invited === undefined ? {} : { name: invited.name }),
      outcome: 'allow',
      reason: `invited ${invited?.name ?? 'any site'}${keysWords}, for ${ttlSeconds} seconds, by invitation ${shortId(id)}`,
    });
    await this.invitations.put(id, undefined, record, [row], spent);
    const invitation = encodeInvitation({
      url: new URL(advertiseURL()),
      trustDomain,
      keys,
      secret,
      expiresAtMs,
      ...(invited === undefined ? {} : { for: invited }),
      ...(forKeys === undefined ? {} : { forKeys }),
    });
    return { id, invitation, expiresAtMs, fingerprint: fingerprintOf(keys) };
  }

  /** Answers what the invitation offers. Does not redeem it. */
  async preview(request: PreviewRequest, stranger: Stranger): Promise<PreviewAnswer> {
    const deny = this.#denier('invitation.preview', request.trustDomain.name, stranger);
    // Sites of version 1 do not list their versions here.
    const version = this.#agree(request.contractVersions ?? [1], request.trustDomain, deny);
    const kept = this.invitations.get(request.invitation);
    if (kept === undefined)
      throw deny('HANSA_INVITATION_UNKNOWN', unknown, 'this site does not know the invitation');
    const digest = Buffer.from(kept.value.digest, 'hex');
    const shown = this.#parts
      .ownLeaves()
      .some((leaf) =>
        sameBytes(
          request.proof,
          previewProof(digest, request.challenge, leaf, request.trustDomain.name),
        ),
      );
    if (!shown) {
      throw deny(
        'HANSA_INVITATION_UNKNOWN',
        unknown,
        'the caller does not know the secret of the invitation',
      );
    }
    this.#checkUsable(kept.value, request.trustDomain, deny);
    const { redeemed } = kept.value;
    if (redeemed !== undefined && redeemed.trustDomain !== request.trustDomain.name) {
      throw await this.#contest(
        kept,
        redeemed,
        { trustDomain: request.trustDomain.name },
        stranger,
      );
    }
    return {
      contractVersion: version,
      offers: this.#parts.offersFor(request.trustDomain.name),
      confirmation: this.#confirmation(kept.value, request.trustDomain) !== undefined,
    };
  }

  /**
   * Redeems the invitation for the calling site. Idempotent for that site. Resolves to the id of the
   * invitation when the redemption is durable.
   */
  async redeem(request: RedeemRequest, stranger: Stranger): Promise<string> {
    const claimed = request.trustDomain;
    const deny = this.#denier('invitation.redeem', claimed.name, stranger);
    const version = this.#agree(request.contractVersions, claimed, deny);
    const digest = secretDigest(request.secret);
    for (;;) {
      const kept = this.invitations.get(invitationId(digest));
      if (kept === undefined || !sameBytes(digest, Buffer.from(kept.value.digest, 'hex'))) {
        throw deny('HANSA_INVITATION_UNKNOWN', unknown, 'this site does not know the invitation');
      }
      const { bundle, document } = this.#checkStranger(request, stranger, deny);
      this.#checkUsable(kept.value, claimed, deny);
      this.#checkKeys(kept.value, bundle, stranger, deny);
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
      const proven = provenKeys(bundle, stranger, this.#parts.clock.now());
      const replaces = await this.#checkFree(claimed, bundle, proven, deny);
      try {
        const proof = { bundle, document, proven, stranger };
        await this.#spend(kept, request, version, proof, replaces);
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
    { bundle, document, proven, stranger }: Proof,
    replaces: string | undefined,
  ): Promise<void> {
    const { clock, audit } = this.#parts;
    const claimed = request.trustDomain;
    // An operator who accepted an invitation of the same site has thereby confirmed it.
    const accepted = acceptanceFor(this.#peerings.acceptances, claimed.name, proven);
    const isConfirmed = accepted !== undefined && confirms(accepted, this.#parts.confirmMode());
    const confirmation = isConfirmed ? undefined : this.#confirmation(kept.value, claimed);
    const { approval } = accepted ?? {};
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
          ...(confirmation === undefined ? {} : { confirmation }),
          ...(replaces === undefined ? {} : { replaces }),
          ...(isConfirmed && approval !== undefined ? { approval } : {}),
        },
      },
      [row],
    );
  }

  /** Before anything else: no answer of a version that the other site does not know. */
  #agree(theirs: readonly number[], claimed: TrustDomain, deny: Deny): number {
    try {
      return agreeOnVersion(theirs, claimed.name);
    } catch (error) {
      const { message } = toHansaError(error);
      throw deny('HANSA_CONTRACT_VERSION', message, 'no contract version in common');
    }
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

  #confirmation(record: InvitationRecord, claimed: TrustDomain): string | undefined {
    if (record.for === undefined) return 'the invitation was for any trust domain';
    return existingReferenceTo(this.#parts.store, claimed.name);
  }

  #checkUsable(record: InvitationRecord, claimed: TrustDomain, deny: Deny): void {
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
  #checkStranger(
    request: RedeemRequest,
    stranger: Stranger,
    deny: Deny,
  ): Pick<Proof, 'bundle' | 'document'> {
    const { trustDomain, clock, own } = this.#parts;
    const claimed = request.trustDomain;
    const refuse = (why: string): HansaError =>
      deny('HANSA_INVITATION_REFUSED', `Cannot accept the invitation: ${why}.`, why);
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
    return { bundle, document: request.bundle };
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

  #contest(
    kept: Kept<InvitationRecord>,
    redeemed: Redemption,
    other: Claim,
    stranger: Stranger,
  ): Promise<HansaError> {
    const parts = { ...this.#parts, invitations: this.invitations };
    return recordContest(parts, kept, redeemed, other, stranger);
  }

  /** Neither the name nor a key may belong to another peer. Resolves to the uid of a revoked peer of this name. */
  async #checkFree(
    claimed: TrustDomain,
    bundle: Bundle,
    proven: readonly string[],
    deny: Deny,
  ): Promise<string | undefined> {
    const { store, bundles, peers } = this.#parts;
    const refuse = (why: string): HansaError =>
      deny('HANSA_INVITATION_REFUSED', `Cannot accept the invitation: ${why}.`, why);
    const known = await peers.get(claimed.name);
    const state = known?.status?.state;
    const accepting = acceptingFrom(this.#peerings.acceptances, known, proven);
    if (accepting !== undefined && !stands(this.#parts.trustDomain, claimed.name)) {
      throw crossed(this.#parts.trustDomain, claimed.name);
    }
    if (accepting === undefined && state !== undefined && state !== 'revoked') {
      throw refuse(
        `${claimed.name} is already a peer (${state}), and the inviting site must revoke it first`,
      );
    }
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
    // A peer that a crash left without a state is not a revoked one, so it is not replaced.
    return state === 'revoked' ? known?.metadata.uid : undefined;
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

/** What a site that redeems has proven. */
interface Proof {
  readonly bundle: Bundle;
  /** The bundle as the site sent it. */
  readonly document: string;
  /** SHA-256, in hex, of the keys that verified its certificate. */
  readonly proven: readonly string[];
  readonly stranger: Stranger;
}

type Deny = (code: PeeringErrorCode, message: string, reason: string) => HansaError;

const unknown =
  'Cannot accept the invitation: the inviting site does not know it, or no longer keeps it. Ask its operator for a new one.';
