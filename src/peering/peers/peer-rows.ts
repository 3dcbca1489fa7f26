// Formats peers as table rows and lines of text. Pure.

import { humanDuration } from '../../api/values/duration.ts';
import type { PeerSummary } from '../routes/operator-routes.ts';
import { peerHint } from './peer-hints.ts';
import { capabilitiesText, clockText, reportLines } from './report-summary.ts';

export function peerHeadings(wide = false): readonly string[] {
  const more = wide ? ['URL', 'INVITED BY', 'CLOCK', 'CAPABILITIES'] : [];
  return ['PEER', 'STATE', 'SINCE', 'BUNDLE', 'LAST SEEN', ...more, 'WHY'];
}

export function peerCells(peer: PeerSummary, nowMs: number, wide = false): readonly string[] {
  return [
    peer.name,
    peer.state,
    ageOf(peer.since, nowMs),
    bundleText(peer, nowMs),
    ageOf(peer.lastSeen, nowMs),
    ...(wide
      ? [
          peer.url ?? '',
          peer.role === 'inviter' ? 'this site' : 'the peer',
          clockText(peer),
          capabilitiesText(peer),
        ]
      : []),
    whyText(peer),
  ];
}

/** Omits the reason of an active peer. Always shows an alert, whose full text is in `peer show`. */
function whyText({ state, reason, alert }: PeerSummary): string {
  const alarm = alert === undefined ? [] : ['another site tried to redeem its invitation'];
  const why = state === 'active' || reason === undefined ? [] : [reason];
  return [...alarm, ...why].join('; ');
}

export function peerLines(peer: PeerSummary, nowMs: number): readonly (readonly string[])[] {
  const hint = peerHint(peer);
  const { clusters = [] } = peer;
  const offers = peer.offers.map(
    ({ name, grantedTo }) =>
      `${name} (to ${grantedTo.map((id) => (id === '*' ? 'all' : id)).join(', ')})`,
  );
  return [
    ['peer', peer.name],
    ['state', `${peer.state}, since ${peer.since ?? 'unknown'}`],
    ['why', peer.reason ?? ''],
    ...(peer.alert === undefined ? [] : [['alert', peer.alert]]),
    ...(peer.enforcement === undefined ? [] : [['enforced by', enforcementText(peer.enforcement)]]),
    ...(hint === '' ? [] : [['what to do', hint]]),
    ['url', peer.url],
    ['role', peer.role === 'inviter' ? 'this site invited it' : 'it invited this site'],
    ['last seen', ageOf(peer.lastSeen, nowMs)],
    ['bundle', bundleText(peer, nowMs)],
    ['fingerprint', peer.fingerprint ?? ''],
    ...(peer.reenrolments === undefined
      ? []
      : [['re-enrolled', `${peer.reenrolments} ${peer.reenrolments === 1 ? 'time' : 'times'}`]]),
    ['contract', peer.contractVersion === undefined ? '' : `version ${peer.contractVersion}`],
    ...reportLines(peer),
    ...acceptanceRows(peer),
    ['offers to us', offers.length === 0 ? 'none' : offers.join('; ')],
    ...(clusters.length === 0 ? [] : [['clusters for us', clusters.join(', ')]]),
  ];
}

/** The steps that did not succeed, and warnings. */
function acceptanceRows({ acceptance }: PeerSummary): readonly (readonly string[])[] {
  const left = (acceptance?.steps ?? []).filter(({ outcome }) => outcome !== 'done');
  const words = left.map(
    ({ step, outcome, message }) =>
      `${step} ${outcome}${message === undefined ? '' : `: ${message}`}`,
  );
  return [
    ...(words.length === 0 ? [] : [['steps', words.join('; ')]]),
    ...(acceptance?.warnings ?? []).map((warning) => ['warning', warning]),
  ];
}

/** Most rows that are shown one by one. */
const mostShown = 16;

function enforcementText(rows: NonNullable<PeerSummary['enforcement']>): string {
  const pending = rows.filter(({ state }) => state === 'pending');
  const enforced = rows.filter(({ state }) => state === 'enforced');
  const room = Math.max(mostShown - pending.length, 0);
  const count = enforced.length > room ? [`${enforced.length} enforced`] : [];
  const shown = [...pending.slice(0, mostShown), ...(count.length === 0 ? enforced : [])];
  const more = pending.length - mostShown;
  return [
    ...shown
      .toSorted((a, b) => (a.point < b.point ? -1 : 1))
      .map(({ point, state, since, message }) => {
        const name = message === undefined ? point : `${point}: ${message}`;
        return state === 'enforced' ? `${name} since ${since}` : `${name} (pending since ${since})`;
      }),
    ...(more > 0 ? [`${more} more pending`] : []),
    ...count,
  ].join('; ');
}

function bundleText({ bundle }: PeerSummary, nowMs: number): string {
  if (bundle === undefined) return 'none';
  const age = bundle.syncedAt === undefined ? '' : ` (${ageOf(bundle.syncedAt, nowMs)})`;
  if (bundle.fresh) return `fresh${age}`;
  const leftMs = bundle.staleAt === undefined ? 0 : Date.parse(bundle.staleAt) - nowMs;
  return leftMs > 0 ? `stale in ${humanDuration(leftMs)}` : `stale${age}`;
}

function ageOf(at: string | undefined, nowMs: number): string {
  return at === undefined ? '' : humanDuration(nowMs - Date.parse(at));
}

/** The effect of a revocation, for the confirmation prompt. */
export function revocationEffect(names: readonly string[]): string {
  const whose = names.length === 1 ? 'Its workloads' : `The workloads of ${names.join(', ')}`;
  return `${whose} and yours immediately stop trusting each other.`;
}
