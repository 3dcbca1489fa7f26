// What a SpireServer removes, as far as its form lets anybody say so. The site carries that out also where it can
// apply nothing else of the SpireServer. Pure.

import { isObject } from '../../api/schema/json.ts';
import { isTrustDomain, spireServerOrigin } from './parse-relationship.ts';
import type { RelationshipsDocument } from './sidecar-contract.ts';

export interface NamedTrustDomains {
  /** False: no relationship of the server stays. */
  readonly isFederated: boolean;
  /** Those that `federatesWith` names, in whatever form the rest is. */
  readonly names: ReadonlySet<string>;
}

/** Undefined: the form of the object does not say which trust domains it names. */
export function namedTrustDomains(object: unknown): NamedTrustDomains | undefined {
  const spec = isObject(object) ? object['spec'] : undefined;
  if (!isObject(spec)) return undefined;
  const { federation } = spec;
  if (federation === undefined) return { isFederated: false, names: new Set() };
  if (!isObject(federation)) return undefined;
  const { enabled, federatesWith = [] } = federation;
  if (!Array.isArray(federatesWith)) return undefined;
  const names = federatesWith
    .map((entry) => (isObject(entry) ? entry['trustDomain'] : undefined))
    .filter((name) => isTrustDomain(name));
  return { isFederated: enabled !== false, names: new Set(names) };
}

/** The request without what is removed. Undefined: nothing is. */
export function withoutRemoved(
  document: RelationshipsDocument,
  { isFederated, names }: NamedTrustDomains,
): RelationshipsDocument | undefined {
  const stays = ({ trustDomain, from }: { readonly trustDomain: string; readonly from: string }) =>
    isFederated && (names.has(trustDomain) || from !== spireServerOrigin);
  const relationships = document.relationships.filter(stays);
  const held = document.held.filter(stays);
  const isSame =
    relationships.length === document.relationships.length && held.length === document.held.length;
  return isSame ? undefined : { ...document, relationships, held };
}
