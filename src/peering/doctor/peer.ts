// The check of `hansa doctor --peer` for the state of the peer, with a remedy.

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
  // Omits the hint to run `hansa doctor`, because this is its output.
  const isUseful = hint !== '' && !hint.includes('hansa doctor');
  return { check: 'peer', level: 'warning', text, ...(isUseful ? { remedy: hint } : {}) };
}
