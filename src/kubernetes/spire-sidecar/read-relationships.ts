// Reads what the controller asks of the sidecar. Users of the namespace may write the ConfigMap too, so every value
// is checked. Each part is judged by itself: what cannot be used of one trust domain keeps no other one at the
// server. Never throws. Pure.

import { isLabel } from '../../api/metadata/names.ts';
import { isObject } from '../../api/schema/json.ts';
import {
  type HeldRelationship,
  isTrustDomain,
  parseRelationship,
  type Relationship,
} from '../spire-relationships/parse-relationship.ts';
import {
  type RelationshipsDocument,
  requestDigest,
  staleAfterSeconds as defaultStaleAfterSeconds,
} from '../spire-relationships/sidecar-contract.ts';

export type ReadRelationships =
  | {
      readonly document: RelationshipsDocument;
      readonly digest: string;
      /** Parts of the document that are not used, and why. */
      readonly refusals: readonly string[];
      readonly problem?: undefined;
    }
  /** Nothing changes at the server then: such a document says nothing about relationships. */
  | { readonly document?: undefined; readonly refusals?: undefined; readonly problem: string };

/** More than MAX_FEDERATED_CLUSTERS allows by default. */
export const mostRelationships = 1000;
/** As many as the site watches. */
const mostNamespaces = 10_000;
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
  const { trustDomain, relationships, held = [] } = value;
  if (!isTrustDomain(trustDomain)) return { problem: 'trustDomain is not a trust domain' };
  if (!Array.isArray(relationships)) return { problem: 'relationships is not a list' };
  if (!Array.isArray(held)) return { problem: 'held is not a list' };
  const refusals: string[] = [];
  const refuse = (why: string): void => void refusals.push(why);
  const read = relationshipsIn(trustDomain, relationships, refuse);
  for (const item of held) {
    const each = heldOf(item);
    if (each !== undefined && !read.used.has(each.trustDomain))
      read.held.set(each.trustDomain, each);
  }
  const namespaces = namespacesIn(value['namespaces'], refuse);
  return {
    document: {
      trustDomain,
      staleAfterSeconds: staleAfterIn(value['staleAfterSeconds'], refuse),
      withholdStaleBundles: value['withholdStaleBundles'] === true,
      adoptExisting: value['adoptExisting'] === true,
      ...(namespaces !== undefined && { namespaces }),
      relationships: [...read.used.values()],
      held: [...read.held.values()],
    },
    digest: requestDigest(text),
    refusals,
  };
}

function relationshipsIn(
  ownTrustDomain: string,
  items: readonly unknown[],
  refuse: (why: string) => void,
): {
  readonly used: ReadonlyMap<string, Relationship>;
  readonly held: Map<string, HeldRelationship>;
} {
  const used = new Map<string, Relationship>();
  const held = new Map<string, HeldRelationship>();
  for (const [index, item] of items.entries()) {
    const path = `relationships[${index}]`;
    const parsed = parseItem(item, path);
    const named = parsed.relationship ?? parsed.held;
    if (parsed.relationship === undefined) refuse(parsed.problem);
    else if (parsed.relationship.trustDomain === ownTrustDomain) {
      refuse(`${path}: it names the trust domain of this server`);
      continue;
    } else if (used.has(parsed.relationship.trustDomain)) {
      refuse(`${path}: ${parsed.relationship.trustDomain} is there twice`);
    } else if (used.size === mostRelationships) {
      refuse(`${path}: there are more than ${mostRelationships}`);
    } else {
      used.set(parsed.relationship.trustDomain, parsed.relationship);
      continue;
    }
    if (named !== undefined) {
      held.set(named.trustDomain, { trustDomain: named.trustDomain, from: named.from });
    }
  }
  for (const name of used.keys()) held.delete(name);
  return { used, held };
}

/** The fields of the request in the form of `federatesWith`. */
function parseItem(item: unknown, path: string) {
  const fields = isObject(item) ? item : {};
  const { trustDomain, bundleEndpointURL, profile, endpointSpiffeID, bundle, from } = fields;
  const entry = {
    trustDomain,
    bundleEndpointUrl: bundleEndpointURL,
    bundleEndpointProfile: profile,
    endpointSpiffeId: endpointSpiffeID,
    trustDomainBundle: bundle,
  };
  return parseRelationship(entry, { from: typeof from === 'string' ? from : '', path });
}

function heldOf(item: unknown): HeldRelationship | undefined {
  const { trustDomain, from } = isObject(item) ? item : {};
  if (!isTrustDomain(trustDomain)) return undefined;
  return { trustDomain, from: typeof from === 'string' ? from : '' };
}

function staleAfterIn(value: unknown, refuse: (why: string) => void): number {
  const { least, most } = staleBounds;
  if (typeof value === 'number' && value >= least && value <= most) return value;
  refuse('staleAfterSeconds is not between one minute and 30 days');
  return defaultStaleAfterSeconds;
}

/** A name that is none selects no entry, and so does a list that is none: less federates then, and not more. */
function namespacesIn(
  value: unknown,
  refuse: (why: string) => void,
): readonly string[] | undefined {
  if (value === undefined) return undefined;
  const items: readonly unknown[] = Array.isArray(value) ? value.slice(0, mostNamespaces) : [];
  const names = items.filter((name) => typeof name === 'string' && isLabel(name)) as string[];
  if (!Array.isArray(value) || names.length < value.length) {
    refuse('namespaces is not a list of names of namespaces, or too long');
  }
  return names;
}
