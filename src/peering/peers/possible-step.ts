// Rejects a step that the state of a peer does not allow, before anything is written. Pure.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import {
  initialState,
  isLive,
  isReenrolling,
  nextState,
  type PeerEvent,
  type PeerState,
  refuseStep,
} from './peer-states.ts';

type Stated = Pick<NonNullable<FederationPeer['status']>, 'reenrolments'> & {
  readonly name: string;
  readonly state: string;
};

/** For commands. The site itself would store the wish to suspend or resume and wait. */
export function checkStep(peer: Stated, event: PeerEvent): void {
  const state = peer.state as PeerState;
  if (event === 'suspend' && state === 'suspended') return;
  if (event === 'resume' && isLive(state)) return;
  // Another invitation for a peer that starts over already.
  if (event === 'reenrol' && isReenrolling({ ...peer, state })) return;
  if (nextState({ state }, event) === undefined) throw refuseStep(peer.name, state, event);
}

/** Throws HANSA_PEER_STATE unless the peer can start over with new keys. */
export function checkReenrol({ metadata, status }: FederationPeer): void {
  checkStep({ ...status, name: metadata.name, state: status?.state ?? initialState }, 'reenrol');
}
