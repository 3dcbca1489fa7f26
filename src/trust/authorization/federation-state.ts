// Reads federations, peers, offers and grants from the store, to decide what a workload gets. Peering
// writes most of them. The two planes share data only through the store.

import { type FederationGrant, federationGrantKind } from '../../api/kinds/federation-grant.ts';
import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { type ServiceOffer, serviceOfferKind } from '../../api/kinds/service-offer.ts';
import { peerLabel, spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import type { ObjectMeta } from '../../api/object.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Entry, Store } from '../../core/store/store.ts';
import type { BundleFacts } from './entitlement.ts';
import { type FederatedBundles, federationSummaries } from '../federation/federated-bundles.ts';

/** Whatever of these changes may change what a workload gets. */
export const federationStateCollections: readonly string[] = [
  spiffeFederationKind.plural,
  federationPeerKind.plural,
  federationGrantKind.plural,
  serviceOfferKind.plural,
];

interface Named {
  readonly metadata: Pick<ObjectMeta, 'name' | 'deletionTimestamp' | 'labels'>;
}

/** As of one moment, but for `bundleOf`, whose life grows whenever an endpoint confirms the bundle. Immutable. */
export interface FederationState {
  /** The trust domains that this site federates with, in order. */
  readonly federations: readonly string[];
  /** Of the federations, by trust domain. */
  readonly labels: ReadonlyMap<string, ObjectMeta['labels']>;
  /** What the site knows of the bundle of a federation; undefined where there is no federation. */
  readonly bundleOf: (trustDomain: string) => BundleFacts | undefined;
  /** The federations that the peering plane manages. Without a trusted peer, no workload gets their bundles. */
  readonly keptByPeering: ReadonlySet<string>;
  readonly peers: ReadonlyMap<string, FederationPeer>;
  readonly grantsByPeer: ReadonlyMap<string, readonly FederationGrant[]>;
  readonly offers: ReadonlyMap<string, ServiceOffer>;
}

const peersReader = kindReader(federationPeerKind);
const grantsReader = kindReader(federationGrantKind);
const offersReader = kindReader(serviceOfferKind);

/** Makes a new `FederationState` only after a change. */
export class StoreFederationState {
  readonly #store: Pick<Store, 'list'>;
  readonly #bundles: Pick<FederatedBundles, 'factsOf'>;
  #listings: readonly (readonly Entry[])[] = [];
  #current: FederationState | undefined;

  constructor(store: Pick<Store, 'list'>, bundles: Pick<FederatedBundles, 'factsOf'>) {
    this.#store = store;
    this.#bundles = bundles;
  }

  get current(): FederationState {
    // A listing hands out the same array until the collection changes (see Store.list).
    const listings = federationStateCollections.map(
      (collection) => this.#store.list(collection).entries,
    );
    if (
      this.#current === undefined ||
      listings.some((entries, index) => entries !== this.#listings[index])
    ) {
      this.#listings = listings;
      this.#current = this.#read();
    }
    return this.#current;
  }

  #read(): FederationState {
    const [federations = [], peers = [], grants = [], offers = []] = this.#listings;
    const grantsByPeer = new Map<string, FederationGrant[]>();
    for (const grant of grants.map((entry) => grantsReader.of(entry)).filter(remains)) {
      const same = grantsByPeer.get(grant.spec.peer);
      if (same === undefined) grantsByPeer.set(grant.spec.peer, [grant]);
      else same.push(grant);
    }
    const objects = federations.map((entry) => federationSummaries.of(entry)).filter(remains);
    const federated = objects.map(({ metadata }) => metadata);
    return {
      federations: federated.map(({ name }) => name),
      labels: new Map(federated.map(({ name, labels }) => [name, labels])),
      bundleOf: (trustDomain) => this.#bundles.factsOf(trustDomain),
      keptByPeering: new Set(
        federated.filter(({ labels }) => labels?.[peerLabel] !== undefined).map(({ name }) => name),
      ),
      peers: byName(peers.map((entry) => peersReader.of(entry)).filter(remains)),
      grantsByPeer,
      offers: byName(offers.map((entry) => offersReader.of(entry)).filter(remains)),
    };
  }
}

/** An object that is being deleted counts no more. */
function remains({ metadata }: Named): boolean {
  return metadata.deletionTimestamp === undefined;
}

function byName<T extends Named>(objects: readonly T[]): Map<string, T> {
  return new Map(objects.map((object) => [object.metadata.name, object]));
}
