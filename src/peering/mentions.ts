// Does anything at this site already speak of a trust domain? Then whoever comes under that name
// gets rights at once, and a person should look at it first.

import type { Entry, Store } from '../core/store/store.ts';

interface Mentioning {
  readonly metadata: { readonly name: string };
  readonly spec?: {
    readonly peer?: unknown;
    readonly federatesWith?: unknown;
  };
}

/** What mentions it first, in words; undefined where nothing does. O(objects of these kinds). */
export function mentionOf(
  store: Pick<Store, 'get' | 'list'>,
  trustDomain: string,
): string | undefined {
  if (store.get('spiffefederations', trustDomain) !== undefined) {
    return `there is a SPIFFEFederation ${trustDomain} already`;
  }
  if (store.get('federationpeers', trustDomain) !== undefined) {
    return `${trustDomain} was a peer before`;
  }
  for (const { metadata, spec } of objects(store.list('federationgrants').entries)) {
    if (spec?.peer === trustDomain) return `the FederationGrant ${metadata.name} names it already`;
  }
  for (const { metadata, spec } of objects(store.list('workloadentries').entries)) {
    if (Array.isArray(spec?.federatesWith) && spec.federatesWith.includes(trustDomain)) {
      return `the WorkloadEntry ${metadata.name} federates with it already`;
    }
  }
  return undefined;
}

function* objects(entries: readonly Entry[]): Generator<Mentioning> {
  for (const { value } of entries) yield JSON.parse(value.toString('utf8')) as Mentioning;
}
