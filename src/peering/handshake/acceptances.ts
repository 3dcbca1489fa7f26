// The acceptor's part of the handshake: creates the peer of an accepted invitation, redeems the
// invitation, and stores the answer of the inviting site in the record of the acceptance.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { controllerCaller } from '../../core/access/identity.ts';
import { HansaError, hasCode, toHansaError } from '../../core/errors/error.ts';
import { fingerprintOf } from '../../core/identity/bundle/fingerprint.ts';
import type { ReconcileResult } from '../../core/reconcile/controller.ts';
import { isFinal } from '../client/remote-error.ts';
import { agreedFeatures } from '../features.ts';
import type { RedeemAnswer } from '../messages.ts';
import { because, causeOfFailure } from '../peers/peer-cause.ts';
import { peeringWrites } from '../peers/peer-repository.ts';
import { isReenrolling } from '../peers/peer-states.ts';
import { confirmPollMs } from '../timing.ts';
import type { VerifiedBundle } from './acceptor.ts';
import type { HandshakeParts } from './handshake.ts';
import {
  type AcceptanceRecord,
  acceptancesCollection,
  type Kept,
  type Records,
} from './records.ts';

const retryMs = 1000;

export class Acceptances {
  readonly #parts: HandshakeParts;
  readonly #records: Records<AcceptanceRecord>;

  constructor(parts: HandshakeParts) {
    this.#parts = parts;
    this.#records = parts.peerings.acceptances;
  }

  /** Creates the peer of an acceptance. Safe while the controller runs. */
  propose(name: string, record: AcceptanceRecord): Promise<FederationPeer | undefined> {
    return this.#parts.peers.propose({
      name,
      url: record.url,
      role: 'acceptor',
      invitation: record.invitation,
      replaces: record.replaces,
      madeUid: record.madeUid,
      bind: (uid) => this.#bind(name, record.invitation, uid),
      fingerprint: fingerprintOf(record.keys.map((key) => Buffer.from(key, 'hex'))),
      reason: `this site accepted an invitation of ${name}`,
    });
  }

  /** Binds the acceptance to the peer with this uid. Resolves to false if it belongs to another. */
  async #bind(name: string, invitation: string, uid: string): Promise<boolean> {
    await this.#records.change(name, (record) =>
      record.invitation === invitation && record.madeUid === undefined
        ? { ...record, madeUid: uid }
        : undefined,
    );
    const record = this.#records.get(name)?.value;
    return record?.invitation === invitation && record.madeUid === uid;
  }

  /** As acceptor: redeems the invitation that an operator accepted. */
  async redeem(name: string, signal: AbortSignal): Promise<ReconcileResult | undefined> {
    const { peers } = this.#parts;
    const found = this.#records.get(name);
    if (found === undefined || found.value.state === 'revoked') return undefined;
    // Left by an earlier version, which bound no records, and the peer no longer exists.
    const isLeft = found.value.state === 'accepted' && found.value.madeUid === undefined;
    const peer =
      isLeft && (await peers.get(name)) === undefined
        ? undefined
        : await this.propose(name, found.value);
    // `propose` has bound it to the peer.
    const kept = this.#records.get(name);
    if (kept === undefined || kept.value.invitation !== found.value.invitation) return undefined;
    if (peer?.status?.invitation !== kept.value.invitation || peer.status.state === 'revoked') {
      // Another peering has this name, or this one was revoked in the meantime.
      await this.#vouch(name, kept.value, peer);
      await this.drop(kept);
      return undefined;
    }
    return kept.value.state === 'proposed' ? this.#redeem(name, kept, signal) : undefined;
  }

  /**
   * The other site has redeemed an invitation of this site and waits for confirmation. An operator
   * of this site accepted an invitation of that site, which counts as the confirmation if the policy
   * needs no more consent for one.
   */
  async #vouch(
    name: string,
    accepted: AcceptanceRecord,
    peer: FederationPeer | undefined,
  ): Promise<void> {
    const { inviter, peerings } = this.#parts;
    const { state, role, invitation } = peer?.status ?? {};
    if (state !== 'proposed' || role !== 'inviter') return;
    // The peering from before a re-enrolment says nothing about the new keys.
    if (isReenrolling(peer?.status) && accepted.state !== 'proposed') return;
    if (peerings.hasRedeemed(name, accepted.keys, invitation)) {
      const caller = controllerCaller(peeringWrites.controller);
      await inviter.vouch(name, accepted, { caller, origin: {} });
    }
  }

  /** Redeems the invitation, and stores the answer in its record. */
  async #redeem(
    name: string,
    kept: Kept<AcceptanceRecord>,
    signal: AbortSignal,
  ): Promise<ReconcileResult | undefined> {
    const { peers, clock, settings } = this.#parts;
    const { secret: sealed, ...record } = kept.value;
    const answer = await this.#answer(name, record, sealed, signal);
    const peer = await peers.get(name);
    if (peer?.status?.invitation !== record.invitation) {
      // A crossing invitation replaced this one in the meantime.
      return { requeueAfterMs: 0 };
    }
    if (answer instanceof HansaError) {
      const { code, message } = answer;
      const endMs =
        record.waits === true ? record.atMs + settings.confirmWithinMs : record.expiresAtMs;
      if (!isFinal(answer) && clock.now() < endMs) {
        const cause = causeOfFailure(answer);
        await peers.note(name, (status) => because(status, cause, message));
        return { requeueAfterMs: retryMs };
      }
      await this.#records.put(name, kept, {
        ...record,
        state: 'revoked',
        failure: { code, message },
      });
      return undefined;
    }
    if (answer.state === 'accepted') {
      const { document: bundle, contractVersion, logIntroduction } = answer;
      if (logIntroduction !== undefined) await this.#parts.introduced?.(peer, logIntroduction);
      await this.#records.put(name, kept, {
        ...record,
        state: 'accepted',
        bundle,
        contractVersion,
        features: agreedFeatures(answer),
        warnings: (answer.warnings ?? []).map((text) => `${name}: ${text}`),
      });
      return undefined;
    }
    const reason = `waits for the operator of ${name} to admit this site`;
    await peers.note(name, (status) => because(status, 'WaitsForPeer', reason));
    if (record.waits !== true) {
      await this.#records.put(name, kept, { ...kept.value, waits: true });
    }
    return { requeueAfterMs: confirmPollMs };
  }

  async #answer(
    name: string,
    record: AcceptanceRecord,
    sealed: string | undefined,
    signal: AbortSignal,
  ): Promise<(RedeemAnswer & VerifiedBundle) | HansaError> {
    const { acceptor, sealer } = this.#parts;
    try {
      const secret = await sealer.open(
        secretPlace(name, record.invitation),
        Buffer.from(sealed ?? '', 'base64'),
      );
      return await acceptor.redeem(
        {
          url: new URL(record.url),
          trustDomain: TrustDomain.parse(name),
          keys: record.keys.map((key) => Buffer.from(key, 'hex')),
        },
        secret,
        signal,
      );
    } catch (error) {
      if (error instanceof HansaError) return error;
      throw error;
    }
  }

  async drop(kept: Kept<AcceptanceRecord>): Promise<void> {
    await this.#records.delete(kept).catch(unlessConflict);
  }
}

/** Where the sealed secret of an accepted invitation is stored until it is redeemed. */
export function secretPlace(name: string, invitation: string) {
  return {
    collection: acceptancesCollection,
    key: `${name}/${invitation}`,
    column: 'secret',
    version: 1,
  };
}

export function unlessConflict(error: unknown): void {
  if (!hasCode(error, 'HANSA_CONFLICT')) throw toHansaError(error);
}
