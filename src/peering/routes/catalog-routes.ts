// The parts of the federation API that need a grant and have no side effects: the catalog and the
// capability report. A peer also uses the catalog as a probe: "denied" means that the site is reachable.

import { clusterKind } from '../../api/kinds/cluster.ts';
import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { serviceOfferKind } from '../../api/kinds/service-offer.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import {
  type PeerRequest,
  type PlaneResponse,
  type PlaneRoute,
  route,
} from '../../core/plane/route.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';
import { ownNames } from '../features.ts';
import { catalogFor } from '../grants/catalog.ts';
import type { CapabilityReport, Catalog } from '../grants/catalog-message.ts';
import { grantsOf } from '../grants/grants-of-peer.ts';
import { publishedFor } from '../grants/operated-clusters.ts';
import { ownCluster } from '../grants/own-clusters.ts';
import { contractVersions, paths } from '../messages.ts';
import { PeerRate } from '../peers/peer-rate.ts';
import { readLimit } from '../timing.ts';

export interface CatalogRoutesParts {
  readonly store: Store;
  readonly clock: Clock;
}

const peers = kindReader(federationPeerKind);
const offers = kindReader(serviceOfferKind);

const report: CapabilityReport = { contractVersions, ...ownNames };

export function catalogRoutes({ store, clock }: CatalogRoutesParts): readonly PlaneRoute[] {
  const rate = new PeerRate(clock, readLimit);
  return [
    route({
      listener: 'federation',
      method: 'GET',
      path: paths.catalog,
      allow: 'peer',
      scope: 'read',
      identity: 'any',
      handle: (request) => {
        limit(request);
        const { name } = request.peer;
        return answer(
          catalogFor(
            { peer: name, sourceAddress: request.address ?? '', nowMs: clock.now() },
            {
              peer: peers.get(store, name),
              grants: grantsOf(store, name),
              offers: offers.list(store),
              clusters: store.list(clusterKind.plural).entries.flatMap(({ name: cluster }) => {
                const own = ownCluster(store, cluster);
                if (own === undefined) return [];
                const published = publishedFor(store, cluster);
                return {
                  name: cluster,
                  issuer: own.issuer,
                  ...(published && { spireTrustDomain: published.trustDomain }),
                };
              }),
            },
          ),
        );
      },
    }),
    route({
      listener: 'federation',
      method: 'GET',
      path: paths.capabilities,
      allow: 'peer',
      scope: 'read',
      identity: 'any',
      handle: (request) => {
        limit(request);
        return answer(report);
      },
    }),
  ];

  function limit({ peer }: PeerRequest): void {
    if (rate.take(peer.uid)) return;
    throw new HansaError(
      'HANSA_TOO_MANY_REQUESTS',
      `Cannot answer ${peer.name}: the rate limit of a peer is ${readLimit.perSecond} reads per second. Retry later.`,
    );
  }
}

function answer(message: Catalog | CapabilityReport): PlaneResponse {
  return { status: 200, contentType: 'application/json', body: JSON.stringify(message) };
}
