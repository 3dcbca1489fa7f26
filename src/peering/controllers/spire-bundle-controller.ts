// Fetches bundles of SPIRE servers from peers, for the trust domains that this site wants, and stores them for
// the kubernetes plane. It asks only peers that a Cluster names, and takes only what was asked for. What a peer
// no longer grants is deleted.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { hasCode } from '../../core/errors/error.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import type { Controller } from '../../core/reconcile/controller.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import {
  mostReceived,
  type ReceivedBundle,
  receivedCollection,
  setRecord,
  wantedCollection,
} from '../../core/spire-bundles/records.ts';
import type { Store } from '../../core/store/store.ts';
import type { FederationClient } from '../client/federation-client.ts';
import { maxCatalogBytes, parseCatalog } from '../grants/catalog-message.ts';
import { maxClusterBundleBytes, parseClusterBundle } from '../grants/cluster-bundle-message.ts';
import { wantedFrom } from '../grants/operated-clusters.ts';
import { paths } from '../messages.ts';
import { type PeerRepository, peersCollection } from '../peers/peer-repository.ts';
import { isLive } from '../peers/peer-states.ts';
import { isAboutAnswer } from '../peers/refused-message.ts';
import type { PeeringSettings } from '../settings.ts';
import { peeringLease } from './peer-controller.ts';

const leaseName = `${peeringLease}.spire-bundles`;
/** While a bundle is wanted. It is for the first contact only, so nothing is lost by a minute. */
const askAgainMs = 60_000;
/** Questions to one peer in one round, also those without a good answer. Below the burst of its rate limit. */
const mostQuestions = mostReceived;

export interface SpireBundleParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly settings: Pick<PeeringSettings, 'callTimeoutMs'>;
  readonly peers: Pick<PeerRepository, 'get'>;
  readonly client: Pick<FederationClient, 'read'>;
}

export function spireBundleController(parts: SpireBundleParts): Controller {
  const { store, clock, peers } = parts;
  return {
    name: 'peering-spire-bundles',
    lease: leaseName,
    parallelism: 8,
    timeoutMs: (mostQuestions + 2) * parts.settings.callTimeoutMs,
    sources: [
      new StoreSource({ store, clock, collection: peersCollection }),
      new StoreSource({
        store,
        clock,
        collection: wantedCollection,
        keysOf: () => store.list(peersCollection).entries.map(({ name }) => name),
      }),
      // Of peers that were removed while no replica ran.
      new StoreSource({
        store,
        clock,
        collection: receivedCollection,
        keysOf: ({ name }) => (store.get(peersCollection, name) === undefined ? [name] : []),
      }),
    ],
    reconcile: async (name, { signal, log }) => {
      const keep = (bundles: readonly ReceivedBundle[]): Promise<boolean> =>
        setRecord(store, receivedCollection, name, bundles.length > 0 ? { bundles } : undefined);
      const peer = await peers.get(name);
      const wanted = wantedFrom(store, name);
      const isTrusted = isLive(peer?.status?.state) && peer?.spec.desiredState !== 'suspended';
      if (peer === undefined || !isTrusted || wanted.size === 0) {
        await keep([]);
        return undefined;
      }
      try {
        await keep(
          await fetchBundles(parts, peer, wanted, signal, (cluster, error) =>
            log.warn('rejected the bundle of a SPIRE server', { peer: name, cluster, error }),
          ),
        );
      } catch (error) {
        // The grant has ended, and with it what it gave.
        if (hasCode(error, 'HANSA_FORBIDDEN') || hasCode(error, 'HANSA_PEER_REFUSED'))
          await keep([]);
        log.debug('cannot fetch bundles of SPIRE servers', { peer: name, error });
      }
      return { requeueAfterMs: askAgainMs };
    },
  };
}

async function fetchBundles(
  { client }: SpireBundleParts,
  peer: FederationPeer,
  wanted: ReadonlySet<string>,
  signal: AbortSignal,
  rejected: (cluster: string, error: unknown) => void,
): Promise<readonly ReceivedBundle[]> {
  const catalog = {
    maxBytes: maxCatalogBytes,
    parse: (body: Buffer) => parseCatalog(body, TrustDomain.parse(peer.metadata.name)),
  };
  const { clusters } = await client.read(peer, paths.catalog, catalog, signal);
  const bundles: ReceivedBundle[] = [];
  let questions = 0;
  for (const { name: cluster, spireTrustDomain: trustDomain } of clusters) {
    if (trustDomain === undefined || !wanted.has(trustDomain)) continue;
    if (questions === mostQuestions) break;
    questions++;
    const path = pathTo(paths.clusterBundle, { cluster });
    try {
      const bundle = {
        maxBytes: maxClusterBundleBytes,
        parse: (body: Buffer) => parseClusterBundle(body, { cluster, trustDomain }),
      };
      bundles.push(await client.read(peer, path, bundle, signal));
    } catch (error) {
      // One bad bundle does not hold up the others. A peer that cannot be reached keeps what it gave.
      if (!isAboutAnswer(error) && !hasCode(error, 'HANSA_FORBIDDEN')) throw error;
      rejected(cluster, error);
    }
  }
  return bundles;
}
