// The route by which a peer gets the keys of one of this site's clusters. A grant must name the Cluster and the site
// of the peer. The keys are public; a grant is needed because a review by them is an answer about this site's users.

import { type Clock, sleep } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { TokenBuckets } from '../../core/limits/token-buckets.ts';
import { type PlaneRoute, route } from '../../core/plane/route.ts';
import type { ClusterDirectory, ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import type { ClusterKeys, KeySet } from '../keys/cluster-keys.ts';
import { clusterKeysPath, keysMessage } from './keys-message.ts';

/** Of one peer. It may ask about each of its clusters after a restart, and then every few minutes. */
export const keysLimit = { burst: 64, perSecond: 4, maxKeys: 10_000 } as const;
/**
 * Older keys are fetched again for the answer, so that the peer can deny a token with an unknown key. For all peers
 * together: they must not use up the fetches of this site's own reviews.
 */
export const refreshAfterMs = 20_000;
/** Half of the time that the peer waits. Then it gets the keys of before. */
const patienceMs = 5_000;
/** Above the number of clusters of a site. */
const maxClusters = 1_000;

export interface ClusterKeysRouteParts {
  readonly clusters: Pick<ClusterDirectory, 'find'>;
  readonly keys: ClusterKeys;
  readonly clock: Clock;
}

export function clusterKeysRoute({ clusters, keys, clock }: ClusterKeysRouteParts): PlaneRoute {
  const rate = new TokenBuckets({ clock, ...keysLimit });
  const refreshes = new TokenBuckets({
    clock,
    burst: 1,
    perSecond: 1000 / refreshAfterMs,
    maxKeys: maxClusters,
  });
  return route({
    listener: 'federation',
    method: 'GET',
    path: clusterKeysPath,
    allow: 'peer',
    scope: 'read',
    target: { type: 'cluster', nameFrom: 'cluster' },
    handle: async ({ peer, params: { cluster: name } }) => {
      const wait = rate.take(peer.uid);
      if (wait !== undefined) {
        throw new HansaError(
          'HANSA_TOO_MANY_REQUESTS',
          `Cannot answer ${peer.name}: the rate limit of a peer is ${keysLimit.perSecond} questions for keys per second. Retry in ${wait} s.`,
          { details: { retryAfterSeconds: wait } },
        );
      }
      const cluster = ownCluster(clusters, name);
      const message = keysMessage(cluster, await newest(cluster), clock.now());
      return { status: 200, contentType: 'application/json', body: JSON.stringify(message) };
    },
  });

  async function newest(cluster: ReviewedCluster): Promise<KeySet> {
    const held = keys.current(cluster);
    if (held !== undefined && clock.now() - held.fetchedAtMs <= refreshAfterMs) return held;
    if (refreshes.take(cluster.uid) === undefined) {
      const fetched = keys.refresh(cluster).catch(() => undefined);
      const ending = new AbortController();
      const enough = sleep(clock, patienceMs, ending.signal).catch(() => undefined);
      await Promise.race([fetched, enough]);
      ending.abort();
    }
    const now = keys.current(cluster);
    if (now !== undefined) return now;
    throw new HansaError(
      'HANSA_UNAVAILABLE',
      `This site has no keys of cluster ${cluster.name} now.`,
    );
  }
}

/** A cluster of another peer is for that peer to grant. Throws HANSA_NOT_FOUND. */
export function ownCluster(
  clusters: Pick<ClusterDirectory, 'find'>,
  name: string,
): ReviewedCluster {
  const cluster = clusters.find(name);
  if (cluster !== undefined && cluster.peer === undefined) return cluster;
  throw new HansaError('HANSA_NOT_FOUND', `This site has no cluster ${name} of its own.`);
}
