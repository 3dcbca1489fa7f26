// Reads and writes FederationPeers. Only this file changes the state of a peer, and only along the
// table of states. Every change is a compare-and-set, so that concurrent and repeated steps are safe.

import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { timestamp } from '../../api/object.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import type { Requester } from '../../core/access/audit-draft.ts';
import type { SpentApproval } from '../../core/approvals/approval-gate.ts';
import { findCondition, setCondition } from '../../core/reconcile/conditions.ts';
import type { ResourceClient, WriteAs } from '../../core/reconcile/resource-client.ts';
import type { Expectation } from '../../core/store/store.ts';
import type { Features } from '../features.ts';
import { because } from './peer-cause.ts';
import { checkReenrol } from './possible-step.ts';
import { reenrolling } from './reenrolled-status.ts';
import {
  initialState,
  isReenrolling,
  nextState,
  type PeerEvent,
  type PeerPosition,
  refuseStep,
} from './peer-states.ts';

export type PeerStatus = NonNullable<FederationPeer['status']>;

/** Delays the deletion of a peer until the site no longer trusts it. */
export const peerFinalizer = 'hansa.dev/peering';

/** Another site tried to redeem the invitation that made the peer. False once an operator confirmed the peer. */
export const contestCondition = 'InvitationContested';

export const peeringWrites: WriteAs = { controller: 'peering' };

export interface NewPeer {
  readonly name: string;
  readonly url: string;
  readonly role: 'inviter' | 'acceptor';
  readonly invitation: string;
  /** The uid of the revoked peer that it may replace. */
  readonly replaces: string | undefined;
  /** The uid of the peer that the same record created before. It never creates another one. */
  readonly madeUid: string | undefined;
  /**
   * Binds the record to the peer with this uid. Resolves to false if the record is closed or belongs
   * to another uid.
   */
  readonly bind: (uid: string) => Promise<boolean>;
  /** The crossing invitation that this one wins over. This one takes over its proposed peer. */
  readonly instead?: string | undefined;
  readonly fingerprint: string;
  readonly reason: string;
}

/** A peer starts over with new keys. It keeps its object, its grants and its history. */
export interface NewEnrolment {
  /** The peer and its enrolment that end. */
  readonly peer: FederationPeer;
  readonly role: 'inviter' | 'acceptor';
  readonly invitation: string;
  /** SHA-256, in hex, of keys that no longer count. */
  readonly lostKeys: readonly string[];
  readonly reason: string;
  /** The handshake record and whatever else changes in the same commit. */
  readonly also: NonNullable<WriteAs['also']>;
  readonly expect: readonly Expectation[];
}

/** Retries after a conflict. More conflicts in a row indicate a fault. */
const maxAttempts = 16;

export class PeerRepository {
  readonly #peers: ResourceClient<FederationPeer>;
  readonly #clock: Clock;

  constructor(peers: ResourceClient<FederationPeer>, clock: Clock) {
    this.#peers = peers;
    this.#clock = clock;
  }

  get(name: string): Promise<FederationPeer | undefined> {
    return this.#peers.get(name);
  }

  list(): Promise<readonly FederationPeer[]> {
    return this.#peers.list();
  }

