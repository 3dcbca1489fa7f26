// The relationships of a SPIRE server with other trust domains: from `federatesWith` of its SpireServer, and from
// the ClusterFederatedTrustDomains that users write. Pure.

import { createHash } from 'node:crypto';
import type { JsonObject } from '../../api/object.ts';
import { isObject } from '../../api/schema/json.ts';
import { type Manifest, ownLabels } from '../../core/kube/manifests/manifest.ts';
import {
  type HeldRelationship,
  type ParsedRelationship,
  parseRelationship,
  type Relationship,
  relationshipOf,
  spireServerOrigin,
} from './parse-relationship.ts';
import type { ReadSpec } from '../spire/read-spire-server.ts';

export interface RelationshipProblem {
  readonly from: string;
  readonly reason: 'Malformed' | 'OwnTrustDomain' | 'Duplicate';
  readonly message: string;
}

export interface Relationships {
  /** By trust domain, in its order. */
  readonly list: readonly Relationship[];
  /** Trust domains of entries that cannot be used. What the server has of them stays as it is. */
  readonly held: readonly HeldRelationship[];
  readonly problems: readonly RelationshipProblem[];
}

export const federatedTrustDomainVersion = 'spire.spiffe.io/v1alpha1';
export const federatedTrustDomainKind = 'ClusterFederatedTrustDomain';

/**
 * `objects` are all ClusterFederatedTrustDomains of the cluster. Only those of our class count. Of two for one
 * trust domain, `federatesWith` comes first, and then the first by name. `held` are those of `federatesWith`.
 */
export function relationshipsOf(
  { spec, held }: Pick<ReadSpec, 'spec' | 'held'>,
  objects: readonly unknown[],
  className: string,
): Relationships {
  const federation = spec.federation?.enabled === true ? spec.federation : undefined;
  if (federation === undefined) return { list: [], held: [], problems: [] };
  const found = new Map<string, Relationship>();
  const kept = new Map(held.map((each) => [each.trustDomain, each]));
  const problems: RelationshipProblem[] = [];
  const add = (relationship: Relationship): void => {
    const { trustDomain, from } = relationship;
    const first = found.get(trustDomain);
    if (trustDomain === spec.trustDomain) {
      const message = `${from} names ${trustDomain}, which is the trust domain of this server. Remove it.`;
      problems.push({ from, reason: 'OwnTrustDomain', message });
    } else if (first === undefined) {
      found.set(trustDomain, relationship);
    } else if (!isSameEndpoint(first, relationship)) {
      const message = `${from} and ${first.from} say different things about ${trustDomain}. ${first.from} is used. Remove one of them.`;
      problems.push({ from, reason: 'Duplicate', message });
    }
  };
  for (const entry of federation.federatesWith ?? []) {
    add(relationshipOf(entry, spireServerOrigin));
  }
  const sorted = objects
    .map((object) => ({ object, name: nameOf(object) }))
    .toSorted((a, b) => (a.name < b.name ? -1 : Number(a.name > b.name)));
  for (const { object, name } of sorted) {
    // What this operator wrote comes from `federatesWith`.
    if (isOwnObject(object)) continue;
    const objectSpec = fieldsOf(fieldsOf(object)['spec']);
    if ((objectSpec['className'] ?? '') !== className) continue;
    const parsed = parseObject(objectSpec, name);
    if (parsed.relationship !== undefined) {
      add(parsed.relationship);
      continue;
    }
    const from = `${federatedTrustDomainKind} ${name}`;
    problems.push({ from, reason: 'Malformed', message: `${parsed.problem}.` });
    if (parsed.held !== undefined) kept.set(parsed.held.trustDomain, parsed.held);
  }
  const list = [...found.values()].toSorted((a, b) => (a.trustDomain < b.trustDomain ? -1 : 1));
  return {
    list,
    held: [...kept.values()].filter((each) => !found.has(each.trustDomain)),
    problems,
  };
}

