// Compares the features that a peer reports now with those that the handshake agreed on. What was agreed
// stays: a report takes nothing away and adds nothing, it is only shown. Pure.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import type { Condition } from '../../api/object.ts';
import { setCondition } from '../../core/reconcile/conditions.ts';
import { effectOfLoss, type FeatureNames, ownCapabilities } from '../features.ts';

type PeerStatus = NonNullable<FederationPeer['status']>;

export const capabilitiesCondition = 'CapabilitiesAgreed';

export interface FeatureDrift {
  /** Agreed on, and no longer reported. */
  readonly lost: readonly string[];
  /** Both sites have them now, and did not agree on them. */
  readonly gained: readonly string[];
}

/**
 * The drift of a peer as stored. Undefined if there is none. The names of extension slugs have the prefix
 * `extension/`, so that they cannot be taken for capabilities.
 */
export function driftOf(
  { capabilities, extensionSlugs = [] }: Pick<PeerStatus, 'capabilities' | 'extensionSlugs'>,
  reported: FeatureNames | undefined,
): FeatureDrift | undefined {
  // A peer of an earlier version agreed on nothing.
  if (capabilities === undefined || reported === undefined) return undefined;
  const slugs = (names: readonly string[]): string[] => names.map((each) => `extension/${each}`);
  const lost = [
    ...without(capabilities, reported.capabilities),
    ...slugs(without(extensionSlugs, reported.extensionSlugs)),
  ];
  const usable = reported.capabilities.filter((each) => ownCapabilities.includes(each));
  const gained = [
    ...without(usable, capabilities),
    ...slugs(without(reported.extensionSlugs, extensionSlugs)),
  ];
  return lost.length === 0 && gained.length === 0 ? undefined : { lost, gained };
}

/** The status with what the peer reports. Stores the report only where it differs from what was agreed. */
export function withReport(status: PeerStatus, reported: FeatureNames, nowMs: number): PeerStatus {
  if (status.capabilities === undefined) return status;
  const { reported: _before, ...rest } = status;
  const drift = driftOf(status, reported);
  return {
    ...rest,
    ...(drift && { reported: sorted(reported) }),
    conditions: setCondition(
      status.conditions,
      { type: capabilitiesCondition, ...judged(drift) },
      nowMs,
    ),
  };
}

function judged(drift: FeatureDrift | undefined): Pick<Condition, 'status' | 'reason' | 'message'> {
  if (drift === undefined) {
    return {
      status: 'True',
      reason: 'AsAgreed',
      message: 'The peer reports the capabilities that the sites agreed on.',
    };
  }
  return {
    status: 'False',
    reason: drift.lost.length > 0 ? 'Lost' : 'Gained',
    message: driftText(drift),
  };
}

/** What the peer lost, with the effects, and what it has in addition. */
export function driftText({ lost, gained }: FeatureDrift): string {
  const effects = lost.flatMap((each) => effectOfLoss(each) ?? []);
  return [
    ...(lost.length === 0
      ? []
      : [
          `The peer no longer reports ${listed(lost)}, which the sites agreed on${effects.length === 0 ? '' : `: ${effects.join(', ')}`}.`,
        ]),
    ...(gained.length === 0
      ? []
      : [
          `The peer now also reports ${listed(gained)}. The sites have not agreed on it, so it has no effect.`,
        ]),
  ].join(' ');
}

/** A message has at most this many names. The status has all of them. */
const mostListed = 8;

function listed(names: readonly string[]): string {
  const shown = names.slice(0, mostListed).join(', ');
  const more = names.length - mostListed;
  return more > 0 ? `${shown} and ${more} more` : shown;
}

function without(names: readonly string[], others: readonly string[]): string[] {
  return names.filter((each) => !others.includes(each)).toSorted();
}

function sorted({ capabilities, extensionSlugs }: FeatureNames): FeatureNames {
  return {
    capabilities: capabilities.toSorted(),
    extensionSlugs: extensionSlugs.toSorted(),
  };
}
