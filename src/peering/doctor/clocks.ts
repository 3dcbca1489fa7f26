// The check of `hansa doctor` for the clock of this site: it compares it with the clocks of all peers. It
// only reports. The site never sets its clock by what peers claim.

import { type Finding, ok, type SiteCheck, warning } from '../../core/plane/doctor.ts';
import { listPeers } from '../client/peers.ts';
import { clockText } from '../peers/report-summary.ts';
import type { PeerSummary } from '../routes/operator-routes.ts';

const check = 'peer clocks';
/** More would hide the other findings; `hansa peer list -o wide` has them all. */
const maxTold = 5;

export const clocksCheck: SiteCheck = {
  name: check,
  follows: 'clock',
  run: async ({ client, running }) => (running ? judgeClocks(await listPeers(client)) : []),
};

/** Nothing if no peer reports its clock. */
export function judgeClocks(
  peers: readonly Pick<PeerSummary, 'name' | 'clock'>[],
): readonly Finding[] {
  const measured = peers.flatMap((peer) =>
    peer.clock === undefined ? [] : [{ ...peer, skewMs: peer.clock.skewMilliseconds }],
  );
  if (measured.length === 0) return [];
  const far = measured.filter(({ clock }) => clock?.tooFar === true);
  if (far.length === 0) {
    const count = measured.length === 1 ? '1 peer' : `${measured.length} peers`;
    return [ok(check, `in sync with ${count}`)];
  }
  const told = far.slice(0, maxTold).map((peer) => `${peer.name} ${clockText(peer)}`);
  const more = far.length > maxTold ? [`and ${far.length - maxTold} more`] : [];
  return [warning(check, [...told, ...more].join('; '), remedyFor(far, measured.length))];
}

/** If most peers are off in the same direction, the clock of this site is probably the wrong one. */
function remedyFor(
  far: readonly { readonly name: string; readonly skewMs: number }[],
  measured: number,
): string {
  const ahead = far.filter(({ skewMs }) => skewMs > 0).length;
  const oneWay = Math.max(ahead, far.length - ahead);
  if (measured > 1 && oneWay * 2 > measured) {
    const direction = ahead === oneWay ? 'behind' : 'ahead of';
    return `The clock of this site is ${direction} most of its peers, so it is probably wrong. Check its time synchronization (NTP), for example with timedatectl.`;
  }
  return 'Check the time synchronization (NTP) of this site and of these peers, for example with timedatectl.';
}
