// The one orchestration of an acceptance, for both sides and the command line. Takes the
// hard steps along the table of peer states as far as the handshake record allows, then the soft steps,
// and records each outcome in the status of the peer. It can stop anywhere and run again.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import type { Requester } from '../../core/access/audit-draft.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { fingerprintOf } from '../../core/identity/bundle/fingerprint.ts';
import { peeringError } from '../errors.ts';
import { because, type PeerCause } from '../peers/peer-cause.ts';
import { agreedOn, peeringWrites, peersCollection } from '../peers/peer-repository.ts';
import { followingStep, isLive, isReenrolling } from '../peers/peer-states.ts';
import { completed, runSoftSteps, type StepOutcome, warningsOf, withSteps } from './acceptance.ts';
import type { HandshakeParts } from './handshake.ts';
import type { AcceptanceRecord, Peering, Redemption } from './records.ts';

export class PeerAcceptance {
  readonly #parts: HandshakeParts;

  constructor(parts: HandshakeParts) {
    this.#parts = parts;
  }

  /** Takes the hard steps that are possible now. */
  async advance(name: string): Promise<FederationPeer | undefined> {
    const peer = await this.#follow(name);
    return peer?.status?.state === 'accepted' ? this.#enrol(peer) : peer;
  }

  /** Takes the step with which the peer follows its handshake record. */
  async #follow(name: string): Promise<FederationPeer | undefined> {
    const { peers, peerings, clock } = this.#parts;
    const peer = await peers.get(name);
    const { state, role } = peer?.status ?? {};
    if (peer === undefined || state === undefined) return peer;
    const record = peerings.of(peer);
    if (isReenrolling(peer.status)) return this.#followAgain(peer, record);
    if (record === undefined) {
      // It would wait forever.
      return role === 'acceptor' && state === 'proposed'
        ? peers.step(name, 'revoke', 'the operator gave up its invitation')
        : peer;
    }
    const event = followingStep(state, record.state);
    if (event === undefined) return peer;
    const nowMs = clock.now();
    if (event === 'revoke') {
      const { failure } = record;
      return peers.step(
        name,
        event,
        failure?.message.slice(0, 500) ?? 'its invitation was closed',
        (status) =>
          failure === undefined ? status : withSteps(status, failedStep(failure), nowMs),
      );
    }
    return peers.step(name, event, acceptedBecause(name, record), (status) =>
      withSteps(agreedOn(record)(status), agreedSteps(record), nowMs),
    );
  }

  /**
   * The same for a peer that re-enrols. A handshake without success does not revoke it. It leaves the
   * state only without a federation, so that no key from before counts afterwards.
   */
  async #followAgain(
    peer: FederationPeer,
    record: FollowedRecord | undefined,
  ): Promise<FederationPeer | undefined> {
    const { peers, clock } = this.#parts;
    const { name } = peer.metadata;
    const { role, fingerprint } = peer.status ?? {};
    await this.endLostTrust(name);
    if (record === undefined) {
      // The inviter waits for a redemption.
      return role === 'acceptor' ? peers.letGo(peer, 'this site gave up its invitation') : peer;
    }
    if (record.state === 'revoked') {
      return peers.letGo(peer, record.failure?.message.slice(0, 500) ?? 'its redemption ended');
    }
    const told = fingerprintIn(record);
    if (fingerprint !== told) {
      const reason = record.invitation === undefined ? { reason: redeemedBecause(record) } : {};
      await peers.renew(peer, { url: record.url, fingerprint: told, ...reason });
    }
    if (record.state !== 'accepted') return peers.get(name);
    const { invitation } = peer.status ?? {};
    return peers.step(
      name,
      'accept',
      acceptedBecause(name, record),
      (status) => withSteps(agreedOn(record)(status), agreedSteps(record), clock.now()),
      peeringWrites,
      (status) => status?.invitation === invitation,
    );
  }

  /**
   * Removes what earlier handshakes left of a peer that re-enrols: its federation, and their records.
   * Trust in the peer has ended with its state, and this removes the keys. A federation that is read
   * before the state is from before: `keep` creates none for a proposed peer.
   */
  async endLostTrust(name: string): Promise<void> {
    const { peers, federations, peerings, store } = this.#parts;
    await federations.remove(name, async () => !isReenrolling((await peers.get(name))?.status));
    const peer = await peers.get(name);
    if (peer === undefined || !isReenrolling(peer.status)) return;
    await peerings.closeOthers(peer);
    store.facts.delete(peersCollection, name);
  }

  /** From here on, the site trusts the bundle of the peer. */
  async #enrol(peer: FederationPeer): Promise<FederationPeer | undefined> {
    const { peers, federations, peerings, clock } = this.#parts;
    const { name } = peer.metadata;
    const obstacle = await federations.obstacle(name);
    if (obstacle !== undefined) return this.#waits(peer, 'ForeignFederation', obstacle);
    const held = await peers.hold(peer);
    // Do not trust a peer before a pending suspension takes effect.
    const quarantined = peer.spec.desiredState === 'suspended';
    try {
      await federations.keep(held, peerings.of(peer)?.bundle, quarantined);
    } catch (error) {
      // It changed in the meantime, which reconciles it again.
      if (hasCode(error, 'HANSA_CONFLICT')) return peers.get(name);
      // Only an operator can make room, so the status must say it.
      if (hasCode(error, 'HANSA_LIMIT')) await this.#waits(peer, 'FederationLimit', error.message);
      throw error;
    }
    const reason = 'the sites exchanged their bundles';
    return peers.step(name, 'enroll', reason, (status) =>
      withSteps(
        status,
        {
          enrol: { outcome: 'done', message: reason },
          grants: {
            outcome: 'skipped',
            message: 'a symmetric peer gets only the grants that operators create',
          },
        },
        clock.now(),
      ),
    );
  }

  /** The step `enrol` cannot be taken now. The site retries it when the obstacle changes. */
  #waits(peer: FederationPeer, cause: PeerCause, message: string) {
    const { peers, clock } = this.#parts;
    return peers.note(peer.metadata.name, (status) =>
      withSteps(
        because(status, cause, message),
        { enrol: { outcome: 'failed', message } },
        clock.now(),
      ),
    );
  }

  /** Takes the soft steps of an enrolled peer, once. Peers of earlier versions have no acceptance. */
  async complete(peer: FederationPeer): Promise<void> {
    const { acceptance, contractVersion } = peer.status ?? {};
    if (acceptance === undefined || acceptance.completedAt !== undefined) return;
    const { peers, peerings, softSteps, clock } = this.#parts;
    const outcomes = await runSoftSteps(softSteps, peer);
    const fromPeer = peerings.of(peer)?.warnings ?? [];
    const warnings = [...warningsOf(outcomes), ...fromPeer];
    await peers.record(
      peer,
      (status) =>
        isLive(status.state) &&
        status.acceptance !== undefined &&
        status.acceptance.completedAt === undefined
          ? completed(status, outcomes, fromPeer, clock.now())
          : status,
      {
        verb: 'federation.peer.accepted',
        reason: `accepted with contract version ${contractVersion ?? 1}${warnings.length === 0 ? '' : `; warnings: ${warnings.join('; ').slice(0, 500)}`}`,
      },
    );
  }

  /** Repeats the soft steps that are not done, on behalf of an operator. Keeps the warnings of the peer. */
  async retry(name: string, by: Requester): Promise<void> {
    const { peers, peerings, softSteps, clock } = this.#parts;
    const peer = await peers.get(name);
    if (peer === undefined)
      throw new HansaError('HANSA_NOT_FOUND', `Cannot retry: there is no peer ${name}.`);
    if (!isLive(peer.status?.state)) {
      throw peeringError(
        'HANSA_PEER_STATE',
        `Cannot retry the steps of ${name}: it is ${peer.status?.state ?? 'not a peer yet'}. Only an enrolled, active or degraded peer has soft steps.`,
      );
    }
    const outcomes = await runSoftSteps(softSteps, peer);
    const fromPeer = peerings.of(peer)?.warnings ?? [];
    const said = (['attach', 'governance'] as const).map(
      (step) => `${step} ${outcomes[step].outcome}`,
    );
    await peers.record(
      peer,
      (status) =>
        isLive(status.state) && status.acceptance !== undefined
          ? completed(status, outcomes, fromPeer, clock.now())
          : status,
      { verb: 'peer.retry', reason: `repeated the soft steps: ${said.join(', ')}` },
      { ...peeringWrites, ...by },
    );
  }
}

