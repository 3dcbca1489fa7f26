// The host names of TokenReview endpoints: `api.CLUSTER.BASE`, and `api.BASE` for the local cluster. A base
// below `cluster.local` has a short form without it, which resolvers inside of a cluster accept too. Pure.

import { isLabel } from '../../api/metadata/names.ts';

/** The domain of most clusters, which Pods may leave out. */
const clusterDomain = '.cluster.local';

/** What a host means: a cluster by name, the local cluster, or no cluster. */
export type HostMeaning =
  | { readonly cluster: string }
  | 'local'
  /** Below the base domain, but not the name of an endpoint. */
  | 'malformed'
  /** Not below the base domain. */
  | 'elsewhere';

/** The base domain and its short form. */
export function baseDomains(baseDomain: string): readonly string[] {
  const short = baseDomain.endsWith(clusterDomain)
    ? baseDomain.slice(0, -clusterDomain.length)
    : '';
  return short === '' ? [baseDomain] : [baseDomain, short];
}

/**
 * The domains that are reserved for the site, with everything below them. `api.app1.kube-fed` is among them: Pods
 * resolve it to the endpoint too, though the site has no certificate for it.
 */
export function reservedDomains(baseDomain: string): readonly string[] {
  const bases = baseDomains(baseDomain);
  const [, short = ''] = bases;
  const shortest = short.endsWith('.svc') ? short.slice(0, -'.svc'.length) : '';
  return shortest === '' ? bases : [...bases, shortest];
}

/** The host name of a cluster's endpoint; of the local cluster where `cluster` is undefined. */
export function hostOfCluster(baseDomain: string, cluster: string | undefined): string {
  return cluster === undefined ? `api.${baseDomain}` : `api.${cluster}.${baseDomain}`;
}

/** `host` is in lower case, without port and trailing dot. */
export function meaningOf(bases: readonly string[], host: string): HostMeaning {
  for (const base of bases) {
    if (!host.endsWith(base)) continue;
    const cut = host.length - base.length;
    if (cut === 0) return 'malformed';
    if (host[cut - 1] !== '.') continue;
    const front = host.slice(0, cut - 1);
    if (front === 'api') return 'local';
    const cluster = front.startsWith('api.') ? front.slice(4) : '';
    // A label only, so that a host has one reading.
    return isLabel(cluster) ? { cluster } : 'malformed';
  }
  return 'elsewhere';
}