  /**
   * Creates the peer of this invitation in the state proposed, or returns the existing one. Replaces
   * the revoked peer in `replaces`, and returns any other peer of this name unchanged. An object gets a
   * state only after the record is bound to its uid, so that no record can create a second peer.
   */
  async propose(peer: NewPeer): Promise<FederationPeer | undefined> {
    const { name, invitation, madeUid } = peer;
    let known = await this.#peers.get(name);
    if (madeUid !== undefined && known?.metadata.uid !== madeUid) return known;
    const { status } = known ?? {};
    if (
      known !== undefined &&
      status?.state === 'revoked' &&
      status.invitation !== invitation &&
      known.metadata.uid === peer.replaces
    ) {
      await this.#peers.delete(name, peeringWrites, { uid: known.metadata.uid });
      known = await this.#peers.get(name);
    }
    const isOpen = ({ status: now }: FederationPeer): boolean =>
      now?.state === undefined ||
      (now.state === 'proposed' &&
        now.role === 'acceptor' &&
        peer.instead !== undefined &&
        now.invitation === peer.instead);
    if (known !== undefined && !isOpen(known)) {
      // Binds records of earlier versions.
      if (known.status?.invitation === invitation && madeUid === undefined) {
        await peer.bind(known.metadata.uid);
      }
      return known;
    }
    const { uid } = (known ?? (await this.#create(peer)))?.metadata ?? {};
    if (uid === undefined || !(await peer.bind(uid))) return this.#peers.get(name);
    // An object from a manifest lacks our finalizer.
    await this.#peers.ensureFinalizer(name, peerFinalizer, peeringWrites);
    return this.#peers.patchStatus(
      name,
      (current) =>
        current.metadata.uid === uid &&
        current.metadata.deletionTimestamp === undefined &&
        isOpen(current)
          ? {
              ...positioned(
                current.status,
                { state: initialState },
                peer.reason,
                this.#clock.now(),
              ),
              role: peer.role,
              invitation,
              fingerprint: peer.fingerprint,
            }
          : (current.status ?? {}),
      peeringWrites,
      { verb: 'peer.propose', reason: `${initialState}: ${peer.reason}` },
    );
  }

  /** The new object, or the one that another process created in the meantime. */
  async #create({ name, url }: NewPeer): Promise<FederationPeer | undefined> {
    try {
      return await this.#peers.create(
        {
          name,
          spec: { url, desiredState: 'active', peerKind: 'platform', spawnRole: 'symmetric' },
          finalizers: [peerFinalizer],
        },
        peeringWrites,
      );
    } catch (error) {
      if (!hasCode(error, 'HANSA_ALREADY_EXISTS')) throw error;
      return this.#peers.get(name);
    }
  }

  /**
   * Takes a step of the table of states. Returns the peer unchanged if its state does not allow the
   * step, or if it is not `still` what the caller relies on.
   */
  async step(
    name: string,
    event: PeerEvent,
    reason: string,
    also: (status: PeerStatus) => PeerStatus = (status) => status,
    as: WriteAs = peeringWrites,
    isStill: (status: PeerStatus | undefined) => boolean = () => true,
  ): Promise<FederationPeer | undefined> {
    for (let attempt = 1; ; attempt++) {
      const peer = await this.#peers.get(name);
      const from = positionOf(peer);
      if (peer === undefined || from === undefined) return peer;
      const step = nextState(from, event);
      if (step === undefined || !isStill(peer.status)) return peer;
      const nowMs = this.#clock.now();
      const written = await this.#peers.patchStatus(
        name,
        (current) =>
          current.status?.state === from.state &&
          current.metadata.uid === peer.metadata.uid &&
          isStill(current.status)
            ? also(positioned(current.status, step.position, reason, nowMs))
            : (current.status ?? {}),
        as,
        { verb: step.verb, reason: `${from.state} → ${step.position.state}: ${reason}` },
      );
      const overtaken = written?.status?.state === from.state && step.position.state !== from.state;
      if (!overtaken && written?.status?.state === step.position.state) return written;
      if (written === undefined || attempt === maxAttempts) return written;
    }
  }

  /** Like `step`, on behalf of a caller. Throws HANSA_PEER_STATE if the state does not allow the step. */
  async demand(
    name: string,
    event: PeerEvent,
    reason: string,
    by: Requester,
    spent?: SpentApproval,
  ): Promise<FederationPeer | undefined> {
    const position = positionOf(await this.#peers.get(name));
    if (position !== undefined && nextState(position, event) === undefined) {
      throw refuseStep(name, position.state, event);
    }
    return this.step(name, event, reason, undefined, writesFor(by, spent));
  }

  /**
   * Takes the step `reenrol`, in one commit with the handshake record of the new enrolment. A peer that
   * already re-enrols gets another invitation and stays proposed. Throws HANSA_PEER_STATE if the state does
   * not allow it, and HANSA_CONFLICT if the peer changed in the meantime.
   */
  async reenrol(enrolment: NewEnrolment, by: Requester, spent?: SpentApproval): Promise<void> {
    const { peer, invitation, reason, also, expect } = enrolment;
    const { name, uid } = peer.metadata;
    const state = peer.status?.state ?? initialState;
    checkReenrol(peer);
    const before = peer.status?.reenrolments;
    const written = await this.#peers.patchStatus(
      name,
      (current) =>
        current.metadata.uid === uid &&
        current.metadata.deletionTimestamp === undefined &&
        current.status?.state === state &&
        current.status.reenrolments === before
          ? because(
              positioned(
                reenrolling(current.status, enrolment),
                { state: initialState },
                reason,
                this.#clock.now(),
              ),
              enrolment.role === 'inviter' ? 'WaitsForRedemption' : undefined,
              reason,
            )
          : (current.status ?? {}),
      { ...writesFor(by, spent), also, expect },
      { verb: 'peer.reenrol', reason: `${state} → ${initialState}: ${reason}` },
    );
    if (written?.status?.invitation === invitation) return;
    throw new HansaError(
      'HANSA_CONFLICT',
      `Cannot re-enrol ${name}: it changed in the meantime. Retry.`,
    );
  }

  /** What a re-enrolling peer told about itself: once, when its handshake record knows it. */
  async renew(
    peer: FederationPeer,
    told: { readonly url: string; readonly fingerprint: string; readonly reason?: string },
  ): Promise<FederationPeer | undefined> {
    const { name, uid } = peer.metadata;
    const { invitation } = peer.status ?? {};
    const isIt = ({ metadata, status }: FederationPeer): boolean =>
      metadata.uid === uid && isReenrolling(status) && status?.invitation === invitation;
    // Before the fingerprint, which marks that it is done.
    await this.#peers.patchSpec(
      name,
      (current) => (isIt(current) ? { ...current.spec, url: told.url } : current.spec),
      peeringWrites,
    );
    return this.note(name, (status) => {
      if (!isReenrolling(status) || status.invitation !== invitation) return status;
      const { fingerprint, reason } = told;
      const next = reason === undefined ? status : because(status, undefined, reason);
      return { ...next, fingerprint };
    });
  }

  /**
   * The handshake of a re-enrolling peer ended without success. The peer keeps its state, so that an
   * operator can invite it again. `expect` says what the caller relied on.
   */
  async letGo(
    peer: FederationPeer,
    reason: string,
    expect: readonly Expectation[] = [],
  ): Promise<FederationPeer | undefined> {
    const { invitation } = peer.status ?? {};
    if (!isReenrolling(peer.status) || invitation === undefined) return peer;
    return this.record(
      peer,
      (status) => {
        if (!isReenrolling(status) || status.invitation !== invitation) return status;
        const { invitation: _over, fingerprint: _unproven, acceptance: _none, ...rest } = status;
        return because(rest, 'NeedsInvitation', reason);
      },
      { verb: 'invitation.end', reason: `still ${initialState}: ${reason}` },
      { ...peeringWrites, expect },
    );
  }

  /** Changes the status without a change of state. Writes only if something changes. */
  note(
    name: string,
    change: (status: PeerStatus) => PeerStatus,
  ): Promise<FederationPeer | undefined> {
    return this.#peers.patchStatus(
      name,
      (current) =>
        current.status?.state === undefined ? (current.status ?? {}) : change(current.status),
      peeringWrites,
    );
  }

  /** Changes the status of this very peer without a change of state, with an audit record if it changed. */
  record(
    { metadata }: FederationPeer,
    change: (status: PeerStatus) => PeerStatus,
    transition: { readonly verb: string; readonly reason: string },
    as: WriteAs = peeringWrites,
  ): Promise<FederationPeer | undefined> {
    return this.#peers.patchStatus(
      metadata.name,
      (current) =>
        current.metadata.uid === metadata.uid && current.status?.state !== undefined
          ? change(current.status)
          : (current.status ?? {}),
      as,
      transition,
    );
  }

  /** Raises the alert once. Does not raise it again after an operator confirmed the peer. */
  async noteContest(name: string, invitation: string, message: string): Promise<void> {
    const { status } = (await this.#peers.get(name)) ?? {};
    if (
      status?.invitation !== invitation ||
      findCondition(status.conditions, contestCondition) !== undefined
    ) {
      return;
    }
    const raised = {
      type: contestCondition,
      status: 'True',
      reason: 'OtherKeys',
      message,
    } as const;
    await this.note(name, (current) =>
      current.invitation === invitation
        ? { ...current, conditions: setCondition(current.conditions, raised, this.#clock.now()) }
        : current,
    );
  }

  /** Ends the alert after an operator compared fingerprints. Resolves to whether there was an alert. */
  async dismissContest(name: string, by: Requester, spent?: SpentApproval): Promise<boolean> {
    const { status } = (await this.#peers.get(name)) ?? {};
    const raised = findCondition(status?.conditions, contestCondition);
    if (raised?.status !== 'True') return false;
    const dismissed = { ...raised, status: 'False', reason: 'Confirmed' } as const;
    await this.#peers.patchStatus(
      name,
      (current) => ({
        ...current.status,
        conditions: setCondition(current.status?.conditions, dismissed, this.#clock.now()),
      }),
      writesFor(by, spent),
      {
        verb: 'peer.confirm',
        reason: `confirmed, with the fingerprint ${status?.fingerprint ?? 'unknown'}, although another site tried to redeem its invitation`,
      },
    );
    return true;
  }

  /** Restores our finalizer if it was removed from a peer that is not revoked. Resolves to the peer with it. */
  async hold(peer: FederationPeer): Promise<FederationPeer> {
    const { name, finalizers } = peer.metadata;
    if (finalizers?.includes(peerFinalizer) === true) return peer;
    return (await this.#peers.ensureFinalizer(name, peerFinalizer, peeringWrites)) ?? peer;
  }

  release(name: string): Promise<FederationPeer | undefined> {
    return this.#peers.removeFinalizer(name, peerFinalizer, peeringWrites);
  }
}

/** On behalf of a caller, with the Approval that the write spends. */
function writesFor(by: Requester, spent: SpentApproval | undefined): WriteAs {
  return { ...peeringWrites, ...by, ...(spent === undefined ? {} : { spent }) };
}

/** Undefined if the object has no state, because no invitation was redeemed for it. */
export function positionOf(peer: FederationPeer | undefined): PeerPosition | undefined {
  const status = peer?.status;
  if (status?.state === undefined) return undefined;
  return {
    state: status.state,
    ...(status.stateBefore === undefined ? {} : { stateBefore: status.stateBefore }),
  };
}

function positioned(
  status: PeerStatus | undefined,
  position: PeerPosition,
  reason: string,
  nowMs: number,
): PeerStatus {
  const { stateBefore: _before, cause: _cause, ...rest } = status ?? {};
  const ready = position.state === 'active';
  return {
    ...rest,
    ...position,
    since: timestamp(nowMs),
    reason,
    conditions: setCondition(
      rest.conditions,
      {
        type: 'Ready',
        status: ready ? 'True' : 'False',
        reason: position.state.charAt(0).toUpperCase() + position.state.slice(1),
        message: reason,
      },
      nowMs,
    ),
  };
}

export const peersCollection = federationPeerKind.plural;

/** What the handshake agreed on counts from then on, whatever a heartbeat says. */
export function agreedOn({
  contractVersion,
  features,
}: {
  readonly contractVersion?: number;
  readonly features?: Features;
}): (status: PeerStatus) => PeerStatus {
  return (status) => ({
    ...status,
    ...(contractVersion === undefined ? {} : { contractVersion }),
    ...features,
  });
}
