// The states of a peering and all transitions between them, as one table. The records of the handshake
// and the FederationPeer both follow it: a record has the states of a handshake, and the peer follows
// its record. Every state change goes through `nextState`. Each transition has the verb of its audit
// record.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { HansaError } from '../../core/errors/error.ts';
import { peeringError } from '../errors.ts';

export type PeerState =
  | 'proposed'
  | 'accepted'
  | 'enrolled'
  | 'active'
  | 'degraded'
  | 'suspended'
  | 'revoked';

export type PeerEvent =
  | 'accept'
  | 'enroll'
  | 'activate'
  | 'degrade'
  | 'recover'
  | 'suspend'
  | 'resume'
  | 'reenrol'
  | 'revoke';

/** The states in which a peer can be suspended, and to which it returns. */
export type SuspendableState = 'enrolled' | 'active' | 'degraded';

/**
 * The states of a handshake record. proposed: not redeemed or not confirmed. accepted: both sites
 * agreed. revoked: rejected, given up, or its peer was revoked.
 */
export type HandshakeState = 'proposed' | 'accepted' | 'revoked';

export interface PeerTransition {
  readonly event: PeerEvent;
  readonly from: PeerState;
  /** `state before`: the state that the peer had before it was suspended. */
  readonly to: PeerState | 'state before';
  readonly verb: `peer.${string}`;
}

export const initialState = 'proposed';

export const peerTransitions: readonly PeerTransition[] = [
  { event: 'accept', from: 'proposed', to: 'accepted', verb: 'peer.accept' },
  { event: 'enroll', from: 'accepted', to: 'enrolled', verb: 'peer.enroll' },
  { event: 'activate', from: 'enrolled', to: 'active', verb: 'peer.activate' },
  { event: 'degrade', from: 'active', to: 'degraded', verb: 'peer.degrade' },
  { event: 'recover', from: 'degraded', to: 'active', verb: 'peer.recover' },
  { event: 'suspend', from: 'enrolled', to: 'suspended', verb: 'peer.suspend' },
  { event: 'suspend', from: 'active', to: 'suspended', verb: 'peer.suspend' },
  { event: 'suspend', from: 'degraded', to: 'suspended', verb: 'peer.suspend' },
  { event: 'resume', from: 'suspended', to: 'state before', verb: 'peer.resume' },
  // Its known keys are all lost, so it starts over with a fresh invitation. Only an enrolled peer has something to keep.
  { event: 'reenrol', from: 'enrolled', to: 'proposed', verb: 'peer.reenrol' },
  { event: 'reenrol', from: 'active', to: 'proposed', verb: 'peer.reenrol' },
  { event: 'reenrol', from: 'degraded', to: 'proposed', verb: 'peer.reenrol' },
  { event: 'reenrol', from: 'suspended', to: 'proposed', verb: 'peer.reenrol' },
  { event: 'revoke', from: 'proposed', to: 'revoked', verb: 'peer.revoke' },
  { event: 'revoke', from: 'accepted', to: 'revoked', verb: 'peer.revoke' },
  { event: 'revoke', from: 'enrolled', to: 'revoked', verb: 'peer.revoke' },
  { event: 'revoke', from: 'active', to: 'revoked', verb: 'peer.revoke' },
  { event: 'revoke', from: 'degraded', to: 'revoked', verb: 'peer.revoke' },
  { event: 'revoke', from: 'suspended', to: 'revoked', verb: 'peer.revoke' },
];

export interface PeerPosition {
  readonly state: PeerState;
  /** Set while the peer is suspended. */
  readonly stateBefore?: SuspendableState;
}

export interface PeerStep {
  readonly position: PeerPosition;
  readonly verb: string;
}

/** Undefined if the table has no such transition. */
export function nextState(position: PeerPosition, event: PeerEvent): PeerStep | undefined {
  const found = peerTransitions.find((row) => row.event === event && row.from === position.state);
  if (found === undefined) return undefined;
  // `stateBefore` is always set while suspended. If it is missing, the peer continues as enrolled.
  const state = found.to === 'state before' ? (position.stateBefore ?? 'enrolled') : found.to;
  const before =
    state === 'suspended' ? { stateBefore: position.state as SuspendableState } : undefined;
  return { position: { state, ...before }, verb: found.verb };
}

/** The state of a handshake record after an event, or undefined if the table has no such transition. */
export function nextHandshakeState(
  state: HandshakeState,
  event: 'accept' | 'revoke',
): HandshakeState | undefined {
  return nextState({ state }, event)?.position.state as HandshakeState | undefined;
}

/** The step with which a peer follows its handshake record. Undefined if it has followed it. */
export function followingStep(
  state: PeerState,
  record: HandshakeState,
): 'accept' | 'revoke' | undefined {
  if (record === 'accepted' && state === 'proposed') return 'accept';
  return record === 'revoked' && state !== 'revoked' ? 'revoke' : undefined;
}

/** The site takes the others by itself. */
const stepsOfOperators: readonly PeerEvent[] = ['suspend', 'resume', 'reenrol', 'revoke'];

export function refuseStep(name: string, state: PeerState, event: PeerEvent): HansaError {
  const possible = peerTransitions
    .filter((row) => row.from === state && stepsOfOperators.includes(row.event))
    .map((row) => row.event)
    .join(', ');
  return peeringError(
    'HANSA_PEER_STATE',
    `Cannot ${event} ${name}: it is ${state}. ${possible === '' ? 'To make it a peer again, exchange a new invitation.' : `Possible now: ${possible}. To see what to do: hansa peer show ${name}`}`,
  );
}

/** Whether the peer starts over: it was enrolled before, and no handshake has succeeded since. */
export function isReenrolling(
  status: Pick<NonNullable<FederationPeer['status']>, 'state' | 'reenrolments'> | undefined,
): boolean {
  return status?.state === initialState && status.reenrolments !== undefined;
}

/**
 * Why this site does not exchange messages with the peer, as its state; undefined if it does. A wish of an
 * operator counts at once, before the state follows it.
 */
export function distrustOf({
  metadata,
  spec,
  status,
}: Pick<FederationPeer, 'metadata' | 'spec' | 'status'>): string | undefined {
  if (metadata.deletionTimestamp !== undefined) return 'being deleted';
  if (!isLive(status?.state)) return status?.state ?? 'not enrolled';
  return spec.desiredState === 'suspended' ? 'suspended' : undefined;
}

/** Whether the site trusts the peer's bundle and exchanges heartbeats with it. */
export function isLive(state: PeerState | undefined): state is SuspendableState {
  return state === 'enrolled' || state === 'active' || state === 'degraded';
}
