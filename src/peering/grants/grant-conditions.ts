// The conditions of a FederationGrant: whether it allows anything now. If not, why and what to do. Pure.

import { type GrantTarget, knownScopes, peerDistrust, targetsOf } from '../../api/grants.ts';
import {
  type FederationGrant,
  type GrantTargetType,
  grantScopes,
} from '../../api/kinds/federation-grant.ts';
import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { parseTimestamp } from '../../api/values/date-time.ts';
import { excerpt } from '../../api/values/trust-domain.ts';
import type { ConditionUpdate } from '../../core/reconcile/conditions.ts';

export interface GrantFacts {
  readonly peer: FederationPeer | undefined;
  /** Whether this site has a target of this name. Services are in clusters, so it cannot tell: true. */
  readonly hasTarget: (type: GrantTargetType, name: string) => boolean;
  readonly nowMs: number;
}

type Finding = Pick<ConditionUpdate, 'status' | 'reason' | 'message'>;

const kindWords: Readonly<Record<GrantTargetType, string>> = {
  offer: 'ServiceOffer',
  cluster: 'Cluster',
  service: 'federated Service',
};
const targetTypes = Object.keys(kindWords) as readonly GrantTargetType[];

/** A message lists at most this many names, and the number of the others. */
const mostTold = 5;

export function grantConditions(
  { metadata, spec }: Pick<FederationGrant, 'metadata' | 'spec'>,
  facts: GrantFacts,
): readonly ConditionUpdate[] {
  const observedGeneration = metadata.generation;
  return [
    { type: 'Ready', ...readiness(spec, facts), observedGeneration },
    { type: 'ScopesKnown', ...scopesFound(spec), observedGeneration },
  ];
}

/** When the grant expires, which changes its conditions. Undefined if it does not expire. */
export function grantEndsAtMs({ spec }: Pick<FederationGrant, 'spec'>): number | undefined {
  return spec.expiresAt === undefined ? undefined : parseTimestamp(spec.expiresAt);
}

function readiness(spec: FederationGrant['spec'], facts: GrantFacts): Finding {
  const no = (reason: string, message: string): Finding => ({ status: 'False', reason, message });
  const endsAtMs = grantEndsAtMs({ spec });
  if (spec.expiresAt !== undefined && (endsAtMs === undefined || facts.nowMs >= endsAtMs)) {
    return no('Expired', `The grant expired at ${spec.expiresAt}.`);
  }
  const scopes = knownScopes({ spec });
  if (scopes.length === 0) {
    return no('NoScope', `The grant has none of the scopes ${grantScopes.join(', ')}. Add one.`);
  }
  const nothing = matchesNothing(spec);
  if (nothing !== undefined) return no('NothingMatches', `The grant allows nothing: ${nothing}.`);
  if (spec.networks?.unrestricted !== true) {
    return no(
      'NoNetworks',
      'This site has no networks yet: only spec.networks: {unrestricted: true} matches.',
    );
  }
  const distrust = peerDistrust(spec.peer, facts.peer);
  if (distrust !== undefined)
    return no('PeerNotTrusted', `${distrust}. To see why: hansa peer show ${spec.peer}.`);
  const targets = targetTypes.flatMap((type) =>
    targetsOf({ spec }, type).map((name) => ({ type, name })),
  );
  if (targets.length === 0) {
    return no(
      'NoTarget',
      'The grant names no target. Set spec.offers, spec.clusters or spec.services.',
    );
  }
  const missing = targets.filter(({ type, name }) => !facts.hasTarget(type, name));
  let absent = absentOf(missing);
  if (missing.length === targets.length) {
    return no(
      missing.every(({ type }) => type === 'offer') ? 'OfferNotFound' : 'TargetNotFound',
      absent,
    );
  }
  if (targetsOf({ spec }, 'cluster').length > 0 && !admitsSite(spec)) {
    if (targets.every(({ type }) => type === 'cluster'))
      return no('NothingMatches', siteNotNamed(spec.peer));
    absent = [absent, siteNotNamed(spec.peer)].join(' ').trim();
  }
  const who = targets.some(({ type }) => type !== 'cluster') ? 'Workloads' : 'The site';
  return {
    status: 'True',
    reason: 'Granted',
    message: [`${who} of ${spec.peer} may ${scopes.join(' and ')}.`, absent].join(' ').trim(),
  };
}

/** Only the site of a peer uses clusters. */
export function admitsSite({ peer, nodeInstances }: FederationGrant['spec']): boolean {
  if (nodeInstances?.unrestricted === true) return true;
  return nodeInstances?.ids?.includes(siteIdOf(peer)) === true;
}

export function siteNotNamed(peer: string): string {
  return `Clusters are for the site of the peer: add ${siteIdOf(peer)} to spec.nodeInstances.`;
}

function siteIdOf(peer: string): string {
  return `spiffe://${peer}/hansa/site`;
}

function absentOf(missing: readonly GrantTarget[]): string {
  return targetTypes
    .flatMap((type) => {
      const names = missing.filter((target) => target.type === type).map(({ name }) => name);
      return names.length === 0 ? [] : [`This site has no ${kindWords[type]} ${told(names)}.`];
    })
    .join(' ');
}

/** Which axes match nothing, and what to do. Undefined if each of them can match something. */
export function matchesNothing({
  nodeInstances,
  networks,
  sourceCIDRs,
}: FederationGrant['spec']): string | undefined {
  const isEmpty = (
    axis: { readonly unrestricted?: boolean } | undefined,
    items: readonly string[] | undefined,
  ): boolean => axis?.unrestricted !== true && (items ?? []).length === 0;
  const empty = [
    ...(isEmpty(nodeInstances, nodeInstances?.ids) ? ['spec.nodeInstances'] : []),
    ...(isEmpty(networks, networks?.ids) ? ['spec.networks'] : []),
    ...(isEmpty(sourceCIDRs, sourceCIDRs?.cidrs) ? ['spec.sourceCIDRs'] : []),
  ];
  const [last, ...others] = empty.toReversed();
  if (last === undefined) return undefined;
  return others.length === 0
    ? `${last} matches nothing. Add values to it, or set unrestricted: true`
    : `${others.toReversed().join(', ')} and ${last} match nothing. Add values to each, or set unrestricted: true`;
}

function scopesFound(spec: FederationGrant['spec']): Finding {
  const scopes: unknown = spec.scopes;
  const unknown = (Array.isArray(scopes) ? scopes : []).filter(
    (scope: unknown) => !grantScopes.some((known) => known === scope),
  );
  if (unknown.length === 0) {
    return { status: 'True', reason: 'Known', message: 'All scopes of the grant exist.' };
  }
  return {
    status: 'False',
    reason: 'UnknownScope',
    message: `The grant has scopes that do not exist and allow nothing: ${told(unknown.map(String))}. Valid scopes: ${grantScopes.join(', ')}.`,
  };
}

function told(names: readonly string[]): string {
  const more = names.length > mostTold ? ` and ${names.length - mostTold} more` : '';
  return names.slice(0, mostTold).map(excerpt).join(', ') + more;
}