function agreedSteps({ contractVersion = 1 }: Peering): Parameters<typeof withSteps>[1] {
  return {
    contract: { outcome: 'done', message: `version ${contractVersion}` },
    invitation: { outcome: 'done' },
    accept: { outcome: 'done' },
  };
}

/** The step at which the inviting site rejected this site. */
function failedStep({ code, message }: NonNullable<AcceptanceRecord['failure']>) {
  const outcome: StepOutcome = { outcome: 'failed', message };
  if (code === 'HANSA_CONTRACT_VERSION') return { contract: outcome };
  return code === 'HANSA_TRUST_MATERIAL' ? { enrol: outcome } : { invitation: outcome };
}

type FollowedRecord = Peering & Partial<Redemption & AcceptanceRecord>;

function acceptedBecause(name: string, record: FollowedRecord): string {
  if (record.invitation !== undefined)
    return `${name} accepted the redemption of its invitation by this site`;
  return record.confirmation === undefined
    ? 'it redeemed its invitation'
    : 'an operator of this site confirmed it';
}

/** Why a site that redeemed is proposed. */
export function redeemedBecause({ confirmation }: Pick<Redemption, 'confirmation'>): string {
  return confirmation === undefined
    ? 'it redeemed its invitation'
    : `it needs confirmation, because ${confirmation}`;
}

/** Of the bundle of a site that redeemed, or of the keys that its invitation pins. */
function fingerprintIn({ fingerprint, keys = [] }: FollowedRecord): string {
  return fingerprint ?? fingerprintOf(keys.map((key) => Buffer.from(key, 'hex')));
}
