// The records by which the kubernetes plane and the peering plane exchange trust bundles of SPIRE servers.
// Readers check and bound each record once. A damaged record counts as none, and its writer replaces it.

import { commitFenced } from '../lease/current-fence.ts';
import { recordReader } from '../store/reader.ts';
import type { Store } from '../store/store.ts';

/** By the name of the Cluster whose SPIRE server this site operates. */
export const publishedCollection = 'spire.published';
/** By the name of the Cluster whose SPIRE server needs bundles for its first contact. */
export const wantedCollection = 'spire.wanted';
/** By the trust domain of the peer that sent them. */
export const receivedCollection = 'spire.received';

/** Of one bundle. 64 authorities with RSA keys need about 100 kB. */
export const mostDocumentLength = 128 * 1024;
/** From one peer. So many of the largest fit into one value of the store. */
export const mostReceived = 10;
const mostTrustDomains = 1000;
const mostPeers = 64;
/** Of names and UIDs. */
const mostNameLength = 255;

export interface PublishedBundle {
  /** Of the Cluster, so that a new Cluster of the same name publishes nothing of the old one. */
  readonly uid: string;
  /** Of the SPIRE server. */
  readonly trustDomain: string;
  /** As SPIFFE JSON. */
  readonly document: string;
}

export interface WantedBundles {
  readonly uid: string;
  /** Those that `federatesWith` names without a bundle. */
  readonly trustDomains: readonly string[];
  /** Trust domains of the peers that may send them. */
  readonly peers: readonly string[];
}

export interface ReceivedBundle {
  /** The Cluster at the peer. */
  readonly cluster: string;
  readonly trustDomain: string;
  readonly document: string;
}

export interface ReceivedBundles {
  readonly bundles: readonly ReceivedBundle[];
}

type Fields = Readonly<Record<string, unknown>>;

export const publishedReader = recordReader<Fields>(publishedCollection).derive(
  ({ uid, trustDomain, document }): PublishedBundle | undefined =>
    isName(uid) && isName(trustDomain) && isDocument(document)
      ? { uid, trustDomain, document }
      : undefined,
);

export const wantedReader = recordReader<Fields>(wantedCollection).derive(
  ({ uid, trustDomains, peers }): WantedBundles | undefined =>
    isName(uid) && areNames(trustDomains, mostTrustDomains) && areNames(peers, mostPeers)
      ? { uid, trustDomains, peers }
      : undefined,
);

export const receivedReader = recordReader<Fields>(receivedCollection).derive(
  ({ bundles }): ReceivedBundles | undefined =>
    Array.isArray(bundles) && bundles.length <= mostReceived && bundles.every(isReceived)
      ? { bundles }
      : undefined,
);

/** Makes the record equal to `value`; undefined deletes it. Writes only a change. Resolves to whether it wrote. */
export async function setRecord(
  store: Pick<Store, 'get' | 'commit'>,
  collection: string,
  name: string,
  value: object | undefined,
): Promise<boolean> {
  const known = store.get(collection, name);
  if (value === undefined) {
    if (known === undefined) return false;
    await commitFenced(store, { delete: [{ collection, name }] });
    return true;
  }
  const bytes = Buffer.from(JSON.stringify(value));
  if (known?.value.equals(bytes) === true) return false;
  await commitFenced(store, { put: [{ collection, name, encode: () => bytes }] });
  return true;
}

const isName = (value: unknown): value is string =>
  typeof value === 'string' && value !== '' && value.length <= mostNameLength;

const isDocument = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= mostDocumentLength;

const areNames = (value: unknown, most: number): value is readonly string[] =>
  Array.isArray(value) && value.length <= most && value.every(isName);

function isReceived(value: unknown): value is ReceivedBundle {
  if (typeof value !== 'object' || value === null) return false;
  const { cluster, trustDomain, document } = value as Fields;
  return isName(cluster) && isName(trustDomain) && isDocument(document);
}
