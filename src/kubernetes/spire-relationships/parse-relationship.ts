// Parses one relationship of a SPIRE server with another trust domain. SpireServers, ClusterFederatedTrustDomains and
// the request to the sidecar have the same values in three forms, and the schema of SpireServer judges all of them.
// So what an API server stores, the sidecar accepts. Pure.

import { federatedTrustDomainSchema } from '../../api/kinds/spire-federation.ts';
import { wholeObject } from '../../api/schema/field-error.ts';
import { isObject } from '../../api/schema/json.ts';
import { prune } from '../../api/schema/prune.ts';
import type { Infer } from '../../api/schema/schema.ts';
import { validateRest, validateStructure } from '../../api/schema/validate.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';

/** One trust domain that SPIRE fetches the bundle of. */
export interface Relationship {
  readonly trustDomain: string;
  readonly bundleEndpointURL: string;
  readonly profile: 'https_spiffe' | 'https_web';
  /** Of the profile https_spiffe. */
  readonly endpointSpiffeID?: string;
  /** A bundle as SPIFFE JSON for the first contact, where the object has one. */
  readonly bundle?: string;
  /** `spireServerOrigin`, or the ClusterFederatedTrustDomain. */
  readonly from: string;
}

/** An entry that names a trust domain, and from which nothing else can be used. The server keeps what it has. */
export interface HeldRelationship {
  readonly trustDomain: string;
  readonly from: string;
}

export type ParsedRelationship =
  | { readonly relationship: Relationship; readonly problem?: undefined }
  | {
      readonly relationship?: undefined;
      /** Names the field. */
      readonly problem: string;
      /** Undefined where the entry does not name a trust domain either. */
      readonly held: HeldRelationship | undefined;
    };

type FederatedTrustDomain = Infer<typeof federatedTrustDomainSchema>;

/** `from` of relationships that a SpireServer names. */
export const spireServerOrigin = 'SpireServer';

/** `entry` has the form of `federatesWith`, and `path` is where it is, for messages. Never throws. */
export function parseRelationship(
  entry: unknown,
  { from, path }: { readonly from: string; readonly path: string },
): ParsedRelationship {
  const { value } = prune(federatedTrustDomainSchema, withoutUndefined(entry));
  const errors = validateStructure(federatedTrustDomainSchema, value);
  validateRest(federatedTrustDomainSchema, value, undefined, errors);
  if (errors.length > 0) {
    const problem = errors
      .map(
        ({ field, message }) => `${field === wholeObject ? path : `${path}.${field}`}: ${message}`,
      )
      .join('. ');
    const name = isObject(value) ? value['trustDomain'] : undefined;
    return { problem, held: isTrustDomain(name) ? { trustDomain: name, from } : undefined };
  }
  return { relationship: relationshipOf(value as FederatedTrustDomain, from) };
}

/** For an entry that the schema has judged. */
export function relationshipOf(entry: FederatedTrustDomain, from: string): Relationship {
  const { bundleEndpointProfile: profile, endpointSpiffeId, trustDomainBundle = '' } = entry;
  return {
    trustDomain: entry.trustDomain,
    bundleEndpointURL: entry.bundleEndpointUrl,
    profile,
    ...(profile === 'https_spiffe' &&
      endpointSpiffeId !== undefined && { endpointSpiffeID: endpointSpiffeId }),
    ...(trustDomainBundle !== '' && { bundle: trustDomainBundle }),
    from,
  };
}

/** As JSON: the parser takes a field of another form that is missing for a missing field. */
function withoutUndefined(entry: unknown): unknown {
  if (!isObject(entry)) return entry;
  return Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== undefined));
}

export function isTrustDomain(value: unknown): value is string {
  return typeof value === 'string' && TrustDomain.problem(value) === undefined;
}
