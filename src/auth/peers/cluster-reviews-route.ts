// The route by which a peer asks about a token of one of this site's clusters. A grant must name the Cluster and the
// site of the peer. This site reviews as for its own callers: in the mode of the cluster, after its own keys verified
// the token.

import { HansaError } from '../../core/errors/error.ts';
import { TokenBuckets } from '../../core/limits/token-buckets.ts';
import { type PeerRequest, type PlaneRoute, route } from '../../core/plane/route.ts';
import { encodeReview } from '../review/encode-review.ts';
import { maxReviewBytes, readReview } from '../review/read-review.ts';
import { denied, reviewed, type ReviewRouteParts } from '../routes/token-review-routes.ts';
import { ownCluster } from './cluster-keys-route.ts';
import { checkAudiences } from './peer-users.ts';
import { clusterReviewsPath, reviewMessage } from './review-message.ts';

/** Of one peer: about a tenth of a core, if each token is new. Beyond it, the peer gets 429. */
export const reviewsLimit = { burst: 2_000, perSecond: 1_000, maxKeys: 10_000 } as const;

export type ClusterReviewsParts = Pick<
  ReviewRouteParts,
  'clusters' | 'reviewer' | 'limits' | 'metrics' | 'unchecked' | 'audit'
> &
  Pick<ConstructorParameters<typeof TokenBuckets>[0], 'clock'>;

export function clusterReviewsRoute(parts: ClusterReviewsParts): PlaneRoute {
  const rate = new TokenBuckets({ clock: parts.clock, ...reviewsLimit });
  return route({
    listener: 'federation',
    method: 'POST',
    path: clusterReviewsPath,
    allow: 'peer',
    // A TokenReview stores nothing.
    scope: 'read',
    target: { type: 'cluster', nameFrom: 'cluster' },
    handle: async (request) => {
      const { name, uid } = request.peer;
      const wait = rate.take(uid);
      if (wait !== undefined) {
        throw new HansaError(
          'HANSA_TOO_MANY_REQUESTS',
          `Cannot answer ${name}: the rate limit of a peer is ${reviewsLimit.perSecond} reviews per second. Retry in ${wait} s.`,
          { details: { retryAfterSeconds: wait } },
        );
      }
      const startedAtMs = parts.clock.monotonic();
      const cluster = ownCluster(parts.clusters, request.params.cluster);
      const caller = callerOf(request);
      parts.limits.take(caller.user, cluster.name);
      const body = await request.body(maxReviewBytes);
      const asked = readReview(body, { contentType: 'application/json', version: 'v1' });
      checkAudiences(cluster.name, asked.question);
      const verdict = await reviewed(parts, cluster, asked.question, startedAtMs);
      if (!verdict.authenticated) {
        denied(parts, { caller, address: request.address }, cluster, asked.question, verdict);
      }
      const answer = String(encodeReview(asked, verdict, 'json').body);
      return {
        status: 200,
        contentType: 'application/json',
        body: reviewMessage(cluster.name, answer),
      };
    },
  });
}

/** For limits and the audit log. */
function callerOf({ peer }: Pick<PeerRequest, 'peer'>) {
  return { user: `spiffe://${peer.name}/hansa/site`, groups: [], via: 'certificate' } as const;
}
