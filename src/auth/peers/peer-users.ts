// What reviews of clusters of peers have of their own: an explicit audience, and a prefix for every name. Pure.

import { HansaError } from '../../core/errors/error.ts';
import type { PeerCluster } from '../clusters/reviewed-cluster.ts';
import type { TokenQuestion, Verdict } from '../review/verdict.ts';
import { withPrefix } from '../review/with-prefix.ts';

/** Throws HANSA_BAD_REQUEST: a token for the API server of a site must not count at another site by default. */
export function checkAudiences(name: string, { audiences }: TokenQuestion): void {
  if (audiences.length > 0 && !audiences.includes('')) return;
  throw new HansaError(
    'HANSA_BAD_REQUEST',
    `Cannot review the token: the cluster ${name} belongs to another site than the caller, so the review must name the audiences that the token may have, in spec.audiences.`,
  );
}

/** So that no peer can name a user or group of this site, such as system:masters, or of another cluster. */
export function withPeerPrefix({ prefix }: PeerCluster, verdict: Verdict): Verdict {
  return verdict.authenticated ? withPrefix(verdict, prefix) : verdict;
}
