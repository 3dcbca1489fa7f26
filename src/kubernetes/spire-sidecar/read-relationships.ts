// Reads what the controller asks of the sidecar. Users of the namespace may write the ConfigMap too, so every value
// is checked. Never throws. Pure.

import { isLabel } from '../../api/metadata/names.ts';
import { isObject } from '../../api/schema/json.ts';
import {
  isEndpointURL,
  isSpiffeID,
  isTrustDomain,
  type Relationship,
} from '../spire/relationships.ts';
import type { RelationshipsDocument } from '../spire/sidecar-contract.ts';

export type ReadRelationships =
  | { readonly document: RelationshipsDocument; readonly problem?: undefined }
  /** Nothing changes at the server then: a broken document is no request to remove relationships. */
  | { readonly document?: undefined; readonly problem: string };

/** More than MAX_FEDERATED_CLUSTERS allows by default. */
const mostRelationships = 1000;
/** As many as the site watches. */
const mostNamespaces = 10_000;
const mostBundleLength = 256 * 1024;
/** Bounds of the time after which a bundle counts as stale. A minute is the shortest refresh of SPIRE. */
const staleBounds = { least: 60, most: 30 * 24 * 3600 } as const;

export function readRelationships(text: unknown): ReadRelationships {
  if (typeof text !== 'string') return { problem: 'the ConfigMap has no relationships.json' };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { problem: 'relationships.json is not JSON' };
  }
  if (!isObject(value)) return { problem: 'relationships.json is not an object' };
  const { trustDomain, staleAfterSeconds, relationships, namespaces } = value;
  if (typeof trustDomain !== 'string' || !isTrustDomain(trustDomain)) {
    return { problem: 'trustDomain is not a trust domain' };
  }
  if (
    typeof staleAfterSeconds !== 'number' ||
    !(staleAfterSeconds >= staleBounds.least && staleAfterSeconds <= staleBounds.most)
  ) {
    return { problem: 'staleAfterSeconds is not between one minute and 30 days' };
  }
  if (!Array.isArray(relationships) || relationships.length > mostRelationships) {
    return { problem: 'relationships is not a list, or too long' };
  }
  if (namespaces !== undefined && !isNamespaces(namespaces)) {
    return { problem: 'namespaces is not a list of names of namespaces, or too long' };
  }
  const found = new Map<string, Relationship>();
  for (const [index, item] of relationships.entries()) {
    const read = relationshipOf(item);
    if (typeof read === 'string') return { problem: `relationships[${index}]: ${read}` };
    if (read.trustDomain === trustDomain) {
      return { problem: `relationships[${index}]: it names the trust domain of this server` };
    }
    if (found.has(read.trustDomain)) {
      return { problem: `relationships[${index}]: ${read.trustDomain} is there twice` };
    }
    found.set(read.trustDomain, read);
  }
  return {
    document: {
      trustDomain,
      staleAfterSeconds,
      withholdStaleBundles: value['withholdStaleBundles'] === true,
      adoptExisting: value['adoptExisting'] === true,
      ...(namespaces !== undefined && { namespaces }),
      relationships: [...found.values()],
    },
  };
}

const isNamespaces = (value: unknown): value is readonly string[] =>
  Array.isArray(value) &&
  value.length <= mostNamespaces &&
  value.every((name) => typeof name === 'string' && isLabel(name));

function relationshipOf(value: unknown): Relationship | string {
  if (!isObject(value)) return 'it is not an object';
  const { trustDomain, bundleEndpointURL, profile, endpointSpiffeID, bundle, from } = value;
  if (typeof trustDomain !== 'string' || !isTrustDomain(trustDomain)) {
    return 'trustDomain is not a trust domain';
  }
  if (typeof bundleEndpointURL !== 'string' || !isEndpointURL(bundleEndpointURL)) {
    return 'bundleEndpointURL is not an https URL without user information';
  }
  if (bundle !== undefined && (typeof bundle !== 'string' || bundle.length > mostBundleLength)) {
    return 'bundle is not text, or too long';
  }
  const common = {
    trustDomain,
    bundleEndpointURL,
    ...(typeof bundle === 'string' && bundle !== '' && { bundle }),
    from: typeof from === 'string' ? from : '',
  };
  if (profile === 'https_web') return { ...common, profile };
  if (profile !== 'https_spiffe') return 'profile is neither https_spiffe nor https_web';
  if (!isSpiffeID(endpointSpiffeID)) return 'endpointSpiffeID is not a SPIFFE ID';
  return { ...common, profile, endpointSpiffeID };
}