function isSameEndpoint(a: Relationship, b: Relationship): boolean {
  return (
    a.bundleEndpointURL === b.bundleEndpointURL &&
    a.profile === b.profile &&
    a.endpointSpiffeID === b.endpointSpiffeID
  );
}

type Fields = Readonly<Record<string, unknown>>;

const fieldsOf = (value: unknown): Fields => (isObject(value) ? value : {});
const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');
const nameOf = (object: unknown): string => textOf(fieldsOf(fieldsOf(object)['metadata'])['name']);

/** The fields of a user's object in the form of `federatesWith`. */
function parseObject(spec: Fields, name: string): ParsedRelationship {
  const { trustDomain, bundleEndpointURL, bundleEndpointProfile, trustDomainBundle } = spec;
  const { type, endpointSPIFFEID } = fieldsOf(bundleEndpointProfile);
  const from = `${federatedTrustDomainKind} ${name}`;
  const entry = {
    trustDomain,
    bundleEndpointUrl: bundleEndpointURL,
    bundleEndpointProfile: type,
    endpointSpiffeId: endpointSPIFFEID,
    trustDomainBundle,
  };
  return parseRelationship(entry, { from, path: `${from}: spec` });
}

/** On ClusterFederatedTrustDomains that this operator writes from `federatesWith`. */
export const sourceLabel = 'spire.hansa.dev/from';

export const isOwnObject = (object: unknown): boolean =>
  fieldsOf(fieldsOf(fieldsOf(object)['metadata'])['labels'])[sourceLabel] === 'spireserver';

/** Trust domains whose first bundle is in an object, of the site or of a user. */
export function trustDomainsWithBundle(
  objects: readonly unknown[],
  className: string,
): ReadonlySet<string> {
  return new Set(
    objects
      .map((object) => fieldsOf(fieldsOf(object)['spec']))
      .filter((spec) => (spec['className'] ?? '') === className)
      .filter((spec) => textOf(spec['trustDomainBundle']) !== '')
      .map((spec) => textOf(spec['trustDomain'])),
  );
}

/**
 * What spire-controller-manager is given of `federatesWith`: it deletes relationships that no such object names.
 * Relationships that a user's own object already describes are left to that object.
 */
export function compileFederatedTrustDomains(
  { list }: Relationships,
  className: string,
): readonly Manifest[] {
  return list
    .filter(({ from }) => from === 'SpireServer')
    .map((relationship) => ({
      apiVersion: federatedTrustDomainVersion,
      kind: federatedTrustDomainKind,
      metadata: {
        name: objectNameOf(relationship.trustDomain),
        labels: { ...ownLabels, [sourceLabel]: 'spireserver' },
      },
      spec: {
        className,
        trustDomain: relationship.trustDomain,
        bundleEndpointURL: relationship.bundleEndpointURL,
        bundleEndpointProfile: profileOf(relationship),
        ...(relationship.bundle !== undefined && { trustDomainBundle: relationship.bundle }),
      },
    }));
}

function profileOf({ profile, endpointSpiffeID }: Relationship): JsonObject {
  return profile === 'https_web'
    ? { type: 'https_web' }
    : { type: 'https_spiffe', endpointSPIFFEID: endpointSpiffeID ?? '' };
}

/** Without its content: to delete it. */
export const federatedTrustDomainNamed = (name: string): Manifest => ({
  apiVersion: federatedTrustDomainVersion,
  kind: federatedTrustDomainKind,
  metadata: { name },
});

/** A trust domain may be longer than a name, and may have `_`. The hash keeps names of different ones apart. */
export function objectNameOf(trustDomain: string): string {
  const hash = createHash('sha256').update(trustDomain).digest('hex').slice(0, 12);
  const readable = trustDomain
    .replaceAll(/[^a-z0-9.-]/g, '-')
    .slice(0, 200)
    .replaceAll(/^[^a-z0-9]+|[^a-z0-9]+$/g, '')
    .replaceAll(/[.-]*\.[.-]*/g, '.');
  return readable === '' ? `hansa-${hash}` : `hansa-${readable}-${hash}`;
}
