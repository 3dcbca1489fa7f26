// What a user can do about a denied token, from its unverified claims and the clusters of the site. Pure.

import type { Cluster } from '../../api/kinds/cluster.ts';
import type { JsonObject } from '../../api/object.ts';

export interface DeniedReview {
  readonly cluster: string;
  readonly reason: string;
  readonly claims: JsonObject | undefined;
  /** All clusters of the site; empty where the user may not list them. */
  readonly clusters: readonly Cluster[];
}

/** More would hide the reason; `hansa cluster list -o wide` has them all. */
const maxNames = 5;

/** Undefined where the reason itself says enough. */
export function reviewHint({
  cluster,
  reason,
  claims,
  clusters,
}: DeniedReview): string | undefined {
  if (claims === undefined) return undefined;
  if (reason.includes('is invalid for the target audiences')) return audienceHint(claims['aud']);
  const { iss } = claims;
  const others = clusters.filter(
    ({ metadata, spec }) => metadata.name !== cluster && spec.issuer === iss,
  );
  const elsewhere =
    others.length === 0
      ? 'No other cluster of this site has this issuer.'
      : `Other clusters with this issuer: ${namesOf(others)}.`;
  const issuer = clusters.find(({ metadata }) => metadata.name === cluster)?.spec.issuer;
  if (typeof iss === 'string' && issuer !== undefined && iss !== issuer)
    return `The issuer of the token is ${iss}, and that of the cluster is ${issuer}. ${elsewhere}`;
  if (!reason.includes('invalid signature')) return undefined;
  return `The token was changed, or another cluster signed it. ${clusters.length === 0 ? '' : elsewhere}`.trimEnd();
}

function audienceHint(aud: unknown): string | undefined {
  const audiences = (Array.isArray(aud) ? aud : [aud]).filter((each) => typeof each === 'string');
  const [first] = audiences;
  if (first === undefined) return undefined;
  return `The token is for ${audiences.join(', ')}. If you expect tokens for that audience, add: --audience ${first}`;
}

function namesOf(clusters: readonly Cluster[]): string {
  const names = clusters.slice(0, maxNames).map(({ metadata }) => metadata.name);
  const more = clusters.length - names.length;
  return `${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}
