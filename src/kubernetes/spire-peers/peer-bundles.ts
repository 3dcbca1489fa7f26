// Bundles of SPIRE servers between peered sites: what this site publishes for one cluster, which bundles it
// wants, and which received bundle a relationship uses for its first contact.

import type { Cluster } from '../../api/kinds/cluster.ts';
import { spireServerName } from '../../api/kinds/spire-server.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { type Source, StoreSource } from '../../core/reconcile/source.ts';
import {
  mostDocumentLength,
  type PublishedBundle,
  publishedCollection,
  receivedCollection,
  receivedReader,
  setRecord,
  type WantedBundles,
  wantedCollection,
} from '../../core/spire-bundles/records.ts';
import type { Store } from '../../core/store/store.ts';
import type { Warning } from '../spire/compile-conditions.ts';
import type { SpireServerSpec } from '../spire/read-spire-server.ts';
import type { Relationship } from '../spire-relationships/parse-relationship.ts';
import type { Relationships } from '../spire-relationships/relationships.ts';
import { bundleMapKey, bundleOfDocument, bundleOfPem } from '../spire/server-bundle.ts';
import type { StatusDocument } from '../spire-relationships/sidecar-contract.ts';
import type { SpireMark } from '../marked/marks.ts';
import type { SpireWatches } from '../spire/spire-watches.ts';

/** Of all bundles from peers for one server. A ConfigMap takes 1 MiB, and the bundles of users go first. */
const mostPeerLength = 384 * 1024;

/** Undefined where nothing can be published: the server does not federate, or has published no authority yet. */
function publishedBundle(
  uid: string,
  { trustDomain, federation }: Pick<SpireServerSpec, 'trustDomain' | 'federation'>,
  authorities: string | undefined,
): PublishedBundle | undefined {
  if (federation?.enabled !== true || authorities === undefined) return undefined;
  try {
    const { document } = bundleOfPem(authorities, trustDomain);
    return document.length > mostDocumentLength ? undefined : { uid, trustDomain, document };
  } catch (error) {
    if (error instanceof HansaError) return undefined;
    throw error;
  }
}

/** Undefined where no peer may send bundles, or no relationship needs one. */
function wantedBundles(
  uid: string,
  { list }: Relationships,
  peers: readonly string[],
  reported: StatusDocument | undefined,
): WantedBundles | undefined {
  const trustDomains = list
    .filter((relationship) => needsBundle(relationship, reported))
    .map(({ trustDomain }) => trustDomain);
  return peers.length === 0 || trustDomains.length === 0 ? undefined : { uid, trustDomains, peers };
}

/**
 * A user's own bundle comes first, and a bundle that SPIRE refreshed is never replaced. Only `federatesWith`
 * asks for bundles: users of the cluster write ClusterFederatedTrustDomains, and name bundles there.
 */
function needsBundle(
  { bundle, from, trustDomain }: Relationship,
  reported: StatusDocument | undefined,
): boolean {
  if (bundle !== undefined || from !== 'SpireServer') return false;
  const known = reported?.relationships.find((each) => each.trustDomain === trustDomain);
  return known?.lastRefresh === undefined;
}

export interface WithPeerBundles {
  readonly relationships: Relationships;
  readonly warnings: readonly Warning[];
}

/** Fills in bundles that the peers of the mark sent. Peers that send different bundles for one trust domain get none used. */
export function withPeerBundles(
  relationships: Relationships,
  peers: readonly string[],
  reported: StatusDocument | undefined,
  store: Pick<Store, 'get'>,
): WithPeerBundles {
  if (peers.length === 0) return { relationships, warnings: [] };
  const received = peers.flatMap((peer) =>
    (receivedReader.get(store, peer)?.bundles ?? []).map((each) => ({ ...each, peer })),
  );
  let length = 0;
  const warnings: Warning[] = [];
  const warn = (message: string): void => void warnings.push({ reason: 'PeerBundle', message });
  const list = relationships.list.map((relationship) => {
    if (!needsBundle(relationship, reported)) return relationship;
    const { trustDomain } = relationship;
    const offered = received.filter((each) => each.trustDomain === trustDomain);
    const [first] = offered;
    if (first === undefined) return relationship;
    if (offered.some(({ document }) => document !== first.document)) {
      const names = offered.map(({ peer, cluster }) => `${peer} (cluster ${cluster})`).join(', ');
      warn(
        `Several peers send different bundles of ${trustDomain}: ${names}. None is used. Leave one of them in spec.spire.bundlePeers, or give the bundle by hand: hansa spire bootstrap.`,
      );
      return relationship;
    }
    if (length + first.document.length > mostPeerLength) {
      warn(
        `The bundle of ${trustDomain} from ${first.peer} is not used: the bundles of peers are too large together. Give the bundle by hand: hansa spire bootstrap.`,
      );
      return relationship;
    }
    try {
      const { document } = bundleOfDocument(first.document, trustDomain);
      length += document.length;
      return { ...relationship, bundle: document };
    } catch (error) {
      if (!(error instanceof HansaError)) throw error;
      warn(`The bundle of ${trustDomain} from ${first.peer} is not used. ${error.message}`);
      return relationship;
    }
  });
  return { relationships: { ...relationships, list }, warnings };
}

export interface Exchange {
  readonly cluster: Pick<Cluster, 'metadata'>;
  readonly mark: Pick<SpireMark, 'bundlePeers'>;
  readonly spec: SpireServerSpec;
  readonly relationships: Relationships;
  readonly watches: Pick<SpireWatches, 'areMapsRead' | 'mapValue'>;
  /** The report of the sidecar. */
  readonly reported: StatusDocument | undefined;
}

/** Publishes the bundle of the server to peers, and uses those that peers sent. */
export async function exchangeBundles(
  store: Pick<Store, 'get' | 'commit'>,
  { cluster, mark, spec, relationships, watches, reported }: Exchange,
): Promise<WithPeerBundles> {
  // Before that, the site does not know which bundles SPIRE has refreshed. Then the maps wake the controller.
  if (!watches.areMapsRead) return { relationships, warnings: [] };
  const { name, uid } = cluster.metadata;
  const { bundlePeers = [] } = mark;
  const authorities = watches.mapValue(spec.bundleConfigMap, bundleMapKey);
  await tellPeers(store, name, {
    published: publishedBundle(uid, spec, authorities),
    wanted: wantedBundles(uid, relationships, bundlePeers, reported),
  });
  return withPeerBundles(relationships, bundlePeers, reported, store);
}

/** Wakes the controller of a SPIRE server when a peer sent bundles. */
export function bundleSources(
  { store, clock }: { readonly store: Store; readonly clock: Clock },
  { bundlePeers = [] }: Pick<SpireMark, 'bundlePeers'>,
): readonly Source[] {
  const keysOf = (): readonly string[] => [spireServerName];
  return bundlePeers.length === 0
    ? []
    : [new StoreSource({ store, clock, collection: receivedCollection, keysOf })];
}

/** Tells the peering plane what to publish and what to fetch for this cluster. Without `told`, nothing. */
export async function tellPeers(
  store: Pick<Store, 'get' | 'commit'>,
  cluster: string,
  told?: {
    readonly published: PublishedBundle | undefined;
    readonly wanted: WantedBundles | undefined;
  },
): Promise<void> {
  await setRecord(store, publishedCollection, cluster, told?.published);
  await setRecord(store, wantedCollection, cluster, told?.wanted);
}
