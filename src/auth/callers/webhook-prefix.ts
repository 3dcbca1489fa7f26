// Prefixes for webhook authenticators. An API server that authenticates users by reviews of another cluster
// must not take that cluster's users, groups, Pods and Nodes for its own. Pure.

import { clusterKind } from '../../api/kinds/cluster.ts';
import { forbiddenObject } from '../../core/access/denial.ts';
import type { ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import type { Verdict } from '../review/verdict.ts';
import { withPrefix } from '../review/with-prefix.ts';

/** The webhook authenticators of all clusters, by the list of clusters, which is another one after each change. */
const authenticators = new WeakMap<readonly ReviewedCluster[], ReadonlySet<string>>();

/** Throws HANSA_FORBIDDEN for a webhook authenticator that has prefixes for other clusters and none for this one. */
export function checkPrefix(
  caller: string,
  cluster: Pick<ReviewedCluster, 'name' | 'webhookPrefixes'>,
  clusters: readonly ReviewedCluster[],
): void {
  if (cluster.webhookPrefixes.has(caller)) return;
  let all = authenticators.get(clusters);
  if (all === undefined) {
    all = new Set(clusters.flatMap(({ webhookPrefixes }) => [...webhookPrefixes.keys()]));
    authenticators.set(clusters, all);
  }
  if (!all.has(caller)) return;
  throw forbiddenObject(
    clusterKind.plural,
    cluster.name,
    `${caller} is a webhook authenticator, and would take users of this cluster for its own; give it a prefix in spec.callers.webhookAuthenticators of the Cluster`,
  );
}

/** Throws HANSA_FORBIDDEN for a webhook authenticator: version 1 answers with claims, which have no prefix. */
export function refuseWebhookAuthenticator(
  caller: string,
  cluster: Pick<ReviewedCluster, 'name' | 'webhookPrefixes'>,
  clusters: readonly ReviewedCluster[],
): void {
  checkPrefix(caller, cluster, clusters);
  if (!cluster.webhookPrefixes.has(caller)) return;
  throw forbiddenObject(
    clusterKind.plural,
    cluster.name,
    `${caller} is a webhook authenticator, and POST /validate answers with names without the prefix; it must use the TokenReview endpoint`,
  );
}

/** The verdict as this caller gets it: with the prefix of the cluster where it is a webhook authenticator. */
export function verdictFor(
  caller: string,
  cluster: Pick<ReviewedCluster, 'webhookPrefixes'>,
  verdict: Verdict,
): Verdict {
  if (!verdict.authenticated || cluster.webhookPrefixes.size === 0) return verdict;
  const prefix = cluster.webhookPrefixes.get(caller);
  if (prefix === undefined) return verdict;
  return withPrefix(verdict, prefix);
}
