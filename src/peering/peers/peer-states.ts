// The states of a peer and every way between them, as one value. Nobody changes the state of a peer
// but through `nextState`; each change has the verb under which the audit log tells of it.

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
  | 'revoke';

/** States from which a peer can be suspended, and to which it returns. */
export type SuspendableState = 'enrolled' | 'active' | 'degraded';

export interface PeerTransition {
  readonly event: PeerEvent;
  readonly from: PeerState;
  /** Where a suspended peer goes on: the one of these that it was in. */
  readonly to: PeerState | 'state before';
  readonly verb: `peer.${string}`;
}

export const initialState: PeerState = 'proposed';

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
  { event: 'revoke', from: 'proposed', to: 'revoked', verb: 'peer.revoke' },
  { event: 'revoke', from: 'accepted', to: 'revoked', verb: 'peer.revoke' },
  { event: 'revoke', from: 'enrolled', to: 'revoked', verb: 'peer.revoke' },
  { event: 'revoke', from: 'active', to: 'revoked', verb: 'peer.revoke' },
  { event: 'revoke', from: 'degraded', to: 'revoked', verb: 'peer.revoke' },
  { event: 'revoke', from: 'suspended', to: 'revoked', verb: 'peer.revoke' },
];

export interface PeerPosition {
  readonly state: PeerState;
  /** While suspended. */
  readonly stateBefore?: SuspendableState;
}

export interface PeerStep {
  readonly position: PeerPosition;
  readonly verb: string;
}

/** Undefined where the table has no such step. */
export function nextState(position: PeerPosition, event: PeerEvent): PeerStep | undefined {
  const found = peerTransitions.find((row) => row.event === event && row.from === position.state);
  if (found === undefined) return undefined;
  // A record without the state before is of no version of this table: it starts over as enrolled.
  const state = found.to === 'state before' ? (position.stateBefore ?? 'enrolled') : found.to;
  const before =
    state === 'suspended' ? { stateBefore: position.state as SuspendableState } : undefined;
  return { position: { state, ...before }, verb: found.verb };
}

export function refuseStep(name: string, state: PeerState, event: PeerEvent): HansaError {
  const possible = peerTransitions
    .filter(({ from }) => from === state)
    .map((row) => row.event)
    .join(', ');
  return peeringError(
    'HANSA_PEER_STATE',
    `Cannot ${event} ${name}: it is ${state}. ${possible === '' ? 'Exchange a new invitation to make it a peer again.' : `Possible now: ${possible}.`}`,
  );
}

/** States in which the peer's bundle is believed, and heartbeats go both ways. */
export function isLive(state: PeerState | undefined): state is SuspendableState {
  return state === 'enrolled' || state === 'active' || state === 'degraded';
}
