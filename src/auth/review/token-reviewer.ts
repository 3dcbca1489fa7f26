// The contract of a reviewer: answers one question about a token of one cluster.

import type { ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import type { TokenQuestion, Verdict } from './verdict.ts';

export interface TokenReviewer {
  /**
   * Returns the verdict at once where everything is known, otherwise a promise. Rejects with
   * HANSA_UNAVAILABLE, which names the cluster and the reason and never the token, where it cannot check.
   */
  review(cluster: ReviewedCluster, question: TokenQuestion): Verdict | Promise<Verdict>;
}
