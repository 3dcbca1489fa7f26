// What `hansa doctor --peer` says about the state of a peer, and what to do about it.

import { type Finding, ok, peerSubject, type SubjectCheck } from '../../core/plane/doctor.ts';
import { listPeers } from '../client/peers.ts';
import type { PeerSummary } from '../routes/operator-routes.ts';
import { peerHint } from '../peers/peer-hints.ts';

export const peerCheck: SubjectCheck = {
  subject: peerSubject,
  name: 'peer',
  what: 'peer',
  listedBy: 'hansa peer list',
  run: async ({ client }, name) => {
    const peer = (await listPeers(client)).find((known) => known.name === name);
    return peer === undefined ? undefined : [judgePeer(peer)];
  },
};

export function judgePeer(
  peer: Pick<PeerSummary, 'name' | 'state' | 'since' | 'reason' | 'role' | 'cause' | 'alert'>,
): Finding {
  const { state, since, reason = '' } = peer;
  const told = `${state}${since === undefined ? '' : ` since ${since}`}`;
  if (state === 'active') return ok('peer', told);
  const text = reason === '' ? told : `${told}: ${reason}`;
  const hint = peerHint(peer);
  // The steps below tell why a peer cannot be reached: the advice to run this very command does not help.
  const isUseful = hint !== '' && !hint.includes('hansa doctor');
  return { check: 'peer', level: 'warning', text, ...(isUseful ? { remedy: hint } : {}) };
}
