// The route by which a peer gets the trust bundle of a SPIRE server that this site operates. A grant must
// name the Cluster and the site of the peer. The kubernetes plane writes the bundles to the store.

import { HansaError } from '../../core/errors/error.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { type PlaneRoute, route } from '../../core/plane/route.ts';
import type { Store } from '../../core/store/store.ts';
import { publishedFor } from '../grants/operated-clusters.ts';
import { paths } from '../messages.ts';
import { PeerRate } from '../peers/peer-rate.ts';
import { readLimit } from '../timing.ts';

export function clusterBundleRoute({
  store,
  clock,
}: {
  readonly store: Pick<Store, 'get'>;
  readonly clock: Clock;
}): PlaneRoute {
  const rate = new PeerRate(clock, readLimit);
  return route({
    listener: 'federation',
    method: 'GET',
    path: paths.clusterBundle,
    allow: 'peer',
    scope: 'read',
    target: { type: 'cluster', nameFrom: 'cluster' },
    handle: ({ peer, params: { cluster } }) => {
      if (!rate.take(peer.uid)) {
        throw new HansaError(
          'HANSA_TOO_MANY_REQUESTS',
          `Cannot answer ${peer.name}: the rate limit of a peer is ${readLimit.perSecond} reads per second. Retry later.`,
        );
      }
      const published = publishedFor(store, cluster);
      if (published === undefined) {
        throw new HansaError(
          'HANSA_NOT_FOUND',
          `The cluster ${cluster} has no SPIRE server that publishes a bundle.`,
        );
      }
      const { trustDomain, document: bundle } = published;
      const body = JSON.stringify({ cluster, trustDomain, bundle });
      return { status: 200, contentType: 'application/json', body };
    },
  });
}
