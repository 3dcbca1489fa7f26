// The peers as resources: the one place that changes the state of a FederationPeer, and only along
// the table. Every change is compare-and-set on the object as it is, so it does not matter how many
// try the same step, or how often.

import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { timestamp } from '../../api/object.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { Requester } from '../../core/access/audit-draft.ts';
import { findCondition, setCondition } from '../../core/reconcile/conditions.ts';
import type { ResourceClient, WriteAs } from '../../core/reconcile/resource-client.ts';
import {
  initialState,
  nextState,
  type PeerEvent,
  type PeerPosition,
  refuseStep,
} from './peer-states.ts';

export type PeerStatus = NonNullable<FederationPeer['status']>;

/** Holds a peer back from disappearing until nothing of it is trusted any more. */
export const peerFinalizer = 'hansa.dev/peering';

/** Another site tried to redeem the invitation that made the peer. False once an operator confirmed the peer. */
export const contestCondition = 'InvitationContested';

export const peeringWrites: WriteAs = { controller: 'peering' };

export interface NewPeer {
  readonly name: string;
  readonly url: string;
  readonly role: 'inviter' | 'acceptor';
  readonly invitation: string;
  /** The uid of the revoked peer whose place it may take. */
  readonly replaces: string | undefined;
  /** The uid of the peer that the same record made before: it makes no other. */
  readonly madeUid: string | undefined;
  /**
   * Writes into the record that it makes the peer with this uid. Resolves to false where the record
   * is closed or belongs to another uid.
   */
  readonly bind: (uid: string) => Promise<boolean>;
  /** The crossing invitation that this one stands over: its peer, still proposed, becomes this one's. */
  readonly instead?: string | undefined;
  readonly fingerprint: string;
  readonly reason: string;
}

/** A status that was overtaken is looked at again; more often than this only where something is ill. */
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
   * The peer of this invitation, proposed where it is new. The revoked one that it was meant to
   * replace makes room; any other of this name stays as it is and is returned. An object gets a
   * state only after the record is bound to its uid, so that no record can make a second peer.
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
      (now.state === 'proposed' && now.role === 'acceptor' && now.invitation === peer.instead);
    if (known !== undefined && !isOpen(known)) {
      // Records of earlier versions are not bound yet.
      if (known.status?.invitation === invitation && madeUid === undefined) {
        await peer.bind(known.metadata.uid);
      }
      return known;
    }
    const { uid } = (known ?? (await this.#create(peer)))?.metadata ?? {};
    if (uid === undefined || !(await peer.bind(uid))) return this.#peers.get(name);
    // An object that was declared by a manifest has no finalizer of ours.
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

  /** The new object, or the one that another process made meanwhile. */
  async #create({ name, url }: NewPeer): Promise<FederationPeer | undefined> {
    try {
      return await this.#peers.create(
        { name, spec: { url, desiredState: 'active' }, finalizers: [peerFinalizer] },
        peeringWrites,
      );
    } catch (error) {
      if (!hasCode(error, 'HANSA_ALREADY_EXISTS')) throw error;
      return this.#peers.get(name);
    }
  }

  /**
   * Takes a step of the table. Where the table has none from the state that the peer is in, nothing
   * happens and the peer is returned as it is.
   */
  async step(
    name: string,
    event: PeerEvent,
    reason: string,
    also: (status: PeerStatus) => PeerStatus = (status) => status,
    as: WriteAs = peeringWrites,
  ): Promise<FederationPeer | undefined> {
    for (let attempt = 1; ; attempt++) {
      const peer = await this.#peers.get(name);
      const from = positionOf(peer);
      if (peer === undefined || from === undefined) return peer;
      const step = nextState(from, event);
      if (step === undefined) return peer;
      const nowMs = this.#clock.now();
      const written = await this.#peers.patchStatus(
        name,
        (current) =>
          current.status?.state === from.state && current.metadata.uid === peer.metadata.uid
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

  /** Like `step` for a caller, but HANSA_PEER_STATE where the table has none. */
  async demand(
    name: string,
    event: PeerEvent,
    reason: string,
    by: Requester,
  ): Promise<FederationPeer | undefined> {
    const position = positionOf(await this.#peers.get(name));
    if (position !== undefined && nextState(position, event) === undefined) {
      throw refuseStep(name, position.state, event);
    }
    return this.step(name, event, reason, undefined, { ...peeringWrites, ...by });
  }

  /** What changes without a change of state. Nothing is written where nothing changes. */
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

  /** Raises the alert once: where an operator has confirmed the peer since, it stays so. */
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

  /** An operator has compared fingerprints and keeps this peer. Resolves to whether there was an alert. */
  async dismissContest(name: string, by: Requester): Promise<boolean> {
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
      { ...peeringWrites, ...by },
      {
        verb: 'peer.confirm',
        reason: `confirmed, with the fingerprint ${status?.fingerprint ?? 'unknown'}, although another site had tried its invitation`,
      },
    );
    return true;
  }

  /** Our finalizer is back where it was removed from a peer that is not revoked. */
  async hold({ metadata }: FederationPeer): Promise<void> {
    if (metadata.finalizers?.includes(peerFinalizer) === true) return;
    await this.#peers.ensureFinalizer(metadata.name, peerFinalizer, peeringWrites);
  }

  release(name: string): Promise<FederationPeer | undefined> {
    return this.#peers.removeFinalizer(name, peerFinalizer, peeringWrites);
  }
}

/** Undefined where the object is no peer (yet): nobody invited it. */
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
