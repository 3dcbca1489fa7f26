// Prefixes for webhook authenticators. An API server that authenticates users by reviews of another cluster
// must not take that cluster's users and groups for its own. Pure.

import type { ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import type { Verdict } from '../review/verdict.ts';

/** The verdict as this caller gets it: with the prefix of the cluster where it is a webhook authenticator. */
export function verdictFor(
  caller: string,
  cluster: Pick<ReviewedCluster, 'webhookPrefixes'>,
  verdict: Verdict,
): Verdict {
  if (!verdict.authenticated || cluster.webhookPrefixes.size === 0) return verdict;
  const prefix = cluster.webhookPrefixes.get(caller);
  if (prefix === undefined) return verdict;
  const { username, uid, groups, extra } = verdict.user;
  return {
    ...verdict,
    user: {
      username: `${prefix}${username}`,
      // A cluster chooses its UIDs, so they must not equal those of another either.
      uid: uid === '' ? '' : `${prefix}${uid}`,
      groups: groups.map((group) => `${prefix}${group}`),
      extra,
    },
  };
}
