// The relationships of a SPIRE server with other trust domains: from `federatesWith` of its SpireServer, and from
// the ClusterFederatedTrustDomains that users write. Pure.

import { createHash } from 'node:crypto';
import type { JsonObject } from '../../api/object.ts';
import { isObject } from '../../api/schema/json.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { type Manifest, ownLabels } from '../../core/kube/manifests/manifest.ts';
import type { SpireServerSpec } from './read-spire-server.ts';

/** One trust domain that SPIRE fetches the bundle of. */
export interface Relationship {
  readonly trustDomain: string;
  readonly bundleEndpointURL: string;
  readonly profile: 'https_spiffe' | 'https_web';
  /** Of the profile https_spiffe. */
  readonly endpointSpiffeID?: string;
  /** A bundle as SPIFFE JSON for the first contact, where the object has one. */
  readonly bundle?: string;
  /** `SpireServer`, or the name of a ClusterFederatedTrustDomain. */
  readonly from: string;
}

export interface RelationshipProblem {
  readonly from: string;
  readonly reason: 'OtherClass' | 'Malformed' | 'OwnTrustDomain' | 'Duplicate';
  readonly message: string;
}

export interface Relationships {
  /** By trust domain, in its order. */
  readonly list: readonly Relationship[];
  readonly problems: readonly RelationshipProblem[];
}

export const federatedTrustDomainVersion = 'spire.spiffe.io/v1alpha1';
export const federatedTrustDomainKind = 'ClusterFederatedTrustDomain';
/** A URL, a bundle and other fields of one object, which a hostile user wrote. */
const mostBundleBytes = 256 * 1024;

/**
 * `objects` are all ClusterFederatedTrustDomains of the cluster. Only those of our class count. Of two for one
 * trust domain, `federatesWith` comes first, and then the first by name.
 */
export function relationshipsOf(
  spec: SpireServerSpec,
  objects: readonly unknown[],
  className: string,
): Relationships {
  const federation = spec.federation?.enabled === true ? spec.federation : undefined;
  if (federation === undefined) return { list: [], problems: [] };
  const found = new Map<string, Relationship>();
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
  for (const other of federation.federatesWith ?? []) {
    add({
      trustDomain: other.trustDomain,
      bundleEndpointURL: other.bundleEndpointUrl,
      profile: other.bundleEndpointProfile,
      ...(other.bundleEndpointProfile === 'https_spiffe' &&
        other.endpointSpiffeId !== undefined && { endpointSpiffeID: other.endpointSpiffeId }),
      ...(other.trustDomainBundle !== undefined &&
        other.trustDomainBundle !== '' && { bundle: other.trustDomainBundle }),
      from: 'SpireServer',
    });
  }
  const sorted = objects
    .map((object) => ({ object, name: nameOf(object) }))
    .toSorted((a, b) => (a.name < b.name ? -1 : Number(a.name > b.name)));
  for (const { object, name } of sorted) {
    // What this operator wrote comes from `federatesWith`.
    if (isOwnObject(object)) continue;
    const read = readObject(object, name, className);
    if ('reason' in read) problems.push(read);
    else add(read);
  }
  const list = [...found.values()].toSorted((a, b) => (a.trustDomain < b.trustDomain ? -1 : 1));
  return { list, problems: problems.filter(({ reason }) => reason !== 'OtherClass') };
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

/** An object of a user, whose schema the API server checked, but not the grammar of its values. */
function readObject(
  object: unknown,
  name: string,
  className: string,
): Relationship | RelationshipProblem {
  const from = `${federatedTrustDomainKind} ${name}`;
  const spec = fieldsOf(fieldsOf(object)['spec']);
  const malformed = (what: string): RelationshipProblem => ({
    from,
    reason: 'Malformed',
    message: `${from}: ${what}`,
  });
  if ((spec['className'] ?? '') !== className) {
    return { from, reason: 'OtherClass', message: `${from} is of another class.` };
  }
  const trustDomain = textOf(spec['trustDomain']);
  if (!isTrustDomain(trustDomain)) return malformed('spec.trustDomain is not a trust domain.');
  const url = textOf(spec['bundleEndpointURL']);
  if (!isEndpointURL(url)) {
    return malformed('spec.bundleEndpointURL must be an https URL without user information.');
  }
  const bundle = spec['trustDomainBundle'];
  if (bundle !== undefined && (typeof bundle !== 'string' || bundle.length > mostBundleBytes)) {
    return malformed('spec.trustDomainBundle is too large.');
  }
  const { type, endpointSPIFFEID } = fieldsOf(spec['bundleEndpointProfile']);
  const common = {
    trustDomain,
    bundleEndpointURL: url,
    ...(typeof bundle === 'string' && bundle !== '' && { bundle }),
    from,
  };
  if (type === 'https_web') return { ...common, profile: 'https_web' };
  if (type !== 'https_spiffe') return malformed('spec.bundleEndpointProfile.type is unknown.');
  if (!isSpiffeID(endpointSPIFFEID)) {
    return malformed('spec.bundleEndpointProfile.endpointSPIFFEID is not a SPIFFE ID.');
  }
  return { ...common, profile: 'https_spiffe', endpointSpiffeID: endpointSPIFFEID };
}

export function isTrustDomain(text: string): boolean {
  try {
    return TrustDomain.parse(text).name === text;
  } catch {
    return false;
  }
}

export function isSpiffeID(value: unknown): value is string {
  try {
    return typeof value === 'string' && SpiffeId.parse(value).toString() === value;
  } catch {
    return false;
  }
}

export function isEndpointURL(text: string): boolean {
  if (text.length > 2048 || !URL.canParse(text)) return false;
  const { protocol, username, password } = new URL(text);
  return protocol === 'https:' && username === '' && password === '' && !/[\s"'\\]/.test(text);
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
