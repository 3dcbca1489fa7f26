// The checks of `hansa doctor --peer` for the state of the peer and for what it reports, with remedies.

import {
  type Finding,
  ok,
  peerSubject,
  type SubjectCheck,
  warning,
} from '../../core/plane/doctor.ts';
import { listPeers } from '../client/peers.ts';
import type { PeerSummary } from '../routes/operator-routes.ts';
import { driftText } from '../peers/feature-drift.ts';
import { peerHint } from '../peers/peer-hints.ts';
import { clockText, reportHint } from '../peers/report-summary.ts';

export const peerCheck: SubjectCheck = {
  subject: peerSubject,
  name: 'peer',
  what: 'peer',
  listedBy: 'hansa peer list',
  run: async ({ client }, name) => {
    const peer = (await listPeers(client)).find((known) => known.name === name);
    return peer === undefined ? undefined : [judgePeer(peer), ...judgeReports(peer)];
  },
};

/** The clock and the capabilities of the peer, where it reports them. */
export function judgeReports(
  peer: Pick<PeerSummary, 'name' | 'clock' | 'capabilities' | 'drift'>,
): readonly Finding[] {
  const { name, clock, capabilities, drift } = peer;
  const findings: Finding[] = [];
  if (clock !== undefined) {
    const text = clockText(peer);
    const remedy = reportHint({ name, clock });
    findings.push(clock.tooFar ? warning('clock', text, remedy) : ok('clock', text));
  }
  if (drift !== undefined) {
    const text = driftText(drift);
    const remedy = `Ask the operator of ${name} whether it runs an older version.`;
    findings.push(
      drift.lost.length > 0 ? warning('capabilities', text, remedy) : ok('capabilities', text),
    );
  } else if (capabilities !== undefined) findings.push(ok('capabilities', 'as agreed'));
  return findings;
}

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
