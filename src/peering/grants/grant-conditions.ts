// The conditions of a FederationGrant: whether it allows anything now. If not, why and what to do. Pure.

import { knownScopes, peerDistrust } from '../../api/grants.ts';
import { type FederationGrant, grantScopes } from '../../api/kinds/federation-grant.ts';
import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { parseTimestamp } from '../../api/values/date-time.ts';
import { excerpt } from '../../api/values/trust-domain.ts';
import type { ConditionUpdate } from '../../core/reconcile/conditions.ts';

export interface GrantFacts {
  readonly peer: FederationPeer | undefined;
  /** Whether this site has a ServiceOffer of this name. */
  readonly hasOffer: (name: string) => boolean;
  readonly nowMs: number;
}

type Finding = Pick<ConditionUpdate, 'status' | 'reason' | 'message'>;

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
  const axis = emptyAxis(spec);
  if (axis !== undefined) {
    return no(
      'NothingMatches',
      `spec.${axis} matches nothing. Add values to it, or set unrestricted: true.`,
    );
  }
  if (spec.networks?.unrestricted !== true) {
    return no(
      'NoNetworks',
      'This site has no networks yet: only spec.networks: {unrestricted: true} matches.',
    );
  }
  const distrust = peerDistrust(spec.peer, facts.peer);
  if (distrust !== undefined)
    return no('PeerNotTrusted', `${distrust}. To see why: hansa peer show ${spec.peer}.`);
  const offers = spec.offers ?? [];
  if (offers.length === 0) return no('NoTarget', 'The grant has no offers. Set spec.offers.');
  const missing = offers.filter((offer) => !facts.hasOffer(offer));
  const absent = missing.length === 0 ? '' : ` This site has no ServiceOffer ${told(missing)}.`;
  if (missing.length === offers.length) return no('OfferNotFound', absent.trim());
  return {
    status: 'True',
    reason: 'Granted',
    message: `Workloads of ${spec.peer} may ${scopes.join(' and ')}.${absent}`,
  };
}

function emptyAxis(
  spec: FederationGrant['spec'],
): 'nodeInstances' | 'networks' | 'sourceCIDRs' | undefined {
  const { nodeInstances, networks, sourceCIDRs } = spec;
  const isEmpty = (
    axis: { readonly unrestricted?: boolean } | undefined,
    items: readonly string[] | undefined,
  ): boolean => axis?.unrestricted !== true && (items ?? []).length === 0;
  if (isEmpty(nodeInstances, nodeInstances?.ids)) return 'nodeInstances';
  if (isEmpty(networks, networks?.ids)) return 'networks';
  return isEmpty(sourceCIDRs, sourceCIDRs?.cidrs) ? 'sourceCIDRs' : undefined;
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
