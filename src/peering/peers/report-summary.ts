// What a peer reported about itself, as users see it: its clock and its capabilities. Pure.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { findCondition } from '../../core/reconcile/conditions.ts';
import { clockCondition, skewText } from './clock-skew.ts';
import { driftOf, driftText, type FeatureDrift } from './feature-drift.ts';

type PeerStatus = NonNullable<FederationPeer['status']>;

/** Part of the summary of a peer. */
export interface ReportSummary {
  /** Absent where the peer does not report its clock. */
  readonly clock?: NonNullable<PeerStatus['clock']> & { readonly tooFar: boolean };
  /** What the handshake agreed on. */
  readonly capabilities?: readonly string[];
  readonly extensionSlugs?: readonly string[];
  /** How the report of the peer differs from that. */
  readonly drift?: FeatureDrift;
}

export function reportSummary(status: PeerStatus | undefined): ReportSummary {
  if (status === undefined) return {};
  const { clock, capabilities, extensionSlugs, reported, conditions } = status;
  const tooFar = findCondition(conditions, clockCondition)?.status === 'False';
  const drift = driftOf(status, reported);
  return {
    ...(clock && { clock: { ...clock, tooFar } }),
    ...(capabilities && { capabilities }),
    ...(extensionSlugs && { extensionSlugs }),
    ...(drift && { drift }),
  };
}

export function clockText({ clock }: ReportSummary): string {
  if (clock === undefined) return '';
  const { skewMilliseconds: skewMs, uncertaintyMilliseconds: uncertaintyMs } = clock;
  const text = skewText({ skewMs, uncertaintyMs });
  return clock.tooFar ? `${text} (too far)` : text;
}

/** Short, for a table. */
export function capabilitiesText({ capabilities, drift }: ReportSummary): string {
  if (drift !== undefined) {
    const { lost, gained } = drift;
    return [
      ...(lost.length === 0 ? [] : [`lost ${lost.length}`]),
      ...(gained.length === 0 ? [] : [`${gained.length} not agreed`]),
    ].join(', ');
  }
  return capabilities === undefined ? '' : 'as agreed';
}

export function reportLines(peer: ReportSummary): readonly (readonly string[])[] {
  const { capabilities, extensionSlugs = [], drift } = peer;
  return [
    ...(peer.clock === undefined ? [] : [['clock', clockText(peer)]]),
    ...(capabilities === undefined ? [] : [['capabilities', capabilities.join(', ') || 'none']]),
    ...(extensionSlugs.length === 0 ? [] : [['extensions', extensionSlugs.join(', ')]]),
    ...(drift === undefined ? [] : [['reported', driftText(drift)]]),
  ];
}

/** What the operator of this site can do about a report. Empty if there is nothing to do. */
export function reportHint(peer: ReportSummary & { readonly name: string }): string {
  const hints: string[] = [];
  if (peer.clock?.tooFar === true) {
    hints.push(
      `The clock of ${peer.name} is ${skewText({ skewMs: peer.clock.skewMilliseconds, uncertaintyMs: peer.clock.uncertaintyMilliseconds })}: check the time synchronization (NTP) of both sites, for example with timedatectl.`,
    );
  }
  if (peer.drift !== undefined && peer.drift.lost.length > 0) {
    hints.push(
      `${driftText({ ...peer.drift, gained: [] })} Ask the operator of ${peer.name} whether it runs an older version.`,
    );
  }
  return hints.join(' ');
}
